"""
Gradual unfreezing, and what it changed
=======================================

Train a model twice in a plain PyTorch loop, with everything open and with gradual unfreezing from
the top down, and see how far the weights of each layer move.
"""

# %%
# The embedded task: short English reviews of four classes. The data are JSON lines in the package.

import json

import matplotlib.pyplot as plt
import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import gradgate as gg
from gradgate.sample import MODEL, TASKS

rows = [json.loads(line) for line in (TASKS["sample"] / "train.en.jsonl").read_text().splitlines()]
labels = sorted({row["label"] for row in rows})
tokenizer = AutoTokenizer.from_pretrained(MODEL)
print(f"{len(rows)} rows, labels: {', '.join(labels)}")


def batch(step, size=16):
    """Return the rows of one step, the same in each training."""
    chosen = [rows[(step * size + place) % len(rows)] for place in range(size)]
    texts = [row["text"] for row in chosen]
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    return {**inputs, "labels": torch.tensor([labels.index(row["label"]) for row in chosen])}


# %%
# The loop needs no change for a method. The tuner opens and closes weights before each step, and
# counts the steps.

STEPS, EVERY = 48, 12


def train(spec):
    """Return the relative distance of each layer to its pretrained weights after every step."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=len(labels))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    layers = gg.map_layers(model)
    weights = dict(model.named_parameters())
    start = {name: weight.detach().clone() for name, weight in weights.items()}

    def moved(group):
        names = group.parameter_names
        change = sum(float((weights[name].detach() - start[name]).square().sum()) for name in names)
        size = sum(float(start[name].square().sum()) for name in names)
        return (change / size) ** 0.5

    tuner = gg.Tuner(model, optimizer, spec, seed=0, total_steps=STEPS)
    course, losses = [], []
    for step in range(STEPS):
        loss = model(**batch(step)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        course.append([moved(group) for group in layers])
    tuner.detach()
    print(f"{spec}: mean loss of the last ten steps {np.mean(losses[-10:]):.2f}")
    return layers.names, np.array(course)


names, full = train("full")
_, gradual = train(f"gradual:every={EVERY}")

# %%
# A line is flat at zero while its group is closed: closed weights stay bit-identical, whatever the
# optimizer's momentum and weight decay. Groups that open late move less.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
colours = plt.cm.viridis(np.linspace(0, 0.9, len(names)))
for axis, title, course in zip(
    axes, ("full", f"gradual:every={EVERY}"), (full, gradual), strict=True
):
    for place, name in enumerate(names[:-1]):  # the head is new, and moves most
        axis.plot(range(1, STEPS + 1), course[:, place], color=colours[place], label=name)
    axis.set(title=title, xlabel="optimizer steps")
axes[0].set_ylabel("relative change of the weights")
axes[1].legend(frameon=False)
plt.show()

assert not gradual[:EVERY, 0].any()  # the embeddings have not moved before they opened
