"""
How many layers can stay frozen? A study
========================================

Find out how many layers need to learn: ``gg.compare`` trains each method with each seed, and writes
a report with tables, statistics and figures, as ``gradgate compare`` does in the terminal. This
study takes a minute, so look at what a report has, not at its scores.
"""

# %%
# ``sweep="freeze:step=2"`` compares 2 and 4 frozen layers with full fine-tuning.

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
# The main table is a data frame. ``study.tables`` has the names of the others.

table = study.table()
table[["method", "mean", "ci95_low", "ci95_high", "difference"]]

# %%
# Draw your own figures from it.

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
axes.barh(table["method"], 100 * table["mean"])
axes.set_xlabel("accuracy × 100, zero-shot average")
axes.invert_yaxis()

# %%
# Each figure of the report displays itself in a notebook, and is an SVG and a PDF file.

print(", ".join(study.figures))


class Shown:
    """Show the timeline on this page; in a notebook, ``study.figures["timeline"]`` is enough."""

    def _repr_html_(self):
        return f'<div style="max-width: 30rem">{study.figures["timeline"].inline}</div>'


Shown()

# %%
# ``study.report("report.html")`` writes the whole report as one page.
