"""Push an export to a repository of the Hugging Face hub, and refuse early what could not be pushed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate import hub
from gradgate.errors import RunError, UsageError, some_of
from gradgate.runs.card import TAG

_LOG_IN = (
    "Log in with 'hf auth login', or set HF_TOKEN, with a token that may write: https://huggingface.co/settings/tokens"
)
_BEGUN = {".gitattributes"}  # the hub writes it into a new repository


@dataclass(frozen=True)
class HubRepository:
    """A repository that exists on the hub and may be written.

    Attributes:
        name: with its namespace, ``user/name``.
        exists: whether it had files of gradgate before.
        public: whether a public one was asked for.
    """

    name: str
    exists: bool
    public: bool = False

    @classmethod
    def create(cls, name: str, *, private: bool) -> HubRepository:
        """Create a repository, or take one that gradgate has filled before; see :func:`check_push` for the name.

        Raises:
            UsageError: without a token or network, for a name that is not valid, or a repository of something else.
            RunError: if the hub refuses, or cannot be reached.
        """
        check_push(name)
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        api = HfApi()
        with _explained(name):
            full = name if "/" in name else f"{api.whoami()['name']}/{name}"
            try:
                api.create_repo(full, private=private)
            except HfHubHTTPError as error:
                if _status(error) != 409:
                    raise
                return cls(full, _check_existing(api.model_info(full), full, private), not private)
        return cls(full, False, not private)

    def push(self, folder: Path) -> str:
        """Upload every file of a folder as one commit, and remove files of an earlier push; return the address.

        Raises:
            RunError: if the hub refuses, or cannot be reached.
        """
        from huggingface_hub import HfApi

        api = HfApi()
        with _explained(self.name):
            api.upload_folder(
                repo_id=self.name,
                folder_path=folder,
                commit_message="Push a model of gradgate",
                delete_patterns="*" if self.exists else None,
            )
        return f"{api.endpoint}/{self.name}"


def check_public(push_to_hub: str | None, public: bool) -> None:
    """Refuse ``public`` without a repository: nothing would be published.

    Raises:
        UsageError: if it is.
    """
    if public and push_to_hub is None:
        raise UsageError("public=True creates a public repository, but none is named. Name one with push_to_hub=.")


def check_push(name: str) -> None:
    """Refuse a push that cannot work, without asking the network.

    Args:
        name: ``user/name``, or ``name`` for the namespace of the token's user.

    Raises:
        UsageError: if the hub is switched off, there is no token, or the name is not valid.
    """
    from huggingface_hub import get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UsageError(f"push_to_hub={name!r}: {hub.first_line(error)}") from None
    if hub.is_offline():
        raise UsageError(f"push_to_hub={name}: HF_HUB_OFFLINE is set, so nothing can be pushed. Unset it.")
    if get_token() is None:
        raise UsageError(f"push_to_hub={name}: there is no token of the Hugging Face hub. {_LOG_IN}")


def _check_existing(info: Any, name: str, private: bool) -> bool:
    """Refuse an existing repository with files of others, or one whose visibility is not what is asked for."""
    files = {each.rfilename for each in info.siblings or ()} - _BEGUN
    if files and TAG not in (info.tags or ()):
        raise UsageError(
            f"push_to_hub={name}: the hub has a repository of this name with files that gradgate did not push "
            f"({some_of(sorted(files), 3)}). Pass another name, or delete it on the hub."
        )
    if private and not info.private:
        raise UsageError(
            f"push_to_hub={name}: the repository is public, but a private one was requested. Request a public one, "
            f"or make it private in its settings on the hub."
        )
    if info.private and not private:
        raise UsageError(
            f"push_to_hub={name}: the repository is private, but a public one was requested. Request a private one, "
            f"or make it public in its settings on the hub."
        )
    return bool(files)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the errors of the hub and of the network into sentences."""
    try:
        yield
    except (RunError, UsageError):
        raise
    except Exception as error:  # the client raises errors of its HTTP library, which has changed before
        raise RunError(f"push_to_hub={name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    from huggingface_hub import constants

    status, said = _status(error), hub.first_line(error)
    if status == 401:
        return f"the hub rejects the token (401). {_LOG_IN}"
    if status == 403:
        return f"the token may not write there (403). Choose a name in a namespace that it may write. {_LOG_IN}"
    if status == 409:
        return f"the repository has changed in the meantime (409: {said}). Push again."
    if status is not None:
        return f"the hub answers with {status}: {said}. Try again later."
    return f"the hub at {constants.ENDPOINT} cannot be reached: {said}. Push again once it can be."


def _status(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None)
