"""Train a sentence encoder with a contrastive loss, whose transformer has a pooler that mean pooling does not use."""

import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

torch.manual_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "day", "was", "good", "bad", "long", "road", "cold"]
config = BertConfig(
    vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)
with tempfile.TemporaryDirectory() as folder:
    base = Path(folder) / "base"
    BertModel(config).save_pretrained(base)
    (base / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(base)
    transformer = Transformer(str(base))
    model = SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")
    rows = Dataset.from_dict(
        {"anchor": ["the day was good", "the road was long"] * 8, "positive": ["a good day", "a long road"] * 8}
    )
    settings = SentenceTransformerTrainingArguments(
        folder,
        max_steps=4,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(model, settings, train_dataset=rows, loss=MultipleNegativesRankingLoss(model)).train()
