"""What few seeds can say: means with intervals, paired tests, corrections, effect sizes and the seeds that are needed.

Pure functions on plain sequences and mappings; scipy does the mathematics.
"""

from gradgate.study.statistics.bootstrap import BootstrapInterval, bootstrap_interval
from gradgate.study.statistics.effect import cohens_d, hedges_g, paired_power, pairs_needed
from gradgate.study.statistics.evaluations import MeanAgainstBest, mean_against_best
from gradgate.study.statistics.family import Evidence, holm, weigh
from gradgate.study.statistics.paired import Comparison, compare_over, compare_paired
from gradgate.study.statistics.ranks import least_p, pairs_to_reach, rank_biserial, signed_rank_p
from gradgate.study.statistics.summary import Summary, summarize

__all__ = [
    "BootstrapInterval",
    "Comparison",
    "Evidence",
    "MeanAgainstBest",
    "Summary",
    "bootstrap_interval",
    "cohens_d",
    "compare_over",
    "compare_paired",
    "hedges_g",
    "holm",
    "least_p",
    "mean_against_best",
    "paired_power",
    "pairs_needed",
    "pairs_to_reach",
    "rank_biserial",
    "signed_rank_p",
    "summarize",
    "weigh",
]
