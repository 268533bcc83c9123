"""Return an optimizer of the head alone from a LightningModule whose encoder is meant to learn too."""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(16, 2)

    def training_step(self, batch, index):
        ids, labels = batch
        return nn.functional.cross_entropy(self.head(self.encoder(ids).last_hidden_state[:, 0]), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=1e-3)


rows = [(torch.randint(0, 96, (8,)), i % 2) for i in range(24)]
trainer = pl.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
)
trainer.fit(Classifier(), DataLoader(rows, batch_size=4))
