"""Write the page of all figures: a table per part, for each machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.record import MachineRecord
from gradgate.errors import some_of

_HEAD = """# On a GPU

`make gpu` measures this page and resumes where it stopped; `python -m benchmarks gpu --help` has the options. Weights
are random: their values affect neither speed nor memory. Times are medians of CUDA events; rivals take turns.
"""
_DRY = "A dry run on a CPU: tiny shapes, which show that everything runs. Times and memory are not judged.\n"


def page(machines: Sequence[MachineRecord], parts: Sequence[Part] = PARTS) -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *(line for record in machines for line in _of_machine(record, parts))])


def _of_machine(record: MachineRecord, parts: Sequence[Part]) -> Iterator[str]:
    machine = record.machine
    yield f"## {machine['device']}\n"
    if machine["device"].startswith("CPU"):
        yield _DRY
    named = [f"{name} {value}" for name, value in machine.items() if name != "device" and value is not None]
    yield ", ".join(named).replace("memory_gib", "GiB of memory:") + ".\n"
    yield summary(record) + "\n"
    for part in parts:
        cases = record.of(part.name)
        yield f"### {part.title}\n"
        if any(case.rows for case in cases):
            yield "| | value | | goal | |"
            yield "| --- | ---: | --- | --- | --- |"
            yield from (_line(part, row) for case in cases for row in case.rows if row["value"] is not None)
            yield ""
            yield from _without_value(part, [row for case in cases for row in case.rows if row["value"] is None])
        yield from (f"- {case.name}: not measured to its end: {_plain(case.failure)}" for case in cases if case.failure)
        yield from () if cases else ("Not measured yet.",)
        valued = [row for case in cases for row in case.rows if row["value"] is not None]
        notes = dict.fromkeys(row["note"] for row in valued if row["note"])
        yield from (f"- {note}" for note in notes if len(note) > _SHORT)
        yield ""


_SHORT = 60
_NAMED, _BETWEEN = 3, "; "


def _without_value(part: Part, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for note in dict.fromkeys(row["note"] for row in rows):
        names = [row["part"].removeprefix(f"{part.name}: ") for row in rows if row["note"] == note]
        yield f"- Not measured, as {_plain(note)}: {_plain(some_of(names, _NAMED, '; '))}"


def _line(part: Part, row: dict[str, Any]) -> str:
    name = row["part"].removeprefix(f"{part.name}: ")
    note = row["note"] if len(row["note"]) <= _SHORT else ""
    said = {True: "met", False: "**missed**", None: note}[row["met"]]
    both = f"{said}; {note}" if note and said != note else said
    return f"| {_plain(name)} | {shown(row['value'])} | {row['unit']} | {row['goal'] or ''} | {_plain(both)} |"


def _plain(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def shown(value: float | None) -> str:
    """Format a value with four significant digits."""
    if value is None:
        return "–"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"


def summary(record: MachineRecord) -> str:
    """Return one sentence on what was measured and which goals are met."""
    rows = [row for case in record.cases for row in case.rows]
    met, missed = (sum(row["met"] is said for row in rows) for said in (True, False))
    failed = sum(bool(case.failure) for case in record.cases)
    took = sum(case.seconds or 0.0 for case in record.cases)
    return (
        f"{len(rows)} figures in {took:.0f} s: {met} goals met, {missed} missed, "
        f"{sum(row['goal'] is not None and row['met'] is None for row in rows)} not judged; "
        f"{failed} cases not measured to their end."
    )
