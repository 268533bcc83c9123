"""Run with language adapters: frozen, one per language, below the task adapter that is trained.

MAD-X, Pfeiffer et al. 2020: https://arxiv.org/abs/2005.00052. Liu et al. 2023, Sec. 3.1, train task adapters in this
way. The source language's adapter runs in training; in the score of another language, that language's adapter replaces
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gradgate import adapters
from gradgate.adapters.archive import CONFIG_FILE, open_files
from gradgate.adapters.kinds import NAME as TASK
from gradgate.errors import AdapterFileError, RunError, UsageError
from gradgate.files import write_files
from gradgate.places import typed_place
from gradgate.tasks.types import LANGUAGE

NAME, OTHER = "language", "other_language"
"""Names of the source language's adapter in the model, and of the one that replaces it."""
_PARAMETER = "language_adapters="
_FOR_ALL = "every-language"


@dataclass(frozen=True)
class LanguageAdapters:
    """The place of a run's language adapters, and the stack that they form.

    Attributes:
        place: a folder, an archive or a name on the hub; ``{language}`` in it stands for a language's code. Without
            it, one adapter is for all languages.
        source: the language that is trained and selected in.
        folder: of the run's own copies, which are read first; None if it has none.
    """

    place: str
    source: str
    folder: Path | None = None

    def check(self, languages: Iterable[str]) -> None:
        """Refuse languages that lack an adapter.

        Raises:
            UsageError: naming them.
            AdapterFileError: for an adapter's file that cannot be read.
        """
        self._contents(languages)

    def keep(self, languages: Iterable[str]) -> None:
        """Copy the adapters of these languages and of the source into the run's folder.

        So the run resumes and is scored later with the adapters that it started with, wherever its folder is.

        Raises:
            UsageError: naming languages that lack one.
            RunError: for an adapter that has changed since the run started.
        """
        for language, contents in self._contents(languages).items():
            copy = self._copy_of(language)
            assert copy is not None
            if not (copy / CONFIG_FILE).is_file():
                write_files(copy, contents)
            elif any(not (copy / name).is_file() or (copy / name).read_bytes() != contents[name] for name in contents):
                raise RunError(
                    f"{copy.parent.parent} was started with another language adapter: {self._original_of(language)} "
                    f"has "
                    f"changed since. Restore it, or pass another out=."
                )

    def digests(self, languages: Iterable[str]) -> dict[str, str]:
        """Return the digest of the adapter files of these languages and of the source: language -> digest.

        Raises:
            AdapterFileError: for a language without one.
        """
        codes = dict.fromkeys((self.source, *languages))
        return {code: _digest(_read(str(self._where(code)))) for code in codes}

    def put(self, model: Any) -> None:
        """Load the source language's adapter below the task adapter, which the model has; it is frozen.

        Raises:
            AdapterError: if it does not fit the model, or cannot be in a stack.
        """
        adapters.load(model, self._where(self.source), NAME, head=False)
        adapters.activate(model, NAME, TASK)

    def check_fit(self, model: Any, languages: Iterable[str]) -> None:
        """Load the adapter of each language and take it out again; raise AdapterError for one that does not fit.

        Args:
            model: from transformers, with the stack or without adapters.
            languages: codes.
        """
        for language in dict.fromkeys((self.source, *languages)):
            adapters.load(model, self._where(language), OTHER, head=False)
            try:
                stack = adapters.active(model)
                if stack:
                    adapters.switch(model, OTHER)
                    adapters.switch(model, stack[0])
            finally:
                adapters.remove(model, OTHER)

    def replaces(self, language: str) -> bool:
        """Return True if a language has another adapter than the source language."""
        return language != self.source and LANGUAGE in self.place

    @contextmanager
    def running(self, model: Any, language: str) -> Iterator[None]:
        """Run the body with a language's adapter below the task adapter, instead of the source language's.

        Raises:
            AdapterError: if the language has none, or it does not fit.
        """
        if not self.replaces(language):
            yield
            return
        adapters.load(model, self._where(language), OTHER, head=False)
        try:
            adapters.switch(model, OTHER)
            yield
        finally:
            adapters.switch(model, NAME)
            adapters.remove(model, OTHER)

    def kept(self) -> dict[str, Path | str]:
        """Return where the adapters are by language, the source language's first; of one for all, the source alone."""
        if LANGUAGE not in self.place or self.folder is None:
            return {self.source: self._where(self.source)}
        others = (place.name for place in sorted(self.folder.iterdir()) if self._is_kept(place.name))
        return {language: self._where(language) for language in dict.fromkeys((self.source, *others))}

    def _contents(self, languages: Iterable[str]) -> dict[str, dict[str, bytes]]:
        """Read the adapter files of each language, by name; if an original is gone, its copy is read."""
        found: dict[str, dict[str, bytes]] = {}
        lacking: dict[str, str] = {}
        for language in dict.fromkeys((self.source, *languages)):
            if LANGUAGE not in self.place and found:
                break
            try:
                found[language] = _read(self._original_of(language))
            except AdapterFileError as error:
                if not self._is_kept(language):
                    lacking[language] = str(error)
        if lacking:
            raise UsageError(self._lacking(lacking))
        return found

    def _lacking(self, reasons: dict[str, str]) -> str:
        first, reason = next(iter(reasons.items()))
        others = [language for language in reasons if language != self.source]
        remedy = f"Train {'it' if len(reasons) == 1 else 'them'} with 'gradgate pretrain-adapter --out "
        remedy += f"{self._original_of(first)}'"
        if others and self.source not in reasons:
            remedy += f", or leave {', '.join(others)} out with languages="
        return (
            f"{_PARAMETER}{self.place}: there is no adapter for {', '.join(reasons)}, and each language that is scored "
            f"needs one. {reason} {remedy}."
        )

    def _where(self, language: str) -> Path | str:
        copy = self._copy_of(language)
        return copy if copy is not None and self._is_kept(language) else self._original_of(language)

    def _original_of(self, language: str) -> str:
        return typed_place(self.place.replace(LANGUAGE, language))

    def _copy_of(self, language: str) -> Path | None:
        return None if self.folder is None else self.folder / (language if LANGUAGE in self.place else _FOR_ALL)

    def _is_kept(self, language: str) -> bool:
        copy = self._copy_of(language)
        return copy is not None and (copy / CONFIG_FILE).is_file()


def _read(where: str) -> dict[str, bytes]:
    """Read the files of an adapter by name, its configuration last, so that a copy with one is complete.

    A folder that exists is never looked for on the hub.

    Raises:
        AdapterFileError: if there is no adapter.
    """
    if not Path(where).exists() and Path(where).parent.is_dir():
        raise AdapterFileError(f"There is no folder or archive {where!r}.")
    from gradgate.adapters.files import NORMS_FILE, WEIGHTS_FILES  # imports torch

    files = open_files(where)
    found = {name: data for name in (*WEIGHTS_FILES, NORMS_FILE, CONFIG_FILE) if (data := files.read(name)) is not None}
    if CONFIG_FILE not in found or not found.keys() & set(WEIGHTS_FILES):
        raise AdapterFileError(f"{files.where} has no {CONFIG_FILE} or no {' or '.join(WEIGHTS_FILES)}.")
    return found


def _digest(contents: dict[str, bytes]) -> str:
    """Return the BLAKE2b digest of files by name, as 32 hexadecimal digits."""
    state = blake2b(digest_size=16)
    for name, data in sorted(contents.items()):
        state.update(f"{name} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()
