"""Write the command that repeats a study; in the same folder it resumes the study, or adds to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gradgate.settings.command_line import flags_of, given_settings, without_places
from gradgate.study.grid import Grid
from gradgate.study.search import GENERATION_RATES
from gradgate.study.study_file import SearchRecord

_CROSSED = ("task", "model", "train_size")
_OF_A_RUN = ("method", "adapter", "seed")


def compare_command(grids: Sequence[Grid], out: str) -> str:
    """Return the ``gradgate compare`` command of a study, which names no folder of one machine.

    Args:
        grids: of its tasks, models and training sizes, at least one.
        out: the folder that the command names.
    """
    first, settings = grids[0], [given_settings(without_places(grid.base)) for grid in grids]
    words = ["gradgate", "compare"]
    for name in _CROSSED:
        values = list(dict.fromkeys(str(own.get(name, "all")) for own in settings))
        if values != ["all"]:
            words += [word for value in values for word in flags_of({name: value})]
    words += [word for arm in first.methods for word in flags_of({"method": arm.name})]
    if tuple(first.adapters) != (None,):
        words += [word for adapter in first.adapters for word in flags_of({"adapter": adapter or "none"})]
    words += [*flags_of({"seeds": ",".join(map(str, first.seeds))}), *_search(first.search)]
    shared = {name: value for name, value in settings[0].items() if name not in (*_CROSSED, *_OF_A_RUN)}
    return shlex.join([*words, *flags_of(shared), "--out", out])


def _search(search: SearchRecord | None) -> Iterator[str]:
    """Yield what was searched; the rates that every generation tries need no flag."""
    if search is None or search.space == (GENERATION_RATES,):
        return
    for space in search.space:
        yield from flags_of({"search": space})
    if any(".." in space for space in search.space):
        yield from flags_of({"trials": len(search.settings)})
    if len(search.seeds) != 1:
        yield from flags_of({"search_seeds": len(search.seeds)})
    if search.prune:
        yield from flags_of({"prune": True})
