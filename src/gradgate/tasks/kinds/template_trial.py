"""Render a chat template once within bounds: what a tokenizer brings is code of others.

This file is also a program: a template that fills the memory or never ends must not do so in the process that trains.
It imports nothing of gradgate, and the process is ended from outside when its time is over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SECONDS = 10.0
_MOST_CHARACTERS = 1_000_000  # of a template
_MOST_RENDERED = 32 << 20  # characters of what it renders
_MOST_BYTES = 1 << 30  # of memory
_TOO_LARGE = 3


def why_unbounded(template: str, messages: Sequence[Mapping[str, str]], tokens: Mapping[str, Any]) -> str | None:
    """Return why a template must not be used; None if it renders a conversation within bounds, or fails at that.

    Args:
        template: Jinja, as transformers takes it.
        messages: of a conversation.
        tokens: special tokens by their names.
    """
    if len(template) > _MOST_CHARACTERS:
        return f"has {len(template):,} characters; expected at most {_MOST_CHARACTERS:,}"
    known = {name: str(token) for name, token in tokens.items()}
    found = (find_spec(name) for name in ("jinja2", "markupsafe"))
    places = [str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin]
    asked = json.dumps({"template": template, "messages": list(messages), "tokens": known, "path": places})
    command = [sys.executable, "-I", __file__]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=SECONDS, cwd=os.path.sep)
    except subprocess.TimeoutExpired:
        return f"takes more than {SECONDS:g} seconds on one row"
    except OSError:  # no process can be started here
        return None
    return "needs more memory, or renders more text, than any conversation" if done.returncode == _TOO_LARGE else None


def _render(asked: dict[str, Any]) -> str:
    """Render as transformers does, as far as time and size go."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The blocks ``{% generation %}`` of transformers, whose content is rendered as it is."""

        tags = frozenset({"generation"})  # type: ignore[assignment]

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    made.globals |= {"raise_exception": _fail, "strftime_now": lambda form: form}
    values = {"messages": asked["messages"], "add_generation_prompt": True, **asked["tokens"]}
    return made.from_string(asked["template"]).render(**values)


def _fail(message: str) -> None:
    raise ValueError(message)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))


def main() -> int:
    """Render what standard input says; return 3 if that is too large."""
    asked = json.load(sys.stdin)
    sys.path += asked["path"]  # the process itself looks into no folder of a person
    _limit_memory()
    try:
        return _TOO_LARGE if len(_render(asked)) > _MOST_RENDERED else 0
    except (MemoryError, OverflowError):
        return _TOO_LARGE
    except Exception:  # the tokenizer itself says what is wrong with the template or the row
        return 0


if __name__ == "__main__":
    sys.exit(main())
