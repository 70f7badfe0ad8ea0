"""How sure a figure is: bootstrap intervals of medians and of their ratios.

Rounds are resampled, not single values: in one round all allocators ran close
to each other in time, and what a busy machine did to one it did to the other.
The interval is the percentile one. From few rounds it is too narrow, by the
factor by which the deviation within a sample falls short of the true one
(sqrt(n / (n - 1))); it is widened by that. So it holds the truth in 92 to 97
of 100 cases from 5 rounds on (test_confidence.py tries it).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import stats

LEVEL = 0.95
LEAST_ROUNDS = 5  # fewer cannot support an interval of that level
RESAMPLES = 4999
SEED = 20011  # tables made again from the same samples say the same


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


class Verdict(str, Enum):
    """What may be said of HAKMEM beside another."""

    AHEAD = "ahead"
    BEHIND = "behind"
    LEVEL = "level"  # the interval holds 1: no difference was shown
    UNKNOWN = "too few rounds"


def quotient(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    """0 / 0 is 1 (neither did any), x / 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(over, under)
    return np.where((over == 0) & (under == 0), 1.0, ratio)


def ratio_of_medians(over: np.ndarray, under: np.ndarray, axis: int = -1) -> np.ndarray:
    return quotient(np.median(over, axis=axis), np.median(under, axis=axis))


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> Interval | None:
    """Of median(over) / median(under), paired by round."""
    rounds = min(len(over), len(under))
    return bootstrap((tuple(over[:rounds]), tuple(under[:rounds])), ratio_of_medians)


def median_interval(values: Sequence[float]) -> Interval | None:
    return bootstrap((tuple(values),), np.median)


@functools.cache
def bootstrap(samples: tuple[tuple[float, ...], ...], statistic: Callable) -> Interval | None:
    rounds = len(samples[0])
    if rounds < LEAST_ROUNDS:
        return None
    with np.errstate(invalid="ignore"):
        result = stats.bootstrap(
            samples,
            statistic,
            paired=len(samples) > 1,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            random_state=np.random.default_rng(SEED),
        )
    tail = widened_tail(rounds)
    # "nearest": between two infinite ratios there is nothing to interpolate.
    low, high = np.quantile(result.bootstrap_distribution, (tail, 1 - tail), method="nearest")
    return Interval(float(low), float(high))


def widened_tail(rounds: int) -> float:
    """The share left out on each side."""
    deviations = stats.norm.ppf((1 + LEVEL) / 2) * math.sqrt(rounds / (rounds - 1))
    return float(stats.norm.sf(deviations))


def verdict(ratio: Interval | None) -> Verdict:
    """Of a ratio that is above 1 where HAKMEM is better."""
    if ratio is None:
        return Verdict.UNKNOWN
    if ratio.low > 1:
        return Verdict.AHEAD
    return Verdict.BEHIND if ratio.high < 1 else Verdict.LEVEL
