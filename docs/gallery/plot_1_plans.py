"""
What learns when
================

Draw the plans of six methods before anything is trained, as ``gradgate plan`` does in the terminal.
A method is a pure function from the step to one gate per group of weights.
"""

# %%
# The groups of the embedded encoder, from the embeddings up to the head.

import matplotlib.pyplot as plt
import numpy as np
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from gradgate.sample import MODEL

model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4)
layers = gg.map_layers(model)
print(layers)

# %%
# A gate's share says how much of a group learns: 1 if it is open, 0 if it is closed, and a value in
# between if a method masks single weights. The clock has the step: 400 steps, 80 per epoch.

STEPS = 400
SPECS = [
    "gradual:every=60",
    "gradfreeze",
    "lisa:layers=1,every=40",
    "blocks:every=50",
    "graddrop-epoch",
    "anneal-graddrop",
]


def shares(spec):
    """Return the share of each group that learns: one row per group, one column per step."""
    method = gg.method(spec)
    own = layers.at(method.traits.unit)
    plans = (
        method.plan(gg.Clock(step, 80, STEPS), own, gg.MethodState(seed=0)) for step in range(STEPS)
    )
    columns = np.array([[plan[name].share for name in own.names] for plan in plans]).T
    whole = [np.array([group.layer == layer.name for group in own]) for layer in layers]
    return np.array([columns[rows].mean(axis=0) for rows in whole])


figure, axes = plt.subplots(3, 2, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for axis, spec in zip(axes.flat, SPECS, strict=True):
    axis.imshow(
        shares(spec),
        origin="lower",
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=1,
        interpolation="none",
    )
    axis.set_title(spec, loc="left", fontsize=10)
    axis.set_yticks(range(len(layers)), layers.names)
for axis in axes[-1]:
    axis.set_xlabel("optimizer steps")
plt.show()

# %%
# The :doc:`cards of the methods </methods/index>` have such a picture of each method.
