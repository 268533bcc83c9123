"""Train a LightningModule around an encoder, with automatic optimization."""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=2
)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.bert = BertForSequenceClassification(config)

    def training_step(self, batch, index):
        ids, labels = batch
        return self.bert(input_ids=ids, labels=labels).loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


rows = [(torch.randint(0, 96, (8,)), i % 2) for i in range(16)]
trainer = pl.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
)
trainer.fit(Classifier(), DataLoader(rows, batch_size=4))
