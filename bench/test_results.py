"""Tests that results are kept, merged, shown and refused correctly. Nothing is
measured: the samples are made up. Run by CTest, or by hand: test_results.py"""
import json
import random
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

import results
import run
import tables
from point import Goal, Point, Workload
from results import Measured, Result, Unfit

COMMAND = CliRunner()
FAST, MEMORY = Workload("fast {n}", 1000), Workload("memory {n}", 10, warm_mib=16)
FIGURES = ("user_s", "system_s", "wall_s", "max_rss_mib", "minor_faults")


def made_up(work: Workload, metric: str, label: str, begin: str = "1", rounds: int = 7) -> Result:
    """One row, of which HAKMEM has twice the best peer's figure."""
    rng = random.Random(f"{label} {begin}")
    measured = Measured()
    for name, factor in (("glibc", 1.0), ("other", 1.5), ("hakmem", 3.0)):
        for _ in range(rounds):
            measured.add(name, dict.fromkeys(FIGURES, 0.25) | {metric: factor * rng.uniform(9.99, 10.01)})
        measured.whole[name] = {"syscalls": 77}
    measured.refused["limit"] = "cannot run this"
    point = Point("X1", label, work, metric, "M/s", True, Goal(ratio=1.0), Goal(ratio=1.05))
    listed = (("glibc", "peer", "2.36"), ("other", "peer", "1.0"), ("limit", "limit", ""), ("hakmem", "hakmem", "0.1.0"))
    allocators = [dict(zip(("name", "role", "version"), one)) for one in listed]
    part = {"began": begin, "load": "0.1", "rounds": rounds, "seed": 1, "stolen": 0.0}
    return Result({"cpu": "x", "processors": "2"}, {"commit": "c0ffee"}, allocators, "wall", False, [part], [point], {work: measured})


def speed(begin: str = "1", rounds: int = 7) -> Result:
    return made_up(FAST, "mops_per_s", "speed", begin, rounds)


def memory(begin: str = "2") -> Result:
    return made_up(MEMORY, "rounds_of_memory", "memory", begin)


class Documents(unittest.TestCase):
    def setUp(self) -> None:
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "below/result.json"

    def test_come_back_as_they_went(self) -> None:
        results.save(speed(), self.file)
        again = results.load(self.file)
        self.assertEqual(results.to_text(again), self.file.read_text())
        self.assertEqual(tables.markdown(again), tables.markdown(speed()))

    def test_are_json_that_any_reader_takes(self) -> None:
        """An infinite ratio, too: JSON knows none."""
        result = speed()
        for sample in result.works[FAST].samples["glibc"]:
            sample["mops_per_s"] = 0.0
        document = json.loads(results.to_text(result), parse_constant=self.fail)
        self.assertIsNone(document["lines"][0]["versus"]["glibc"]["ratio"])
        self.assertEqual(document["lines"][0]["verdict"], "ahead")

    def test_other_files_are_refused(self) -> None:
        self.file.parent.mkdir()
        self.assertRaises(Unfit, results.load, self.file)
        for text in ("no json", "[]", '{"format": "another/1"}'):
            self.file.write_text(text)
            self.assertRaises(Unfit, results.load, self.file)


class Merging(unittest.TestCase):
    def refused(self, other: Result, why: str) -> None:
        with self.assertRaisesRegex(Unfit, why):
            results.merge([speed(), other])

    def test_rows_are_put_together(self) -> None:
        merged = results.merge([speed(), memory()])
        self.assertEqual([p.label for p in merged.points], ["speed", "memory"])
        self.assertEqual(len(merged.parts), 2)
        self.assertEqual(len(merged.lines()), 2)

    def test_rounds_of_one_row_are_added(self) -> None:
        merged = results.merge([speed("1", 3), speed("2", 4)])
        self.assertEqual(len(merged.points), 1)
        self.assertEqual(len(merged.works[FAST].values("hakmem", "mops_per_s")), 7)
        self.assertEqual(merged.lines()[0].verdict(), "ahead")

    def test_what_is_not_of_one_kind_is_refused(self) -> None:
        for changes, why in (
            ({"machine": {"cpu": "y", "processors": "2"}}, "cpu: x and y"), ({"hakmem": {"commit": "bad"}}, "commit"), ({"clock": "cpu"}, "clock"),
            ({"quick": True}, "quick"), ({"allocators": [{"name": "glibc", "role": "peer", "version": "2.41"}]}, "glibc"),
        ):
            self.refused(replace(memory(), **changes), why)
        self.refused(speed(), "the same run twice")
        alone = speed("2")
        del alone.works[FAST].samples["other"]
        self.refused(alone, "cannot be paired")

    def test_the_same_library_is_the_same_whatever_was_committed(self) -> None:
        one, other = (replace(part, hakmem={"commit": commit, "sha256": "1234"}) for part, commit in ((speed(), "before"), (memory(), "after")))
        self.assertEqual(results.merge([one, other]).hakmem["commit"], "before")
        other.hakmem["HAKMEM_GOAL"] = "1G"
        with self.assertRaisesRegex(Unfit, "HAKMEM_GOAL"):
            results.merge([one, other])


class Texts(unittest.TestCase):
    def test_a_row_says_what_was_shown(self) -> None:
        shown = dict(zip(*tables.judged(speed().lines())))
        self.assertLessEqual({"best peer": "other", "verdict": "ahead", "paired ratio": "2.00", "met": "yes"}.items(), shown.items())

    def test_costs_come_from_rounds_and_from_the_counted_run(self) -> None:
        costs = dict(tables.costs(speed()))
        self.assertEqual(costs["system calls"][1], ["X1 speed", "77", "77", "-", "77"])
        self.assertEqual(costs["processor time, s"][1][1], "0.50")

    def test_tails_lie_on_the_worse_side(self) -> None:
        fast = speed(rounds=0)
        fast.works[FAST].samples["hakmem"] = [{"mops_per_s": float(value)} for value in range(1, 22)]
        rows = tables.tails(fast.lines(), fast.names())
        self.assertEqual(dict(zip(*rows))["hakmem"], "2.00")
        fast.points[0] = replace(fast.points[0], higher=False)
        self.assertEqual(dict(zip(*tables.tails(fast.lines(), fast.names())))["hakmem"], "20.0")

    def test_a_busy_machine_is_noticed(self) -> None:
        """The made-up runs computed for 0.5 s, in 0.25 s: more than one thread could."""
        result = speed()
        self.assertEqual(run.busy_machine(result), [])
        for runs in result.works[FAST].samples.values():
            for sample in runs:
                sample["wall_s"] = 0.6
        self.assertIn("83%", run.busy_machine(result)[0])
        result.works[FAST].samples.clear()
        self.assertEqual(run.busy_machine(result), [])
        result.parts[0]["stolen"] = 0.125
        self.assertIn("12%", run.busy_machine(result)[0])

    def test_nothing_measured_is_said_and_a_refused_run_is_no_figure(self) -> None:
        self.assertIn("- rounds: 0\n", tables.markdown(speed(rounds=0)))
        result = speed()
        result.works[FAST].refused["other"] = "wrong library"
        line = result.lines()[0]
        self.assertEqual(line.best_peer, "glibc")
        self.assertNotIn("other", line.medians)


class Commands(unittest.TestCase):
    def invoke(self, *words: str) -> tuple[int, str]:
        done = COMMAND.invoke(run.app, words)
        return done.exit_code, done.output

    def test_floors_without_intervals_and_a_library_that_is_not_there_are_refused(self) -> None:
        for words, what in (("--check", "--rounds", "4"), "--check"), (("--lib", "/nowhere/libhakmem.so"), "/nowhere"):
            code, text = self.invoke(*words)
            self.assertEqual(code, 2)
            self.assertIn(what, text)

    def test_page_of_parts_that_do_not_fit(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            one, other = Path(scratch) / "1.json", Path(scratch) / "2.json"
            results.save(speed(), one)
            results.save(replace(memory(), clock="cpu"), other)
            self.assertEqual(self.invoke("page", str(one), str(other))[0], 2)
            results.save(memory(), other)
            both = Path(scratch) / "both.json"
            code, text = self.invoke("page", str(one), str(other), "--merge", str(both))
            self.assertEqual(code, 0, text)
            self.assertEqual(len(results.load(both).points), 2)

    def test_exit_codes(self) -> None:
        good, missed, refused = speed(), speed(), speed()
        missed.points = [replace(missed.points[0], floor=Goal(ratio=9.0))]
        refused.works[FAST].refused["hakmem"] = "not served"
        for result, check, code in ((good, True, 0), (missed, True, 1), (missed, False, 0), (refused, False, 1)):
            self.assertEqual(run.exit_code(result, check), code)


if __name__ == "__main__":
    unittest.main(verbosity=2)
