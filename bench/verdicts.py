"""Turns samples into verdicts: medians, ratios with their bootstrap intervals, and whether goals and floors are met.

In one round all allocators ran close to each other in time, and what a busy machine did to one it did to the other: a virtual one may run at half
its speed for seconds. So the ratio is taken in each round, and the median of these ratios is judged, by the interval that the tool uses too
(hakmem/interval.py). It holds the truth in 93 to 98 of 100 cases (test_confidence.py tries it).
"""
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from point import Goal, Point

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools/hakmem"))
from hakmem import interval  # noqa: E402: one interval for the tool and for bench/
from hakmem.interval import LEAST_ROUNDS as LEAST_ROUNDS, Interval  # noqa: E402

OWN = "hakmem"
LIMIT = "limit"
MEMORY_UNITS = ("MiB", "KiB", "faults", "/op", "/page", "x")  # and the costs of a request for memory

Values = dict[str, list[float]]  # by allocator: one value a round


class Verdict(str, Enum):
    """What may be said of HAKMEM beside another."""

    AHEAD = "ahead"
    BEHIND = "behind"
    LEVEL = "level"  # the interval holds 1: no difference was shown
    UNKNOWN = "too few rounds"


class Met(str, Enum):
    """The worst first. The question mark: the interval holds the bound, more rounds may turn it."""

    NO = "NO"
    UNLIKELY = "no?"
    LIKELY = "yes?"
    YES = "yes"


@dataclass(frozen=True)
class Versus:
    """HAKMEM beside another allocator; a ratio above 1: HAKMEM is better."""

    ratio: float
    interval: Interval | None

    @property
    def verdict(self) -> Verdict:
        if self.interval is None:
            return Verdict.UNKNOWN
        if self.interval.low > 1:
            return Verdict.AHEAD
        return Verdict.BEHIND if self.interval.high < 1 else Verdict.LEVEL


@dataclass(frozen=True)
class Line:
    point: Point
    samples: Values
    medians: dict[str, float]
    spread: dict[str, float]  # (largest - smallest) / median
    own: Interval | None  # of HAKMEM's median
    versus: dict[str, Versus]
    peers: tuple[str, ...]
    best_peer: str | None  # by the median

    @property
    def to_best(self) -> Versus | None:
        return self.versus.get(self.best_peer or "")

    @property
    def quotient(self) -> float | None:
        """The ratio of HAKMEM's median and the best peer's, in the direction of `ratio`: a reader of the two can follow it.
        (The ratio is the median of the paired rounds' own.)"""
        own, best = self.medians.get(OWN), self.medians.get(self.best_peer or "")
        if own is None or best is None:
            return None
        return ratio([own], [best]) if self.point.higher else ratio([best], [own])

    @property
    def is_goal_row(self) -> bool:
        """Of GOALS (P1, M3 ...), not a pattern beside them."""
        return self.point.row[0] in "PM" and self.point.row[1:2].isdigit()

    @property
    def is_memory(self) -> bool:
        return self.point.unit in MEMORY_UNITS

    def peers_judged(self, wanted: Verdict) -> list[str]:
        return [p for p in self.peers if p in self.versus and self.versus[p].verdict is wanted]

    def verdict(self) -> Verdict | None:
        """Ahead: of each single peer. Behind: one at least is shown to be better."""
        found = {self.versus[p].verdict for p in self.peers if p in self.versus}
        for which in (Verdict.UNKNOWN, Verdict.BEHIND, Verdict.LEVEL, Verdict.AHEAD):
            if which in found:
                return which
        return None

    def meets(self, goal: Goal) -> Met | None:
        """None if the goal's figure was not measured."""
        bounds = ((goal.ratio, self.to_best), (goal.limit, self.versus.get(LIMIT)))
        checks = [other and at_least(other.ratio, other.interval, bound) for bound, other in bounds if bound is not None]
        if goal.value is not None:
            own = self.own and Interval(-self.own.high, -self.own.low)
            checks.append(at_least(-self.medians[OWN], own, -goal.value) if OWN in self.medians else None)
        if Met.NO in checks:
            return Met.NO
        return None if not checks or None in checks else min(checks, key=list(Met).index)


def at_least(value: float, interval: Interval | None, bound: float) -> Met:
    met = value >= bound
    if interval and (interval.low >= bound or interval.high < bound):
        return Met.YES if met else Met.NO
    return Met.LIKELY if met else Met.UNLIKELY


def evaluate(point: Point, samples: Values, peers: list[str]) -> Line:
    samples = {name: values for name, values in samples.items() if values}
    medians = {name: statistics.median(values) for name, values in samples.items()}
    measured = tuple(name for name in peers if name in medians)
    pick = max if point.higher else min
    own = samples.get(OWN)
    return Line(
        point,
        samples,
        medians,
        {name: spread(values) for name, values in samples.items()},
        median_interval(own) if own else None,
        {name: compare(point, own, samples[name]) for name in medians if own and name != OWN},
        measured,
        pick(measured, key=lambda name: medians[name]) if measured else None,
    )


def spread(values: list[float]) -> float:
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def compare(point: Point, own: list[float], other: list[float]) -> Versus:
    over, under = (own, other) if point.higher else (other, own)
    found = ratio(over, under)
    if point.repeats:
        return Versus(found, widest(over, under, point.repeats))
    return Versus(found, ratio_interval(over, under))


def widest(over: list[float], under: list[float], repeats: float) -> Interval:
    """For counts: the range of ratios of any two runs seen, widened by the variation between runs."""
    low = ratio([min(over)], [max(under)])
    high = ratio([max(over)], [min(under)])
    return Interval(low * (1 - repeats), high * (1 + repeats))


# ---- intervals ---------------------------------------------------------------

def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' ratios. 0 / 0 is 1 (neither did any), x / 0 is infinite."""
    return float(statistics.median(interval.paired(over, under)))


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> Interval | None:
    return median_interval(interval.paired(over, under))


def median_interval(values: Sequence[float]) -> Interval | None:
    return interval.median_interval(tuple(map(float, values)))
