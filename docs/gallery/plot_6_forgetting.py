"""
Catastrophic forgetting: what a decoder forgets
===============================================

Measure what fine-tuning on a task costs a language model on other text: ``forgetting`` scores that
text before and after. Here the embedded decoder learns to write sentences from facts, and is
measured on opinions, which it was pretrained on.
"""

# %%
# Train for 20 steps, by full fine-tuning and with only the top layer open. The metric is the loss
# per token, which is lower for text that a model knows better.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import gradgate as gg

folder = Path(tempfile.mkdtemp())
settings = {
    "model": "sample-decoder",
    "task": "sample-generation",
    "metric": "loss",
    "forgetting": "sample-opinions",
    "steps": 20,
    "eval_every": 20,
    "lr": 2e-3,
    "batch_size": 16,
    "max_length": 64,
    "skip_test": True,
}

measured = {}
for number, method in enumerate(("full", "freeze:layers=5")):
    run = gg.train(method=method, out=folder / str(number), quiet=True, **settings)
    found = measured[method] = run.scores["forgetting"]
    print(f"{method}: {run.best.dev:.2f} on the task's dev set")
    print(f"    on opinions: {found['before']:.2f} before, {found['after']:.2f} after")

# %%

figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
axis.barh(list(measured), [found["difference"] for found in measured.values()])
axis.axvline(0, color="0.4", lw=0.8)
axis.set_xlabel("loss per token on opinions, after − before")
plt.show()
