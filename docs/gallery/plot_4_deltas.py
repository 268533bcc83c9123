"""
Many tasks, one model: deltas
=============================

Store three trainings as deltas, one file each, and switch one model between them, bit for
bit. A delta has the weights that differ from the base model's.
"""

# %%
# Train three "tasks" on random data, by methods that change two percent of the weight matrices, the
# top layer and the head, or everything, and save the models.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from gradgate.sample import MODEL

folder = Path(tempfile.mkdtemp())


def fresh():
    """Return the base model: the embedded encoder with four classes, the same each time."""
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4)


def trained(spec, seed):
    """Return the base after a few steps."""
    model = fresh()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tuner = gg.Tuner(model, optimizer, spec, seed=seed, total_steps=5)
    for _ in range(5):
        inputs = torch.randint(5, 200, (8, 16))
        model(input_ids=inputs, labels=inputs[:, 0] % 4).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tuner.detach()
    return model


fresh().save_pretrained(folder / "base")
SPECS = {"tickets": "sparse:share=0.02", "reviews": "freeze:layers=3", "titles": "full"}
for seed, (task, spec) in enumerate(SPECS.items()):
    trained(spec, seed).save_pretrained(folder / task)

# %%
# ``gradgate delta create`` does the same on the command line.

sizes = {"base model": (folder / "base/model.safetensors").stat().st_size}
for task, spec in SPECS.items():
    file = folder / f"{task}.safetensors"
    gg.deltas.create(folder / task, folder / "base", file)
    sizes[f"{task} ({spec})"] = file.stat().st_size

figure, axis = plt.subplots(figsize=(7, 2.4), layout="constrained")
axis.barh(list(sizes), [size / 2**20 for size in sizes.values()], color=["0.6", "C0", "C0", "C0"])
axis.invert_yaxis()
axis.set_xlabel("MiB on disk")
plt.show()

# %%
# The bank has one model in memory and writes the weights that differ into it for each task.

bank = gg.deltas.Bank(fresh())
for task in SPECS:
    bank.add(task, folder / f"{task}.safetensors")

for task in SPECS:
    alone = AutoModelForSequenceClassification.from_pretrained(folder / task).state_dict()
    with bank.using(task) as model:
        same = all(torch.equal(weight, alone[name]) for name, weight in model.state_dict().items())
    print(f"{task}: the bank's model has the bits of the trained one: {same}")
    assert same
