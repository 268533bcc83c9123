"""Compare scores over few seeds: intervals, paired tests, corrections, effect sizes and the number of seeds needed.

All functions are pure and take plain sequences and mappings; scipy does the mathematics.
"""

from gradgate.statistics.collapse import CollapseRate, collapse_rate, collapsed
from gradgate.statistics.family import Evidence, holm, weigh
from gradgate.statistics.multibootstrap import RowNoise, multi_bootstrap
from gradgate.statistics.paired import (
    Comparison,
    compare_over,
    compare_paired,
    compare_unpaired,
    relative_quality,
)
from gradgate.statistics.power import (
    cohens_d,
    detectable,
    deviation_interval,
    equivalence_power,
    hedges_g,
    paired_power,
    pairs_for_equivalence,
    pairs_needed,
)
from gradgate.statistics.ranks import least_p, pairs_to_reach, rank_biserial, signed_rank_p
from gradgate.statistics.summary import (
    BootstrapInterval,
    MeanAgainstBest,
    Summary,
    bootstrap_interval,
    mean_against_best,
    summarize,
)
from gradgate.statistics.verdicts import Verdict, Word, judge

__all__ = [
    "BootstrapInterval",
    "CollapseRate",
    "Comparison",
    "Evidence",
    "MeanAgainstBest",
    "RowNoise",
    "Summary",
    "Verdict",
    "Word",
    "bootstrap_interval",
    "cohens_d",
    "collapse_rate",
    "collapsed",
    "compare_over",
    "compare_paired",
    "compare_unpaired",
    "detectable",
    "deviation_interval",
    "equivalence_power",
    "hedges_g",
    "holm",
    "judge",
    "least_p",
    "mean_against_best",
    "multi_bootstrap",
    "paired_power",
    "pairs_for_equivalence",
    "pairs_needed",
    "pairs_to_reach",
    "rank_biserial",
    "relative_quality",
    "signed_rank_p",
    "summarize",
    "weigh",
]
