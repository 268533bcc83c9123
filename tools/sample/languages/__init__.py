"""Define one grammar per language; ``GRAMMARS`` has them by code."""

from __future__ import annotations

from tools.sample.languages.chinese import Chinese
from tools.sample.languages.english import English
from tools.sample.languages.french import French
from tools.sample.languages.german import German
from tools.sample.languages.grammar import Grammar
from tools.sample.languages.greek import Greek
from tools.sample.languages.hindi import Hindi
from tools.sample.languages.russian import Russian
from tools.sample.languages.spanish import Spanish
from tools.sample.languages.swahili import Swahili
from tools.sample.languages.turkish import Turkish

GRAMMARS: dict[str, Grammar] = {
    grammar.code: grammar
    for grammar in (
        English(),
        German(),
        Spanish(),
        French(),
        Russian(),
        Greek(),
        Turkish(),
        Swahili(),
        Hindi(),
        Chinese(),
    )
}
SOURCE = "en"

__all__ = ["GRAMMARS", "SOURCE", "Grammar"]
