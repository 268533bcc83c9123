"""Export a finished run into a folder that other libraries load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.evaluation.export import files
from gradgate.evaluation.export.forms import LIBRARIES, Exportable
from gradgate.evaluation.export.usage import Loading
from gradgate.evaluation.finished import FinishedRun, begin, config_of, load_finished
from gradgate.evaluation.predict import names_of
from gradgate.files import refuse_nonempty, write_text
from gradgate.places import typed_path
from gradgate.replacing import replaced_folder
from gradgate.runs.card import CARD_FILE, CardFindings, CardSource, model_card
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import RunRecord, read_record
from gradgate.settings.finished import ExportSettings, Form
from gradgate.tasks.kinds import KINDS
from gradgate.tasks.kinds.generation import AutoModelForGeneration
from gradgate.tasks.types import KIND_INFO


@dataclass(frozen=True)
class ExportedModel:
    """One folder of an export.

    Attributes:
        folder: with the files.
        run: that was exported.
        form: of the files.
        task: one of several tasks that the run trained together; None for a run of one.
        code: lines of Python that load it.
    """

    folder: Path
    run: Path
    form: Form
    task: str | None
    code: str

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        task = {} if self.task is None else {"task": self.task}
        return {"folder": str(self.folder), "run": str(self.run), "as": self.form, **task, "python": self.code}


Findings = Callable[[CardSource, RunFolder, str | None], CardFindings]
"""Returns what a card says of a run, or of one of its tasks, beyond its folder."""


def export(
    runs: Sequence[Path],
    out: Path,
    settings: ExportSettings,
    progress: RunProgress | None = None,
    *,
    findings: Findings | None = None,
    hub_name: str | None = None,
) -> list[ExportedModel]:
    """Export finished runs; the folder appears once everything in it is on disk.

    Args:
        runs: folders; several are written into a folder each, named by their paths below their common parent.
        out: a folder that is absent or empty.
        settings: the form and the precision.
        progress: is called for each model.
        findings: returns what each card says beyond the folder; None for nothing.
        hub_name: the name on the hub that the cards load the model by; None for the folder's.

    Returns:
        The models: one per run, or one per task of a run of several tasks.

    Raises:
        UsageError: for a form that a run cannot take, a run that is named twice, or an ``out`` that is a file.
        RunError: for a run that has not finished or kept no model, or a folder that is not empty.
        DeltaError: if a delta, or a whole model for PEFT, cannot be made.
    """
    progress = begin("gradgate export", progress)
    out = typed_path(out)
    refuse_nonempty(out)
    chosen = [_ChosenRun.of(run, settings, findings, hub_name) for run in runs]
    names = [""] if len(chosen) == 1 else names_of([each.run.path for each in chosen])
    found: list[ExportedModel] = []
    progress.begin(len(chosen), 0)
    try:
        with replaced_folder(out) as part:
            for number, (each, name) in enumerate(zip(chosen, names, strict=True), 1):
                found += each.write(part / name, out / name)
                progress.advance(number, None)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"Cannot write {out}: {reason}. Choose a writable folder, or free space.") from error
    return found


@dataclass(frozen=True)
class _ChosenRun:
    """A run and the form that it is written in."""

    run: RunFolder
    record: RunRecord
    form: Form
    settings: ExportSettings
    findings: Findings | None
    hub_name: str | None

    @classmethod
    def of(cls, path: Path, settings: ExportSettings, findings: Findings | None, hub_name: str | None) -> _ChosenRun:
        folder = RunFolder(typed_path(path))
        folder.require_finished()
        record = read_record(folder.run_file, RunRecord)
        form = Exportable.of(record, config_of(record, folder)).choose(settings.to, path)
        if form == "delta" and settings.dtype is not None:
            raise UsageError(
                f"dtype={settings.dtype}: a delta stores exactly the trained weights, in their own type. Leave it out, "
                f"or export to=transformers."
            )
        return cls(folder, record, form, settings, findings, hub_name)

    def write(self, part: Path, shown: Path) -> list[ExportedModel]:
        """Write the models of the run into ``part``, which becomes the folder ``shown``."""
        tasks = self.record.task.tasks if self.record.task is not None else None
        if not tasks:
            return [self._write(part, shown, None)]
        return [self._write(part / task.name, shown / task.name, task.name) for task in tasks]

    def _write(self, part: Path, shown: Path, task: str | None) -> ExportedModel:
        trusted = self.settings.trust_remote_code
        run = load_finished(self.run.path, of_task=task, trust_remote_code=trusted)
        part.mkdir(parents=True, exist_ok=True)
        source = CardSource.of(self.run, task, run.together or run.config)
        loading = _loading(run, self.form, self._card_name(shown), source.base)
        self._write_weights(run, part)
        card = model_card(
            source,
            library=LIBRARIES[self.form],
            usage=loading.code,
            notes=(*self._hub_notes(shown.name), *_notes(run)),
            findings=None if self.findings is None else self.findings(source, self.run, task),
        )
        write_text(part / CARD_FILE, card)
        own = _loading(run, self.form, str(shown), files.base_of(run))
        return ExportedModel(shown, self.run.path, self.form, task, own.code)

    @property
    def _is_loaded_from_hub(self) -> bool:
        """Whether the libraries of the form load a model by its name on the hub."""
        return self.form in ("transformers", "peft")

    def _card_name(self, shown: Path) -> str:
        """Return the name that the card's code loads the model by."""
        return self.hub_name if self.hub_name is not None and self._is_loaded_from_hub else shown.name

    def _hub_notes(self, folder: str) -> tuple[str, ...]:
        if self.hub_name is None or self._is_loaded_from_hub:
            return ()
        return (f"Download it first: `hf download {self.hub_name} --local-dir {folder}`.",)

    def _write_weights(self, run: FinishedRun, part: Path) -> None:
        dtype = self.settings.dtype
        if self.form == "transformers":
            files.write_transformers(run, part, dtype)
        elif self.form == "peft":
            files.write_peft(run, part, dtype)
        elif self.form == "adapterhub":
            files.write_adapterhub(run, part, dtype)
        else:
            files.write_delta(run, part)


def _loading(run: FinishedRun, form: Form, folder: str, base: str) -> Loading:
    auto_model: Any = KINDS[run.task.kind].auto_model
    name = auto_model.__name__
    if auto_model is AutoModelForGeneration:
        name = "AutoModelForSeq2SeqLM" if run.model.config.is_encoder_decoder else "AutoModelForCausalLM"
    language = None if run.language_adapters is None else next(iter(run.language_adapters.kept()))
    own_base, generates = files.needs_own_base(run), run.task.kind == "generation"
    return Loading(form, folder, name, base, own_base, language, generates)


def _notes(run: FinishedRun) -> tuple[str, ...]:
    """Return sentences on what the model expects of its input, or says by its output."""
    options = run.config
    notes = []
    if KIND_INFO[run.task.kind].in_windows and options.max_length is not None:
        notes.append(f"Its scores were computed on rows that are read in windows of {options.max_length} tokens.")
    elif run.task.kind != "generation" and options.max_length is not None:
        notes.append(
            f"Its scores were computed on rows that are cut to {options.max_length} tokens: "
            f"`tokenizer(..., truncation=True, max_length={options.max_length})`."
        )
    if run.task.kind == "multi-label":
        threshold = (run.task.reading or {}).get("options", {}).get("threshold", 0.5)
        notes.append(f"A label is predicted if the sigmoid of its output reaches {threshold:g}.")
    if run.task.kind == "generation":
        notes.append("`generation_config.json` has the settings that its texts were scored with: greedy decoding.")
    return tuple(notes)
