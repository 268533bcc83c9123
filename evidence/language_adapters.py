"""Language adapters of the embedded encoder, one for each of its languages, on which task adapters are stacked.

FUN, Sec. 3.1, has MAD-X's adapters from the hub, which were trained on Wikipedia. These are trained on text that the
sample's grammars generate. No sentence of its tasks is in it.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from evidence.commands import gradgate
from evidence.studies import Scale
from tools.sample.corpus import passages
from tools.sample.languages import GRAMMARS
from tools.sample.make_data import sentences

TRAINING = {
    "kind": "pfeiffer+inv:reduction=2",
    "steps": 500,
    "batch_size": 16,
    "max_length": 64,
    "lr": 3e-3,
    "threads": 1,
}
"""Settings of ``gradgate pretrain-adapter``; the rate is the higher one of two tried, by the held-out loss."""
QUICK_STEPS = 10
PASSAGES = 12_000
"""As many are drawn for a language; the half that are pairs of translations is left out."""
_SEED = 23  # no seed of tools.sample.pretrain


def train_adapters(scale: Scale, folder: Path) -> str:
    """Train what is missing of the adapters.

    Args:
        scale: how long.
        folder: where they are, and the texts that they learn from.

    Returns:
        Where they are, with ``{language}`` for a language's code, as ``--language-adapters`` takes it.

    Raises:
        subprocess.CalledProcessError: if a command fails; it has said why.
    """
    settings = TRAINING | ({"steps": QUICK_STEPS} if scale == "quick" else {})
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    for language in GRAMMARS:
        texts, adapter = folder / f"{language}.txt", folder / language
        if not texts.exists():
            folder.mkdir(parents=True, exist_ok=True)
            texts.write_text(running_text(language), encoding="utf-8")
        gradgate("pretrain-adapter", "--language-data", str(texts), "--name", language, "--out", str(adapter), *flags)
    return str(folder / "{language}")


def running_text(language: str) -> str:
    """Texts of a language, one a line; the same at every call."""
    drawn = islice(passages(_SEED, sentences(), text={language: 1}), PASSAGES)
    lone = [" ".join(filter(None, (each.first, each.second))) for each in drawn if not each.translated]
    return "".join(f"{text}\n" for text in lone)
