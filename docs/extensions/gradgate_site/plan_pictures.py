"""Pictures of plans for the method cards, in the look of the reports."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gradgate import method
from gradgate.clock import Clock
from gradgate.layers import LayerMap, map_layers
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import Timeline, foresee

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
    if not chosen.traits.decides_by_measuring:
        return foresee(chosen, layers(), Clock(0, STEPS // EPOCHS, STEPS))
    run = folder / f"{chosen.name}-{steps}"
    if not (run / "plan.yaml").is_file():
        from gradgate.settings.run import make_config
        from gradgate.training.run import train

        train(make_config(method=spec, steps=steps, threads=1, lr=5e-4, skip_test=True, device="cpu"), run)
    return read_timeline(run / "plan.yaml")


def picture_of(timeline: Timeline, spec: str) -> str:
    """An SVG element that follows the page's light and dark modes, with a caption for those who cannot see it."""
    from gradgate.report.sections.timeline_figure import MethodPlan, draw_timeline

    name = "".join(letter if letter.isalnum() else "-" for letter in spec)
    drawn = draw_timeline([MethodPlan(spec, 0, timeline)])
    return drawn.inline.replace("timeline-", f"{name}-")
