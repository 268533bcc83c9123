"""Write the command that repeats a study; in the same folder it resumes the study, or adds to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gradgate.settings.command_line import flags_of, given_settings, without_places
from gradgate.settings.run import RunConfig
from gradgate.study.grid import Grid
from gradgate.study.search import GENERATION_RATES
from gradgate.study.study_file import SearchRecord
from gradgate.tasks.multitask import is_multitask

_CROSSED = ("task", "model", "train_size")
_OF_A_RUN = ("method", "adapter", "seed")


def compare_command(grids: Sequence[Grid], out: str) -> str:
    """Return the ``gradgate compare`` command of a study, which names no folder of one machine.

    Args:
        grids: of its tasks, models and training sizes, at least one.
        out: the folder that the command names.
    """
    first, settings = grids[0], [given_settings(without_places(config)) for config in settings_as_typed(grids)]
    words = ["gradgate", "compare"]
    for name in _CROSSED:
        values = list(dict.fromkeys(str(own.get(name, "all")) for own in settings))
        if values != ["all"]:
            words += [word for value in values for word in flags_of({name: value})]
    words += [word for arm in first.methods for word in flags_of({"method": arm.name})]
    if tuple(first.adapters) != (None,):
        words += [word for adapter in first.adapters for word in flags_of({"adapter": adapter or "none"})]
    seeds = f"{first.seeds[0]}," if len(first.seeds) == 1 else ",".join(map(str, first.seeds))
    words += [*flags_of({"seeds": seeds}), *_search(first.search)]
    searched = () if first.search is None else first.search.settings
    left_out = {*_CROSSED, *_OF_A_RUN, *(name for setting in searched for name in setting)}
    shared = {name: value for name, value in settings[0].items() if name not in left_out}
    return shlex.join([*words, *flags_of(shared), "--out", out])


def settings_as_typed(grids: Sequence[Grid]) -> list[RunConfig]:
    """Return the settings of each grid; with several tasks, ``data`` is the folder that has one for each."""
    configs = [grid.base for grid in grids]
    folders = [config.data for config in configs if config.data is not None and not is_multitask(config.task)]
    if len({config.task for config in configs}) == 1 or not folders:
        return configs
    return [config.model_copy(update={"data": folders[0].parent}) for config in configs]


def _tries_default_rates(search: SearchRecord | None) -> bool:
    """Return whether the rates are those that a generation tries if neither a rate nor a search is given."""
    return search is not None and search.space == (GENERATION_RATES,)


def _search(search: SearchRecord | None) -> Iterator[str]:
    """Yield what was searched; the rates that every generation tries need no flag."""
    if search is None or _tries_default_rates(search):
        return
    for space in search.space:
        yield from flags_of({"search": space})
    if any(".." in space for space in search.space):
        yield from flags_of({"trials": len(search.settings)})
    if len(search.seeds) != 1:
        yield from flags_of({"search_seeds": len(search.seeds)})
    if search.prune:
        yield from flags_of({"prune": True})
