"""The table of what a decoder's arms learned and forgot."""

from __future__ import annotations

from pathlib import Path

from evidence.forgetting import ROWS, forgetting_table
from gradgate.analysis.forgetting import ForgettingRow


def test_arms_are_compared_by_seed_and_only_their_best_weights_count(tmp_path: Path) -> None:
    runs, measured = tmp_path / "runs.csv", tmp_path / "measured.csv"
    scores = {("full", ""): (0.5, 0.6, 0.7), ("full", "lora:r=4"): (0.45, 0.55, 0.68)}
    lines = ["train_size,method,adapter,seed,status,score,forgetting.before,forgetting.after"]
    for (method, adapter), own in scores.items():
        lines += [f",{method},{adapter},{seed},finished,{score},2.0,{3 - score}" for seed, score in enumerate(own)]
    runs.write_text("\n".join(lines), encoding="utf-8")
    rows = [
        ForgettingRow(
            arm=arm, seed=seed, run="r", text="t", fingerprint="f", metric="kl", higher_is_better=False,
            step=step, best=step == 9, value=step * moved,
        )
        for arm, moved in (("full", 0.25), ("lora:r=4", 0.125))
        for seed in range(3)
        for step in (0, 9)
    ]  # fmt: skip
    ROWS.write(measured, rows)
    assert forgetting_table(runs, measured).splitlines()[2:] == [
        "| `full` | 60.0 ± 10.0 | reference | 2.000 → 2.400 | 2.250 |",
        "| `lora:r=4` | 56.0 ± 11.5 | −4.0 [−8.3 to +0.3] | 2.000 → 2.440 | 1.125 |",
    ]
