"""Keep what was measured, per machine and case, in a file that later calls continue."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gradgate.replacing import replaced

FILE = "gpu-cases.json"


@dataclass
class CaseRecord:
    """What is known of one case.

    Attributes:
        part: its part.
        name: its name.
        rows: entries of ``gpu.json``, with notes.
        failure: why it did not end by itself; empty if it did.
        done: later calls leave it out: it ended, or the device has too little memory for it.
        seconds: how long it took.
    """

    part: str
    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    done: bool = False
    seconds: float | None = None


@dataclass
class MachineRecord:
    """The cases that were measured on one machine: one device with one set of versions."""

    machine: dict[str, Any]
    cases: list[CaseRecord] = field(default_factory=list)

    def of(self, part: str) -> list[CaseRecord]:
        """Return the cases of a part."""
        return [case for case in self.cases if case.part == part]

    def begin(self, part: str, name: str) -> CaseRecord:
        """Return a fresh record of a case, in the place of an earlier one."""
        fresh = CaseRecord(part, name)
        for place, case in enumerate(self.cases):
            if (case.part, case.name) == (part, name):
                self.cases[place] = fresh
                return fresh
        self.cases.append(fresh)
        return fresh

    def forget(self, parts: list[str]) -> None:
        """Drop the cases of some parts."""
        self.cases = [case for case in self.cases if case.part not in parts]


class Records:
    """The file of all machines.

    Args:
        folder: that has it, or will.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self.machines: list[MachineRecord] = []
        if self.file.is_file():
            for entry in json.loads(self.file.read_text(encoding="utf-8")):
                cases = [CaseRecord(**case) for case in entry["cases"]]
                self.machines.append(MachineRecord(entry["machine"], cases))

    def of(self, machine: dict[str, Any]) -> MachineRecord:
        """Return the record of a machine; a new one if it was never measured."""
        for record in self.machines:
            if record.machine == machine:
                return record
        self.machines.append(MachineRecord(machine))
        return self.machines[-1]

    def write(self) -> None:
        """Write everything; a reader sees the old file or the new one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        _write(self.file, json.dumps([asdict(record) for record in self.machines], indent=1) + "\n")

    def write_results(self, record: MachineRecord, page: str) -> None:
        """Write ``gpu.json`` of one machine, and the page of all."""
        self.write()
        keys = ("part", "value", "unit", "goal", "met")
        rows = [{key: row[key] for key in keys} for case in record.cases for row in case.rows]
        _write(self.file.with_name("gpu.json"), json.dumps(rows, indent=1) + "\n")
        _write(self.file.with_name("GPU.md"), page)


def _write(file: Path, text: str) -> None:
    with replaced(file) as part:
        part.write_text(text, encoding="utf-8")
