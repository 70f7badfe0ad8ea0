"""How sure a figure is: bootstrap intervals of medians and of ratios.

In one round all allocators ran close to each other in time, and what a busy machine did to one it did to the other: a virtual one may run at half
its speed for seconds. So the ratio is taken in each round, and the median of these ratios is judged, by the interval that the tool uses too
(hakmem/interval.py). It holds the truth in 93 to 98 of 100 cases (test_confidence.py tries it).
"""
import statistics
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools/hakmem"))
from hakmem import interval  # noqa: E402: one interval for the tool and for bench/
from hakmem.interval import Interval  # noqa: E402

LEVEL, LEAST_ROUNDS = interval.LEVEL, interval.LEAST_ROUNDS


class Verdict(str, Enum):
    """What may be said of HAKMEM beside another."""

    AHEAD = "ahead"
    BEHIND = "behind"
    LEVEL = "level"  # the interval holds 1: no difference was shown
    UNKNOWN = "too few rounds"


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' ratios. 0 / 0 is 1 (neither did any), x / 0 is infinite."""
    return float(statistics.median(interval.paired(over, under)))


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> Interval | None:
    return median_interval(interval.paired(over, under))


def median_interval(values: Sequence[float]) -> Interval | None:
    return interval.median_interval(tuple(map(float, values)))


def verdict(ratio: Interval | None) -> Verdict:
    """Of a ratio that is above 1 where HAKMEM is better."""
    if ratio is None:
        return Verdict.UNKNOWN
    if ratio.low > 1:
        return Verdict.AHEAD
    return Verdict.BEHIND if ratio.high < 1 else Verdict.LEVEL
