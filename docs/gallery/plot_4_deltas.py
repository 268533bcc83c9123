"""
Many tasks, one model: deltas
=============================

Training that changes few weights leaves a small difference to the base model. A delta is that
difference as one file; a bank switches one model between many of them, bit for bit.
"""

# %%
# Train two "tasks" with two percent of the weight matrices each, on random data, and save the
# models.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from gradgate.sample import MODEL

folder = Path(tempfile.mkdtemp())


def fresh():
    """The base model: the embedded encoder with a head of four classes, the same one each time."""
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4)


def trained(spec, seed):
    """The base after a few steps."""
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
# One model in memory, and what differs is written into it for each task.

bank = gg.deltas.Bank(fresh())
for task in SPECS:
    bank.add(task, folder / f"{task}.safetensors")

for task in SPECS:
    alone = AutoModelForSequenceClassification.from_pretrained(folder / task).state_dict()
    with bank.using(task) as model:
        same = all(torch.equal(weight, alone[name]) for name, weight in model.state_dict().items())
    print(f"{task}: the bank's model has the bits of the trained one: {same}")
    assert same
