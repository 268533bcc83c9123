"""
What learns when
================

A method is a pure function from the step to one gate for each group of weights. Its plan can be
drawn before anything is trained; ``gradgate plan`` does so in the terminal.
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
# A gate's share says how much of a group learns: 1 for an open group, 0 for a closed one, and
# something between where a method masks single weights. The clock says where training stands: 400
# steps, 80 in an epoch.

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
    """The share of each group that learns: one row a group, one column a step."""
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
# The :doc:`cards of the methods </methods/index>` have such a picture for each of them.
