"""Say what a study searched before it compared."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary
from gradgate.settings.arms.own_settings import format_settings
from gradgate.study.study_file import SearchRecord, StudyRecord
from gradgate.tasks.metrics.page_unit import page_factor


@dataclass(frozen=True)
class SearchSection(Section):
    """The settings that a search chose for each arm."""

    @classmethod
    def find(cls, study: StudySummary) -> SearchSection | None:
        """Return None without a search."""
        return cls(study) if study.record.search else None

    def notes(self) -> list[str]:
        """Say what was tried, and what was chosen."""
        return search_notes(self.study.record)


def search_notes(record: StudyRecord) -> list[str]:
    """Say what was tried, how it was judged, and what each arm runs with; return nothing without a search."""
    search, factor = record.search, page_factor(record.task.metric)
    if search is None:
        return []
    seeds = ", ".join(map(str, search.seeds))
    notes = [
        f"Searched before the comparison: {'; '.join(search.space)}. The same {len(search.settings)} settings "
        f"were tried for each method, with seed {seeds}, and ranked by {record.task.metric} on dev; the search "
        "scored no test split."
        + (" Runs with dev scores below their method's median were stopped early." * search.prune)
        + (f" Added after the study had begun: the last {search.added}." if search.added else "")
    ]
    for name in record.arm_names:
        results = search.results.get(name)
        if results:
            tried = "; ".join(f"{format_settings(each.setting)}: {factor * each.dev:.4g}" for each in results)
            notes.append(f"{name} uses {format_settings(results[0].setting)} (dev {record.task.metric}: {tried}).")
        elif results is not None:
            notes.append(f"{name}: no run of its search has finished.")
        else:
            notes.append(f"{name}: its search continues; its runs, if any, have the setting that it had before.")
    return [*notes, *_at_ends(record, search), *_ties(record, search)]


def _best_rates(search: SearchRecord, arm: str) -> set[float]:
    """Return the rates with an arm's best score on dev; several, such as those of a probe, tell nothing of the ends."""
    results = search.results.get(arm) or ()
    return {each.setting["lr"] for each in results if each.dev == results[0].dev and "lr" in each.setting}


def _at_ends(record: StudyRecord, search: SearchRecord) -> list[str]:
    """Name the arms that chose the lowest or highest rate that was tried: a better one may lie beyond."""
    rates = sorted({setting["lr"] for setting in search.settings if "lr" in setting})
    if len(rates) < 2:
        return []
    is_listed = not any(".." in text for text in search.space)
    more = " A longer search in the same folder keeps the finished runs." if is_listed else ""
    notes = []
    for rate, side in ((rates[0], "lowest"), (rates[-1], "highest")):
        chosen = [name for name in record.arm_names if _best_rates(search, name) == {rate}]
        if chosen:
            notes.append(
                f"{', '.join(chosen)}: the {side} rate tried, {rate:g}, was the best, so a better one may lie "
                f"beyond it.{more}"
            )
    return notes


def _ties(record: StudyRecord, search: SearchRecord) -> list[str]:
    """Name the arms of which other settings reached the same score on dev: the order of the settings chose one.

    A probe has none of the settings of a training, so they all tie.
    """
    names = []
    for arm in record.arms:
        results = search.results.get(arm.name) or ()
        if arm.is_trained and sum(each.dev == results[0].dev for each in results) > 1:
            names.append(arm.name)
    if not names:
        return []
    return [
        f"{', '.join(names)}: other settings reached the same on dev as the one that is used, so dev did not choose "
        "between them; more search seeds or a larger dev split may."
    ]
