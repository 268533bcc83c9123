"""Sentences that carry a verdict, one function a construction.

Those of ``JUDGED`` are told which way the writer's own judgement goes. In those of ``MIXED`` it goes both
ways at once, and in those of ``UNDECIDED`` the writer has none: others speak, or the matter is still open.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradgate.sample.grammar import Claim, Scene, fact, plain, plain_verdict, sentence, verdict
from gradgate.sample.lexicon import Person


def listing(scene: Scene, good: bool) -> str:
    """Clauses that all say the same, with nothing turned round."""
    one, two = plain(scene, good), plain(scene, good)
    end = scene.dice.pick((plain, plain_verdict))(scene, good)
    return sentence(scene.dice.pick((end, f"{one} and {end}", f"{one}, {two} and {end}", f"{one}; {end}")))


def pairing(scene: Scene, good: bool) -> str:
    claim, other = scene.claim_and_other(good, good)
    return sentence(f"{claim.past()} and {other}")


def two_facts(scene: Scene, good: bool) -> str:
    return _side_by_side(scene, (", and", ";", "."), fact(scene, good), fact(scene, good))


def fact_and_verdict(scene: Scene, good: bool) -> str:
    joint = scene.dice.pick((", and", ", so all in all", "; in short,", "; on the whole,"))
    return sentence(f"{fact(scene, good)}{joint} {verdict(scene, good)}")


def not_nor(scene: Scene, good: bool) -> str:
    one, other = scene.claim(not good), scene.claim(not good)
    return sentence(f"{one.subject} {one.was} not {one.adjective}, nor {other.was} {other.subject} {other.adjective}")


def not_only(scene: Scene, good: bool) -> str:
    one, other = scene.claim(good), scene.claim(good)
    return sentence(f"not only {one.was} {one.subject} {one.adjective}, but {other.past()} as well")


def conceding(scene: Scene, good: bool) -> str:
    """A fact gives way to the verdict on the whole."""
    conceded, main = fact(scene, not good), verdict(scene, good)
    turn = scene.dice.pick(("all the same, ", "even so, ", "nevertheless, "))
    return scene.dice.pick(
        (
            sentence(f"although {conceded}, {main}"),
            sentence(f"{main}, although {conceded}"),
            sentence(f"{main}, even though {conceded}"),
            sentence(f"{conceded}, but on the whole {main}"),
            f"{sentence(conceded)} {sentence(turn + main)}",
        )
    )


def despite(scene: Scene, good: bool) -> str:
    against, main = scene.claim(not good), verdict(scene, good)
    what = f"the {against.adjective} {against.bare}"
    return sentence(
        scene.dice.pick((f"despite {what}, {main}", f"{main} in spite of {what}", f"{main}, {what} notwithstanding"))
    )


def contradicting(scene: Scene, good: bool) -> str:
    """Somebody says one thing, the writer the opposite."""
    claim = scene.claim(not good)
    denial = scene.dice.pick(("that is simply not true", "nothing could be further from the truth"))
    turn = scene.dice.pick(("I cannot agree", "I saw no sign of it", denial, verdict(scene, good)))
    return sentence(f"{view(scene, claim)}, but {turn}")


def agreeing(scene: Scene, good: bool) -> str:
    """Somebody says one thing, and so does the writer."""
    reported = view(scene, scene.claim(good))
    if scene.dice.chance(0.4):
        return f"{sentence(reported)} {sentence(f'I agree, and {fact(scene, good)}')}"
    agreed = scene.dice.pick(("I can only agree", "that is simply true", "I saw it for myself"))
    turn = scene.dice.pick((agreed, f"indeed {verdict(scene, good)}"))
    return sentence(f"{reported}, and {turn}")


def right_or_wrong(scene: Scene, good: bool) -> str:
    person, right = scene.person(), scene.dice.chance(0.5)
    reported = said(scene, person, scene.claim(good == right))
    was = "were" if person.plural else "was"
    return f"{sentence(reported)} {sentence(f'{person.pronoun} {was} ' + ('right' if right else 'wrong'))}"


def expecting(scene: Scene, good: bool) -> str:
    """What the writer expected, and then found otherwise."""
    expected = scene.claim(not good)
    first = scene.dice.pick(
        (
            f"I had expected {expected.subject} to be {expected.adjective}",
            f"at first I thought that {expected.past()}",
            f"we had been told that {expected.past()}",
        )
    )
    turn = scene.dice.pick(
        ("it was quite the opposite", "I soon had to think again", verdict(scene, good), f"in fact {fact(scene, good)}")
    )
    return sentence(f"{first}, but {turn}")


def less_than(scene: Scene, good: bool) -> str:
    claim = scene.claim(not good)
    return sentence(
        f"{claim.subject} {claim.was} less {claim.adjective} than "
        + scene.dice.pick((f"we had {'feared' if good else 'hoped'}", f"{scene.person().text} had led me to believe"))
    )


def not_more(scene: Scene, good: bool) -> str:
    """As good, or as bad, as such a thing can be."""
    claim = scene.claim(good)
    could = f"could not have been more {claim.adjective}"
    wonder = f"it is hard to see how {claim.subject} could have been more {claim.adjective}"
    return sentence(scene.dice.pick((f"{claim.subject} {could}", wonder)))


def wishing(scene: Scene, good: bool) -> str:
    """A wish says what is not so."""
    claim = scene.claim(True)
    if good:
        return sentence(f"I wish that everything were as {claim.adjective} as {claim.subject}")
    would = f"{claim.subject} had been {claim.adjective}"
    return sentence(
        scene.dice.pick((f"I wish that {would}", f"if only {would}", f"I would have been happy if {would}"))
    )


def disputing(scene: Scene, good: bool) -> str:
    """What it is to others is an aside; what it is to the writer counts."""
    claim, other = scene.claim_and_other(good, not good)
    return sentence(f"{claim.subject}, {other} according to {scene.person().text}, {claim.was} {claim.adjective}")


def but_facts(scene: Scene) -> str:
    one = scene.dice.chance(0.5)
    first, second = fact(scene, one), fact(scene, not one)
    if scene.dice.chance(0.6):
        return _side_by_side(scene, (", but", ";", ".", "."), first, second)
    return sentence(
        scene.dice.pick(
            (
                f"while {first}, {second}",
                f"{first}, whereas {second}",
                f"on the one hand, {first}; on the other, {second}",
            )
        )
    )


def but_pair(scene: Scene) -> str:
    one = scene.dice.chance(0.5)
    claim, other = scene.claim_and_other(one, not one)
    return sentence(f"{claim.past()} but {other}")


def as_as(scene: Scene) -> str:
    one = scene.dice.chance(0.5)
    first, second = scene.claim(one), scene.claim(not one)
    return sentence(f"{first.subject} {first.was} as {first.adjective} as {second.past()}")


def one_not_the_other(scene: Scene) -> str:
    good = scene.dice.chance(0.5)
    _, past = scene.verb(scene.words.opinions, good)
    first, second = scene.claim(good), scene.claim(good)
    return sentence(f"I {past} {first.subject} but not {second.subject}")


def agreeing_in_part(scene: Scene) -> str:
    good = scene.dice.chance(0.5)
    reported = view(scene, scene.claim(good))
    turn = scene.dice.pick(("but", "and yet"))
    return f"{sentence(reported)} {sentence(f'I agree, {turn} {fact(scene, not good)}')}"


def reporting(scene: Scene) -> str:
    return sentence(view(scene, scene.claim(scene.dice.chance(0.5))))


def two_views(scene: Scene) -> str:
    one = scene.claim(scene.dice.chance(0.5))
    other = scene.claim(scene.dice.chance(0.5))
    joint = scene.dice.pick((", but ", ", while ", ", and ", "; "))
    return sentence(f"{view(scene, one)}{joint}{said(scene, scene.person(), other)}")


def wondering(scene: Scene) -> str:
    claim = scene.claim(scene.dice.chance(0.5))
    present = claim.present()
    return scene.dice.pick(
        (
            sentence(f"I cannot say yet whether {present}"),
            sentence(f"does anybody know whether {present}?"),
            sentence(f"I wonder if {present}"),
            sentence(f"we have yet to find out whether {present}"),
            sentence(f"I was asked whether {claim.past()}, and did not know"),
            sentence(f"perhaps {present}, perhaps not"),
        )
    )


def deciding(scene: Scene) -> str:
    """What the writer will do, depending on what is not known yet."""
    good = scene.dice.chance(0.5)
    act, refrain = f"I will {scene.domain.base}", "I will look elsewhere"
    present = scene.claim(good).present()
    return sentence(f"if {present}, {act if good else refrain}; if not, {refrain if good else act}")


def hoping(scene: Scene) -> str:
    good = scene.dice.chance(0.5)
    claim = scene.claim(good)
    verb = scene.dice.pick(("hope" if good else "fear", "expect"))
    return sentence(f"I {verb} that {claim.subject} will be {claim.adjective}")


def _side_by_side(scene: Scene, joints: Sequence[str], first: str, second: str) -> str:
    """Two clauses joined by one of the marks; after a full stop the second is a sentence of its own."""
    joint = scene.dice.pick(joints)
    return f"{sentence(first)} {sentence(second)}" if joint == "." else sentence(f"{first}{joint} {second}")


def view(scene: Scene, claim: Claim) -> str:
    """The claim as somebody else's, a person's or a printed one."""
    if scene.dice.chance(0.65):
        return said(scene, scene.person(), claim)
    source = scene.dice.pick(scene.words.media)
    return scene.dice.pick(
        (
            f"according to {source}, {claim.past()}",
            f"{source} said that {claim.past()}",
            f"{source} called {claim.subject} {claim.adjective}",
        )
    )


def said(scene: Scene, person: Person, claim: Claim) -> str:
    return scene.dice.pick(
        (
            f"{person.text} {scene.dice.pick(('said', 'told me', 'thought', 'insisted'))} that {claim.past()}",
            f"{person.text} called {claim.subject} {claim.adjective}",
            f"{person.text} found {claim.subject} {claim.adjective}",
        )
    )


PLAIN = ((3, listing), (1, pairing))
JUDGED = (
    (2, listing),
    (1, pairing),
    (4, two_facts),
    (3, fact_and_verdict),
    (2, not_nor),
    (1, not_only),
    (4, conceding),
    (2, despite),
    (3, contradicting),
    (2, agreeing),
    (2, right_or_wrong),
    (3, expecting),
    (2, less_than),
    (1, not_more),
    (1, wishing),
    (2, disputing),
)
MIXED = ((6, but_facts), (1, but_pair), (1, as_as), (2, one_not_the_other), (3, agreeing_in_part))
UNDECIDED = ((3, reporting), (3, two_views), (3, wondering), (1, deciding), (2, hoping))
