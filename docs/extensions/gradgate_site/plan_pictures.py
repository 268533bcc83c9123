"""Pictures of plans for the method cards, in the look of the reports."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

from gradgate import method
from gradgate.clock import Clock
from gradgate.layers import Group, LayerMap, map_layers
from gradgate.methods import Method
from gradgate.methods.plan_file import Timeline, foresee, read_timeline

MODEL = "sample"
STEPS, EPOCHS = 400, 5


@cache
def layers() -> LayerMap:
    """The groups of the embedded model with the head of its task."""
    from gradgate.training.pretrained import load_bare

    return map_layers(load_bare(MODEL, False))


def timeline_of(spec: str, steps: int, folder: Path) -> Timeline:
    """What a method opens when: foreseen, or from a training on the embedded task where the method measures.

    Args:
        spec: the method.
        steps: of the training where one is needed.
        folder: where trainings stay, so that the next build need not repeat them.
    """
    chosen = method(spec)
    if not chosen.decides_by_measuring:
        return _with_single_parameters(chosen, foresee(chosen, layers(), Clock(0, STEPS // EPOCHS, STEPS)))
    run = folder / f"{chosen.name}-{steps}"
    if not (run / "plan.yaml").is_file():
        from gradgate.training.config import make_config
        from gradgate.training.run import train

        train(make_config(method=spec, steps=steps, threads=1, lr=5e-4, skip_test=True, device="cpu"), run)
    return read_timeline(run / "plan.yaml")


def picture_of(timeline: Timeline, spec: str) -> str:
    """An SVG element that follows the page's light and dark modes, with a caption for those who cannot see it."""
    from gradgate.report.sections.timeline import MethodPlan, draw_timeline

    name = "".join(letter if letter.isalnum() else "-" for letter in spec)
    drawn = draw_timeline([MethodPlan(spec, 0, timeline)])
    return drawn.inline.replace("timeline-", f"{name}-")


def learned(timeline: Timeline) -> float:
    """The share of the weights that learns, as the mean over the steps."""
    shares = timeline.mean_shares()
    return sum(timeline.sizes[name] * share for name, share in shares.items()) / sum(timeline.sizes.values())


def _with_single_parameters(chosen: Method, timeline: Timeline) -> Timeline:
    """The same, where a group of which the method only opens some parameters or rows counts as open in part."""
    grouped = layers().at(chosen.grouped_by)
    shares = {group.name: _opened(chosen, grouped, group) / group.parameter_count for group in grouped}
    if all(share == 1 for share in shares.values()):
        return timeline
    phases = [
        replace(phase, gates={name: replace(gate, hi=gate.hi * shares[name]) for name, gate in phase.gates.items()})
        for phase in timeline.phases
    ]
    return replace(timeline, phases=phases)


def _opened(chosen: Method, grouped: LayerMap, group: Group) -> int:
    """Elements of a group that the method ever opens."""
    names = [name for name in group.parameter_names if chosen.trains(name, group.name)]
    selected = chosen.selection(grouped)
    if selected is None:
        return sum(grouped.weights[name].count for name in names)
    rows = {name: sum(stop - start for start, stop in selected.rows.get(name, ())) for name in names}
    return sum(rows[name] * prod(grouped.weights[name].shape[1:]) for name in names)
