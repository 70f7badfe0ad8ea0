"""Tests that the order of runs is fair and that rounds keep their promises. A stand-in plays the runs. Run by CTest, or by hand: test_session.py"""
import contextlib
import io
import itertools
import subprocess
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import machine
from measure import BadRun, Runner, Sample, Trace
from peers import Allocator
from point import Goal, Point, Workload
from results import Result
from session import FEW_ROUNDS, MEMORY_ROUNDS, Session

ALLOCATORS = [Allocator(name, None, role) for name, role in (("a", "peer"), ("b", "peer"), ("limit", "limit"), ("hakmem", "hakmem"))]
PLAIN, LIMITED, STEADY = Workload("plain"), Workload("limited"), Workload("steady", difference=True)
TRACED, TELLING = Workload("traced", trace_rss=True), Workload("telling", series="operations")


class Actor(Runner):
    """Records the runs that are requested."""

    def __init__(self, failing: str = "", quick: bool = False) -> None:
        super().__init__(Path(), quick)
        self.asked: list[tuple[str, str, str]] = []
        self.failing = failing

    def monotonic(self) -> float:
        """A clock by which a run takes a second."""
        return float(len(self.asked))

    def _act(self, what: str, work: Workload, allocator: Allocator) -> None:
        self.asked.append((what, work.command, allocator.name))
        if allocator.name == self.failing:
            raise BadRun("it failed")

    def sample(self, work: Workload, allocator: Allocator) -> Sample:
        self._act("timed", work, allocator)
        return {"m": 1.0}

    def counted(self, work: Workload, allocator: Allocator) -> tuple[Sample, Trace]:
        self._act("counted", work, allocator)
        return {"m": 9.0, "syscalls": 5}, [[0, 1, 2]] if work.series else []

    def trace(self, work: Workload, allocator: Allocator) -> Trace:
        self._act("traced", work, allocator)
        return [[0, 100]]


def point(work: Workload, with_limit: bool = False) -> Point:
    return Point("X", work.command, work, "m", "u", True, Goal(), Goal(), with_limit=with_limit)


POINTS = [point(PLAIN), point(LIMITED, with_limit=True), point(STEADY), point(TRACED), point(TELLING)]


def played(actor: Actor, rounds: int = 7, seed: int = 1, budget: float | None = None, points: list[Point] = POINTS, more: int = 0) -> Session:
    session = Session(actor, points, ALLOCATORS, rounds, seed, budget, more)
    with contextlib.redirect_stderr(io.StringIO()), mock.patch("session.time", actor):
        session.measure()
    return session


class Order(unittest.TestCase):
    def setUp(self) -> None:
        self.actor = Actor()
        self.session = played(self.actor)
        self.timed = [run[1:] for run in self.actor.asked if run[0] == "timed"]

    def test_warm_up_and_traces_come_first_and_are_no_samples(self) -> None:
        kinds = [kind for kind, _ in itertools.groupby(run[0] for run in self.actor.asked)]
        self.assertEqual(kinds, ["counted", "traced", "timed"])
        plain = self.session.works[PLAIN]
        self.assertEqual(plain.samples["a"], [{"m": 1}] * 7)
        self.assertEqual(plain.whole["a"]["syscalls"], 5)

    def test_allocators_of_a_workload_follow_each_other(self) -> None:
        for command, runs in itertools.groupby(self.timed, key=lambda run: run[0]):
            names = [name for _, name in runs]
            self.assertEqual(len(names) % len(set(names)), 0)  # two rounds may meet
            self.assertEqual(set(names), {a.name for a in ALLOCATORS if command == "limited" or a.name != "limit"})

    def test_the_order_changes_from_round_to_round(self) -> None:
        firsts = {runs[0] for runs in zip(*[iter(n for c, n in self.timed if c == "plain")] * 3)}
        self.assertGreater(len(firsts), 1)
        begins = {self.timed[16 * number][0] for number in range(FEW_ROUNDS)}
        self.assertGreater(len(begins), 1)

    def test_a_seed_is_an_order(self) -> None:
        again, other = Actor(), Actor()
        played(again)
        played(other, seed=2)
        self.assertEqual(again.asked, self.actor.asked)
        self.assertNotEqual(other.asked, self.actor.asked)

    def test_only_marked_workloads_are_traced_and_a_series_is_the_warm_ups(self) -> None:
        self.assertEqual({run[1] for run in self.actor.asked if run[0] == "traced"}, {"traced"})
        self.assertEqual(sorted(self.session.works[TRACED].traces), ["a", "b", "hakmem"])
        told = {work: m.traces["a"] for work, m in self.session.works.items() if m.traces}
        self.assertEqual(told, {TRACED: [[0, 100]], TELLING: [[0, 1, 2]]})

    def test_a_quick_one_loads_each_library_and_begins(self) -> None:
        actor = Actor(quick=True)
        played(actor)
        extra = [run for run in actor.asked if run[0] != "timed"]
        self.assertEqual(sorted((kind, name) for kind, _, name in extra), [("counted", name) for name in ("a", "b", "hakmem")])

    def test_counts_that_hardly_vary_need_fewer_rounds(self) -> None:
        for work in (STEADY, TELLING):
            self.assertEqual(len(self.session.works[work].samples["a"]), FEW_ROUNDS)

    def test_rows_of_memory_need_the_fewest(self) -> None:
        lean, both = Workload("lean"), Workload("both")
        points = [replace(point(lean), row="M1"), replace(point(both), row="M3"), point(both)]
        works = played(Actor(), points=points).works
        self.assertEqual([len(works[work].samples["a"]) for work in (lean, both)], [MEMORY_ROUNDS, 7])

    def test_real_programs_have_more_rounds(self) -> None:
        program = Workload("lua", program="lua")
        for rounds, asked, expected in ((2, 4, 4), (3, 0, 3)):
            session = played(Actor(), rounds, points=[point(PLAIN), point(program)], more=asked)
            self.assertEqual(len(session.works[PLAIN].samples["a"]), rounds)
            self.assertEqual(len(session.works[program].samples["a"]), expected)


class Promises(unittest.TestCase):
    def test_what_failed_once_is_not_run_again(self) -> None:
        actor = Actor(failing="b")
        session = played(actor)
        self.assertEqual(sum(name == "b" for _, _, name in actor.asked), len(POINTS))
        self.assertEqual(session.works[PLAIN].refused, {"b": "it failed"})
        self.assertIn("REFUSED b: plain: it failed", session.refusals())
        self.assertEqual(len(session.works[PLAIN].samples["a"]), 7)

    def test_a_budget_is_kept_in_whole_rounds(self) -> None:
        """By the clock of this test 16 runs warm up, 3 are traced, a round has 16."""
        actor = Actor()
        session = played(actor, rounds=1000, budget=19 + 3 * 16 + 15)
        self.assertEqual({len(runs) for runs in session.works[PLAIN].samples.values()}, {3})
        self.assertEqual(len(actor.asked), 19 + 3 * 16)
        self.assertIn("3 rounds fitted", session.warned[0])
        self.assertEqual(played(Actor(), rounds=3, budget=19 + 3 * 16).warned, [])

    def test_an_interruption_leaves_what_there_is(self) -> None:
        class Interrupted(Actor):
            def sample(self, work: Workload, allocator: Allocator) -> Sample:
                if len(self.asked) > 40:
                    raise KeyboardInterrupt
                return super().sample(work, allocator)

        session = played(Interrupted())
        self.assertIn("interrupted", session.warned[0])
        self.assertTrue(session.works[PLAIN].samples)


class Machines(unittest.TestCase):
    def test_nothing_is_empty(self) -> None:
        for key, value in machine.describe().items():
            self.assertTrue(value, key)

    def test_what_a_page_takes_is_known_or_said_to_be_unknown(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            program = Path(scratch) / "paging_cost"
            program.write_text('#!/bin/sh\necho \'{"fault_ns": 700, "huge_fault_ns": -1}\'')
            program.chmod(0o755)
            part = {"paging": machine.paging(program)}
            self.assertEqual(machine.paging(Path("/nowhere/paging_cost")), {})
        result = Result({}, {}, [], "wall", False, [part, {}])
        prices = [result.paging(f"{what}fault_ns") for what in ("", "huge_")]
        self.assertEqual(prices, [700, None])

    def test_the_library_s_tree_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            library = Path(scratch) / "libhakmem.so.1.2.3"
            library.write_text("x")
            self.assertEqual(machine.hakmem(library)["commit"], "unknown")
            git = ["git", "-C", scratch, "-c", "user.name=x", "-c", "user.email=x@x"]
            for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
                subprocess.run([*git, *words], check=True)
            clean = machine.hakmem(library)
            self.assertEqual((clean["version"], clean["uncommitted changes"]), ("1.2.3", "no"))
            self.assertRegex(clean["commit"], r"^[0-9a-f]{40}$")
            library.write_text("y")
            changed = machine.hakmem(library)
            self.assertEqual(changed["uncommitted changes"], "yes")
            self.assertNotEqual(changed["sha256"], clean["sha256"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
