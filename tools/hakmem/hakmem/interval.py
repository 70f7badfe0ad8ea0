"""Computes the ratio of two series of runs, as the median over the rounds with a bootstrap interval. The tool and bench/ use it.

A ratio is computed for each round, because a busy machine slows all runs of a round alike. The interval is a percentile interval. It is
expanded for few rounds (Hesterberg 2015) by Student's quantile in place of the normal one, and by sqrt(n / (n - 1)).
"""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEVEL = 0.95
LEAST_ROUNDS = 5  # an interval of that level needs at least these rounds
RESAMPLES = 4999
SEED = 20011  # is fixed, so that results are repeatable


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    median: float
    low: float
    high: float

    @property
    def better(self) -> bool:
        """Returns True if the ratio is below 1. Less is better for all quantities that are compared."""
        return self.high < 1

    @property
    def worse(self) -> bool:
        return self.low > 1


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio | None:
    """Returns the ratio of the two series, or None if there are too few rounds."""
    ratios = paired(over, under)
    interval = median_interval(tuple(ratios))
    return Ratio(statistics.median(ratios), *interval) if interval else None


@functools.lru_cache(maxsize=None)
def median_interval(values: tuple[float, ...]) -> Interval | None:
    """Returns None for too few values."""
    count = len(values)
    if count < LEAST_ROUNDS:
        return None
    chance = random.Random(SEED)
    medians = sorted(statistics.median(chance.choices(values, k=count)) for _ in range(RESAMPLES))
    tail = expanded_tail(count)
    return Interval(medians[round(tail * (RESAMPLES - 1))], medians[round((1 - tail) * (RESAMPLES - 1))])


def paired(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Returns the ratio of each round. 0 / 0 counts as 1."""
    return [1.0 if top == bottom else top / bottom if bottom else math.inf for top, bottom in zip(over, under)]


def expanded_tail(rounds: int) -> float:
    """Returns the fraction of medians that is outside the interval on each side."""
    student = student_quantile((1 + LEVEL) / 2, rounds - 1)
    return 1 - statistics.NormalDist().cdf(student * math.sqrt(rounds / (rounds - 1)))


def student_quantile(share: float, freedom: int) -> float:
    """Returns Student's quantile by the Cornish-Fisher expansion, which is accurate to 1 % from 4 degrees of freedom on."""
    z = statistics.NormalDist().inv_cdf(share)
    terms = z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return sum(term / freedom**power for power, term in enumerate(terms))
