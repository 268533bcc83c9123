"""
How many layers can stay frozen? A study
========================================

``gg.compare`` trains each method with each seed and writes a report with tables, statistics and
figures; ``gradgate compare`` is the same in the terminal. This study is small, so that it ends
within a minute: look at what a report says, not at its scores.
"""

# %%
# ``sweep="freeze:step=2"`` compares 0, 2 and 4 frozen layers with full fine-tuning.

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

import gradgate as gg

study = gg.compare(
    sweep="freeze:step=2",
    seeds=2,
    steps=30,
    eval_every=30,
    lr=1e-3,
    batch_size=16,
    max_length=64,
    languages="en,de",
    threads=1,
    out=Path(tempfile.mkdtemp()) / "freeze",
    quiet=True,
)
print(textwrap.fill(study.answer, 90))

# %%
# The main table, as a data frame. ``study.tables`` has the names of the others.

table = study.table()
table[["method", "mean", "ci95_low", "ci95_high", "difference"]]

# %%
# Draw from it what you like.

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
axes.barh(table["method"], 100 * table["mean"])
axes.set_xlabel("accuracy × 100, zero-shot average")
axes.invert_yaxis()

# %%
# Each figure of the report shows itself in a notebook, and is an SVG and a PDF file.

print(", ".join(study.figures))


class Shown:
    """The timeline on this page; in a notebook, ``study.figures["timeline"]`` is enough."""

    def _repr_html_(self):
        return f'<div style="max-width: 30rem">{study.figures["timeline"].inline}</div>'


Shown()

# %%
# ``study.report("report.html")`` writes everything as one page.
