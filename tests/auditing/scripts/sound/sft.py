"""Fine-tune a decoder on prompts and completions with TRL and LoRA."""

import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

torch.manual_seed(0)
words = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", "the", "day", "was", "good", "bad", "long", "road", "cold"]
inner = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", bos_token="[BOS]", eos_token="[EOS]"
)
config = LlamaConfig(
    vocab_size=len(words),
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=1,
    pad_token_id=0,
    bos_token_id=2,
    eos_token_id=3,
)
rows = Dataset.from_dict({"prompt": ["the day was", "the road was"] * 8, "completion": [" good", " long"] * 8})
with tempfile.TemporaryDirectory() as folder:
    settings = SFTConfig(
        str(Path(folder) / "out"),
        max_steps=4,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        LlamaForCausalLM(config),
        settings,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, target_modules="all-linear"),
    )
    trainer.train()
