"""``gradgate.methods`` is a package and a function at once, by every way to import it."""

from __future__ import annotations

import subprocess
import sys

import gradgate as gg
from support.crossed import some_fast

SPELLINGS = {
    "attribute": "import gradgate; found = gradgate.methods(), gradgate.methods.GradDrop",
    "from": "from gradgate import methods; found = methods(), methods.GradDrop",
    "module": "import gradgate.methods as m; found = m(), m.GradDrop",
    "function": "from gradgate.methods import methods, GradDrop; found = methods(), GradDrop",
    "catalogue": "import gradgate.methods.catalog as c; import gradgate.methods as m; found = c.methods(), m.GradDrop",
    "catalogue first": "from gradgate.methods.catalog import methods; import gradgate; "
    "found = methods(), gradgate.methods.GradDrop",
}


@some_fast("spelling", list(SPELLINGS), ["from", "function", "catalogue first"])
def test_each_spelling_has_catalogue_and_classes(spelling: str) -> None:
    code = f"{SPELLINGS[spelling]}\nimport sys\nprint(len(found[0]), found[1].name, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(gg.methods())), "graddrop", "False"]


def test_mixins_are_in_the_subpackage_alone() -> None:
    for name in ("HasStateOption", "HasUnitOption", "Modifier", "RateModifier", "Traits"):
        assert name in dir(gg.methods)
        assert not hasattr(gg, name)
