"""Tests the harness's verdicts on made-up rounds with a known truth. Run by CTest, or by hand: test_confidence.py"""
import functools
import unittest
import unittest.mock
from collections.abc import Callable

import numpy as np

import verdicts
from point import Goal, Point, Workload
from verdicts import Interval, Met, Verdict, Versus, interval, median_interval, ratio_interval

TRIALS = 200
ROUNDS = (5, 7, 11)
FEW = unittest.mock.patch("hakmem.interval.RESAMPLES", 499)  # enough to try the method
Rounds = tuple[np.ndarray, np.ndarray]


def independent(rng: np.random.Generator, rounds: int) -> Rounds:
    return rng.lognormal(0, 0.05, rounds), rng.lognormal(0, 0.05, rounds)


def paired(rng: np.random.Generator, rounds: int) -> Rounds:
    """Every other round the machine has half its speed, for both."""
    common = rng.choice((1, 2), rounds)
    one, other = independent(rng, rounds)
    return common * one, common * other


def disturbed(rng: np.random.Generator, rounds: int) -> Rounds:
    """Now and then a run takes half as long again, of whichever of the two."""
    sides = independent(rng, rounds)
    one, other = (side * rng.choice((1, 1.5), rounds, p=(0.85, 0.15)) for side in sides)
    return one, other


@functools.cache
def intervals(make: Callable[..., Rounds], rounds: int) -> list[Interval]:
    """Of rounds whose true ratio is 1. Times a factor, they are those of that ratio: medians know no unit."""
    rng = np.random.default_rng(7)
    with FEW:
        found = [ratio_interval(*make(rng, rounds)) for _ in range(TRIALS)]
    return [interval for interval in found if interval]


class Intervals(unittest.TestCase):
    def test_hold_the_truth_in_95_of_100(self) -> None:
        """No sharper: a median of few rounds goes in steps, and 200 trials know the share to 2 of 100."""
        for make in (independent, paired, disturbed):
            for rounds in ROUNDS:
                with self.subTest(make.__name__, rounds=rounds):
                    held = sum(i.low <= 1 <= i.high for i in intervals(make, rounds)) / TRIALS
                    self.assertAlmostEqual(held, 0.955, delta=0.04)

    def test_a_slow_round_does_not_widen_them(self) -> None:
        """What a machine does to both is none of theirs."""
        rng = np.random.default_rng(3)
        one, other = independent(rng, 11)
        common = rng.lognormal(0, 0.5, 11)
        together, alone = ratio_interval(one * common, other * common), ratio_interval(one, other)
        np.testing.assert_allclose(together, alone)
        apart = ratio_interval(one * common, other * rng.permutation(common))
        self.assertGreater(apart.high / apart.low, 1.2 * together.high / together.low)

    def test_one_odd_round_of_nine_decides_nothing(self) -> None:
        self.assertIs(Versus(1.2, ratio_interval([1.2] * 8 + [0.4], [1.0] * 9)).verdict, Verdict.AHEAD)

    def test_the_same_rounds_have_the_same_interval_in_any_unit(self) -> None:
        one, other = independent(np.random.default_rng(5), 7)
        first, scaled = ratio_interval(one, other), ratio_interval(one * 3, other)
        interval.median_interval.cache_clear()
        self.assertEqual(ratio_interval(one, other), first)
        np.testing.assert_allclose(scaled, np.multiply(first, 3))

    def test_counts_that_never_vary_nothing_to_divide_by_and_too_few_rounds(self) -> None:
        never = float("inf")
        for over, under, expected in (([150] * 7, [120] * 7, Interval(1.25, 1.25)), ([0] * 5, [0] * 5, Interval(1, 1)),
                                      ([3] * 5, [0] * 5, Interval(never, never)), ([1] * 4, [2] * 4, None)):
            self.assertEqual(ratio_interval(over, under), expected)
        self.assertEqual(median_interval([140.0] * 7), Interval(140, 140))
        self.assertIs(Versus(1, None).verdict, Verdict.UNKNOWN)


class Verdicts(unittest.TestCase):
    def shares(self, factor: float) -> dict[Verdict, float]:
        found = [Versus(factor, Interval(i.low * factor, i.high * factor)).verdict for i in intervals(independent, 7)]
        return {v: found.count(v) / TRIALS for v in Verdict}

    def test_a_difference_is_seen_if_it_is_large_and_never_called_the_reverse(self) -> None:
        for factor, verdict, least in ((1.0, Verdict.LEVEL, 0.92), (1.3, Verdict.AHEAD, 0.99), (1 / 1.3, Verdict.BEHIND, 0.99)):
            self.assertGreaterEqual(self.shares(factor)[verdict], least)
        self.assertLessEqual(self.shares(1.02)[Verdict.BEHIND], 0.03)


def line(higher: bool, goal: Goal = Goal(), **values: list[float]) -> verdicts.Line:
    point = Point("X", "x", Workload("x"), "m", "u", higher, goal, goal)
    peers = [name for name in values if name not in (verdicts.OWN, verdicts.LIMIT)]
    return verdicts.evaluate(point, values, peers)


class Lines(unittest.TestCase):
    def test_more_or_less_is_better(self) -> None:
        seen = line(True, a=[1, 9, 10], b=[8, 8, 8], hakmem=[2, 12, 99])
        self.assertEqual((seen.best_peer, seen.to_best.ratio), ("a", 2))
        seen = line(False, a=[4.0] * 5, b=[5.0] * 5, hakmem=[5.0] * 5)
        self.assertAlmostEqual(seen.to_best.ratio, 0.8)
        self.assertIs(seen.verdict(), Verdict.BEHIND)
        self.assertEqual(seen.peers_judged(Verdict.BEHIND), ["a"])
        self.assertEqual(seen.peers_judged(Verdict.LEVEL), ["b"])

    def test_ahead_is_ahead_of_each(self) -> None:
        seen = line(False, a=[2.0] * 5, b=[1.0, 1.1, 1.2, 1.3, 1.4], hakmem=[1.1] * 5)
        self.assertIs(seen.versus["a"].verdict, Verdict.AHEAD)
        self.assertIs(seen.verdict(), Verdict.LEVEL)
        self.assertIs(line(False, a=[2.0] * 5, hakmem=[1.1] * 5).verdict(), Verdict.AHEAD)

    def test_goals_beside_intervals(self) -> None:
        own = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6]
        for bound, met in ((0.9, Met.YES), (1.02, Met.LIKELY), (1.04, Met.UNLIKELY), (1.2, Met.NO)):
            seen = line(True, a=[10.0] * 7, hakmem=own)
            self.assertIs(seen.meets(Goal(ratio=bound)), met)
        for bound, met in ((11, Met.YES), (10.35, Met.LIKELY), (10.25, Met.UNLIKELY), (9, Met.NO)):
            self.assertIs(line(False, hakmem=own).meets(Goal(value=bound)), met)

    def test_the_worst_of_several_bounds_counts(self) -> None:
        seen = line(True, a=[10.0] * 5, limit=[20.0] * 5, hakmem=[15.0] * 5)
        self.assertIs(seen.meets(Goal(ratio=1.2)), Met.YES)
        self.assertIs(seen.meets(Goal(ratio=1.2, limit=0.9)), Met.NO)

    def test_few_rounds_prove_nothing_and_what_was_not_measured_is_not_met(self) -> None:
        for values, met in (({"a": [1.0], "hakmem": [2.0]}, Met.LIKELY), ({"a": [1.0] * 5}, None), ({"hakmem": [1.0] * 5}, None)):
            self.assertIs(line(True, **values).meets(Goal(ratio=1.0)), met)
        self.assertIsNone(line(True, a=[1.0] * 5).verdict())


if __name__ == "__main__":
    unittest.main(verbosity=2)
