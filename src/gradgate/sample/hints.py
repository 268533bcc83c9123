"""Sentences that show outright which words speak well of a thing and which ill: for pretraining text only.

A verdict alone says little about a single word, as so many sentences turn their words round. These are what
the encoder learns the words from, as readers do from remarks in passing.
"""

from __future__ import annotations

from gradgate.sample.grammar import Scene, plain, plain_verdict, sentence, with_article

_SIGNALS = {
    True: ("luckily,", "happily,", "to our delight,", "the good news:", "I am glad that", "I was pleased that"),
    False: ("sadly,", "unfortunately,", "to our dismay,", "the bad news:", "I am sorry that", "I was annoyed that"),
}


def signalled(scene: Scene, good: bool) -> str:
    """A plain clause after a word that says how the writer takes it."""
    clause = scene.dice.weighted(((3, plain), (1, plain_verdict)))(scene, good)
    return sentence(f"{scene.dice.pick(_SIGNALS[good])} {clause}")


def remark(scene: Scene) -> str:
    """What people in general like and dislike in such a thing; no judgement of this one."""
    good = scene.dice.chance(0.5)
    claim = scene.claim(good)
    kind = f"{'good' if good else 'bad'} {scene.thing.text}"
    should = scene.dice.pick(("should", "ought to") if good else ("should never", "must not"))
    return sentence(
        scene.dice.pick(
            (
                f"{'everybody' if good else 'nobody'} likes it when {claim.present()}",
                f"it is a {'pleasure' if good else 'pity'} when {claim.present()}",
                f"with {kind if scene.thing.plural else with_article(kind)}, {claim.present()}",
                f"{claim.subject} {should} be {claim.adjective}",
            )
        )
    )
