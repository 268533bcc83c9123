"""Whole texts: labelled reviews for the task, and unlabelled ones for pretraining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gradgate.sample.constructions import JUDGED, MIXED, PLAIN, UNDECIDED, said
from gradgate.sample.grammar import Dice, Scene, sentence
from gradgate.sample.hints import remark, signalled
from gradgate.sample.lexicon import Lexicon

Label = Literal["praise", "complaint", "mixed", "undecided"]
LABELS: tuple[Label, ...] = get_args(Label)
"""What the writer makes of the thing: likes it, does not, does both, or gives no view of their own."""

# How often each is the verdict of an unlabelled text: clear ones teach which words speak well of a thing.
_PRETRAINING: tuple[tuple[int, Label], ...] = ((3, "praise"), (3, "complaint"), (1, "mixed"), (1, "undecided"))


@dataclass(frozen=True)
class Review:
    text: str
    label: Label


def labelled(dice: Dice, words: Lexicon, label: Label) -> Review:
    """A review whose label follows from its composition alone: no closing line gives it away.

    Whatever the label, the text may open with a plain fact, and may quote one more opinion that is not
    the writer's.
    """
    scene = Scene(dice, words)
    sentences = [sentence(_plain_fact(scene))] if dice.chance(0.6) else []
    sentences.append(_core(scene, label))
    if dice.chance(0.3):
        aside = sentence(said(scene, scene.person(), scene.claim(dice.chance(0.5))))
        sentences.insert(dice.pick((0, len(sentences))), aside)
    return Review(" ".join(sentences), label)


def unlabelled(dice: Dice, words: Lexicon) -> str:
    """A longer review for pretraining: an opening, a general remark, judgements that agree, a closing line."""
    label = dice.weighted(_PRETRAINING)
    scene = Scene(dice, words)
    sentences = [sentence(_opening(scene, visited=label != "undecided"))] if dice.chance(0.5) else []
    if dice.chance(0.3):
        sentences.append(sentence(_plain_fact(scene)))
    if dice.chance(0.5):
        sentences.append(remark(scene))
    for _ in range(1 + dice.chance(0.5)):
        sentences.append(_taught(scene, label))
    if dice.chance(0.8):
        closing = dice.pick(words.closings[label])
        sentences.append(sentence(closing.format(base=scene.domain.base, done=scene.domain.done)))
    return " ".join(sentences)


def _core(scene: Scene, label: Label) -> str:
    if label == "mixed":
        return scene.dice.weighted(MIXED)(scene)
    if label == "undecided":
        return scene.dice.weighted(UNDECIDED)(scene)
    return scene.dice.weighted(JUDGED)(scene, label == "praise")


def _taught(scene: Scene, label: Label) -> str:
    """A judgement for pretraining: said straight out more often than in the task."""
    if label not in ("praise", "complaint"):
        return _core(scene, label)
    good = label == "praise"
    way = scene.dice.weighted(((3, signalled), (3, scene.dice.weighted(PLAIN)), (4, scene.dice.weighted(JUDGED))))
    return way(scene, good)


def _plain_fact(scene: Scene) -> str:
    return scene.dice.pick(scene.domain.facts).format(thing=scene.thing.text)


def _opening(scene: Scene, visited: bool) -> str:
    dice, words, thing = scene.dice, scene.words, scene.thing.text
    if not visited:
        return dice.pick(
            (
                f"a note about the {thing} in {dice.pick(words.towns)}",
                f"{dice.pick(words.names)} asked me about the {thing}",
            )
        )
    who = dice.pick(("I", "we", f"{dice.pick(words.names)} and I"))
    past, when = scene.domain.past.format(thing), dice.pick(words.times)
    if dice.chance(0.5):
        past += f" {dice.pick(words.companions)}" if who == "I" else f" in {dice.pick(words.towns)}"
    return dice.pick((f"{who} {past} {when}", f"{when}, {who} {past}"))
