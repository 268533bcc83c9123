"""Write the command of a row of advice: train with its arm, or compare the two that may be best."""

from __future__ import annotations

from evidence.arms import FULL
from evidence.effects import ON_LANGUAGES
from evidence.rates import rate_to_take, rates_to_try
from evidence.summaries import ArmInSituation, SituationAdvice
from gradgate.report.formats import learning_rate

SEEDS = 8
"""Of a comparison: the default of 3 detects large differences only."""
_ALONE = ("head", "probe")
"""Arms without options."""


def command(advice: SituationAdvice) -> str:
    """Return how to train with the arm, or how to compare the two that may be best, at rates like those of the runs."""
    if advice.next is not None and advice.is_undecided:
        rates = rates_to_try([effect.rates for effect in advice.next.effects if effect.rates])
        search = f' --search "lr={",".join(map(learning_rate, rates))}"' if rates else ""
        return f"gradgate compare -m {FULL} {_arm_words(advice.next)}{search} --seeds {SEEDS} --model MODEL --task TASK"
    rate = rate_to_take(_taken(advice))
    given = "" if rate is None else f" --lr {learning_rate(rate)}"
    return f"gradgate train {_arm_words(advice.use)}{given} --model MODEL --task TASK"


def _taken(advice: SituationAdvice) -> list[float]:
    """Return the rates that the arm to use took, as far as they are known; those of full fine-tuning if it is that."""
    if advice.use is not None:
        return [rate for effect in advice.use.effects if effect.rates for rate in effect.rates.arm]
    # The arms of a study are compared with the same runs, whose rate counts once.
    effects = (effect for arm in advice.arms for effect in arm.effects)
    of_full = {(effect.source, effect.task): effect.rates.full for effect in effects if effect.rates}
    return [rate for rates in of_full.values() for rate in rates]


def _arm_words(arm: ArmInSituation | None) -> str:
    if arm is None:
        return f"-m {FULL}"
    example = arm.arm if arm.arm in _ALONE else arm.most_frequent
    words = f'-m "{example}"' if " " in example else f"-m {example}"
    return f'{words} --language-adapters "LANGUAGES/{{language}}"' if arm.arm.endswith(ON_LANGUAGES) else words
