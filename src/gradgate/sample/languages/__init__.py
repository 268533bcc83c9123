"""One grammar for each language; ``GRAMMARS`` has them by code."""

from __future__ import annotations

from gradgate.sample.languages.chinese import Chinese
from gradgate.sample.languages.english import English
from gradgate.sample.languages.french import French
from gradgate.sample.languages.german import German
from gradgate.sample.languages.grammar import Grammar
from gradgate.sample.languages.greek import Greek
from gradgate.sample.languages.hindi import Hindi
from gradgate.sample.languages.russian import Russian
from gradgate.sample.languages.spanish import Spanish
from gradgate.sample.languages.swahili import Swahili
from gradgate.sample.languages.turkish import Turkish

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
