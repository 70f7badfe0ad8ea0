"""Tests that counts of whole programs are exact, and that invalid runs are refused.

    python3 bench/test_exact.py build/bench

The programs are ours: a benchmark stands in for a real one.
"""
import contextlib
import io
import json
import shutil
import unittest
from pathlib import Path
from unittest import mock

import cachegrind
import exact
import verdicts
from built import BENCH_DIR, GLIBC, hakmem
from exact import Exact, Laboratory, leveled, together
from measure import BadRun
from peers import Allocator
from point import Goal, Point, Workload
from programs import EXACT, NAMED, Program
from results import Measured

OUT = """desc: I1 cache: 32768 B, 64 B, 8-way associative
cmd: ./program
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
fl=a.c
fn=main
1 700 1 1 10 2 1 5 1 1
2 100 0 0 1 0 0 0 0 0
fl=???
fn=malloc
0 200 1 0 4 1 1 2 3 0
summary: 1000 2 1 15 3 2 7 4 1
"""


class Reading(unittest.TestCase):
    def test_totals_and_functions(self) -> None:
        seen = cachegrind.read(OUT)
        self.assertEqual(seen.functions, {"main": 800, "malloc": 200})
        self.assertEqual((seen.totals["Ir"], seen.misses("D1"), seen.misses("DL")), (1000, 7, 3))

    def test_nothing_counted_is_refused(self) -> None:
        with self.assertRaisesRegex(BadRun, "counted nothing"):
            cachegrind.read("events: Ir\nsummary: 0\n")


class WhoServed(unittest.TestCase):
    """By the names of functions that ran."""

    def check(self, stripped: bool = False, **functions: int) -> None:
        seen = cachegrind.Counts({"Ir": 1_000_000}, functions)
        with mock.patch.multiple(cachegrind, own_functions=lambda _: {"mi_page"}, is_stripped=lambda _: stripped):
            cachegrind.check_ran(seen, Path("liballocator.so"))

    def test_its_own_ran_or_it_has_no_names(self) -> None:
        self.check(mi_page=5000, _int_malloc=10)
        self.check(stripped=True)

    def test_its_own_did_not_or_the_c_librarys_did(self) -> None:
        for reason, functions in (
            ("50 of 1,000,000 instructions were in functions", {"mi_page": 50}),
            ("in the C library's malloc", {"mi_page": 5000, "_int_malloc": 9000}),
            ("in the C library's malloc", {"stripped": True, "_int_malloc": 9000}),
        ):
            with self.assertRaisesRegex(BadRun, reason):
                self.check(**functions)

    def test_names_that_all_allocators_have_are_not_its_own(self) -> None:
        own = cachegrind.own_functions(hakmem().library)
        self.assertFalse({"malloc", "free", "realloc", "calloc"} & own)
        self.assertTrue(own)


class Figures(unittest.TestCase):
    def test_misses_of_the_tlb_are_of_the_pages_that_it_had(self) -> None:
        once = [{"instructions_m": 5.0}, {"tlb_small_k": 1000.0, "tlb_huge_k": 10.0}]
        runs = [{"page_faults": 7.0, "peak_mib": 40.0, "huge_mib": huge} for huge in (0.0, 10.0, 50.0)]
        samples = together([*once, *runs])
        self.assertEqual([s["tlb_misses_k"] for s in samples], [1000, 752.5, 10])
        self.assertEqual([s["instructions_m"] for s in samples], [5, 5, 5])

    def test_environments_are_of_one_size(self) -> None:
        every = [{"A": "1"}, {"LD_PRELOAD": "/a/long/path", "B": ""}, {}]
        out = [leveled(env, every) for env in every]
        self.assertEqual(len({len(env) for env in out}), 1)
        self.assertEqual(len({sum(len(k) + len(v) for k, v in env.items()) for env in out}), 1)
        for env, full in zip(every, out):
            self.assertLessEqual(env.items(), full.items())

    def test_a_count_is_judged_by_what_the_runs_said(self) -> None:
        point = Point("exact.x", "x", Workload("x"), "m", "", False, Goal(), Goal(), repeats=0.01)
        seen = verdicts.compare(point, [100.0, 100.0, 104.0], [120.0, 110.0, 111.0])
        self.assertEqual(seen.ratio, 1.1)
        self.assertAlmostEqual(seen.interval.low, 110 / 104 * 0.99)
        self.assertAlmostEqual(seen.interval.high, 1.2 * 1.01)
        for other, said in ((100.5, "level"), (102.0, "ahead")):
            self.assertEqual(verdicts.compare(point, [100.0], [other]).verdict.value, said)
        self.assertGreaterEqual(len(EXACT), 6)
        self.assertLessEqual(EXACT.keys(), NAMED.keys())


@unittest.skipUnless(shutil.which("valgrind"), "no valgrind here")
class Counting(unittest.TestCase):
    def setUp(self) -> None:
        if not hakmem().library.exists():
            self.skipTest("no libhakmem.so beside the benchmarks")
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))
        toy = Program("toy", f"{BENCH_DIR}/bench_random_mixed {{n}} 256 42", 20_000, 5_000)
        self.enterContext(mock.patch.dict(NAMED, toy=toy))
        self.work = Workload(toy.command, toy.n, toy.quick_n, program="toy", exact=True)

    def measured(self, allocators: list[Allocator]) -> Exact:
        point = Point("exact.toy", "toy", self.work, "m", "", False, Goal(), Goal(), repeats=0.01)
        found = Exact(Laboratory(BENCH_DIR, allocators=allocators), [point])
        found.measure()
        return found

    def test_all_is_counted_and_repeats(self) -> None:
        once, again = (self.measured([GLIBC, hakmem()]).works[self.work] for _ in range(2))
        self.assertEqual(once.refused, {})
        for name in ("glibc", "hakmem"):
            self.assertEqual(len(once.samples[name]), exact.ORDINARY_RUNS)
            one, other = once.samples[name][0], again.samples[name][0]
            for figure in ("instructions_m", "d1_misses_m", "tlb_small_k"):
                self.assertGreater(one[figure], 0)
                # AT_RANDOM is another in each run.
                self.assertAlmostEqual(one[figure] / other[figure], 1, delta=0.003)
            self.assertGreater(one["system_calls"], 5)
            self.assertGreater(one["page_faults"], 50)
            self.assertTrue(once.traces[name])
        self.assertLess(*(once.samples[name][0]["instructions_m"] for name in ("hakmem", "glibc")))

    def test_a_preload_that_fails_is_refused_and_the_others_go_on(self) -> None:
        gone = Allocator("peer", Path("/nowhere/libpeer.so"), "peer")
        found = self.measured([GLIBC, gone])
        self.assertEqual(list(found.works[self.work].samples), ["glibc"])
        self.assertIn("REFUSED peer: exact toy: malloc came from", found.refusals()[0])

    def test_one_that_valgrind_cannot_run_is_seen_in_ordinary_runs(self) -> None:
        with mock.patch.object(Laboratory, "check_preload", side_effect=BadRun("it does not start")):
            found = self.measured([GLIBC])
        sample = found.works[self.work].samples["glibc"][0]
        self.assertGreater(sample["page_faults"], 50)
        self.assertNotIn("instructions_m", sample)
        self.assertIn("glibc is not counted under cachegrind: it does not start", found.warned)

    def test_an_interruption_leaves_out_what_lacks_a_run(self) -> None:
        """Ctrl-C comes to the main thread, which waits for the runs."""
        with mock.patch.object(Exact, "_take", side_effect=KeyboardInterrupt):
            found = self.measured([GLIBC])
        self.assertEqual((found.works, found.points), ({}, []))
        self.assertIn("interrupted", found.warned[0])

    def test_hakmem_must_serve_what_was_counted(self) -> None:
        lab = Laboratory(BENCH_DIR, allocators=[hakmem()])
        with mock.patch.object(lab, "_count", lambda _: {"calls_malloc": 10**9, "calls_free": 1}):
            with self.assertRaisesRegex(BadRun, "served"):
                lab.served(self.work, hakmem())


class Launching(unittest.TestCase):
    def test_huge_pages_are_seen_where_there_are_any(self) -> None:
        """A program whose memory is half on huge pages when it is largest, if the kernel gives them."""
        line = [str(BENCH_DIR / "launch"), "--trace", "2", "--", str(BENCH_DIR / "paging_cost")]
        lines, said = Laboratory(BENCH_DIR).launch(line)
        given = json.loads(lines[-1])["huge_step_ns"] > 0
        # A peak that is a little higher is not looked at.
        self.assertAlmostEqual(said["huge_kib"], 128 * 1024 if given else 0, delta=16 * 1024)
        self.assertEqual(Laboratory(BENCH_DIR).launch([*line[:-1], str(BENCH_DIR / "bench_idle")])[1]["huge_kib"], 0)

    def test_own_time_stands_still_while_a_program_sleeps(self) -> None:
        program = ["sh", "-c", "sleep 0.5"]
        for option, ended in (("", True), ("--own-time", False)):
            line = [str(BENCH_DIR / "launch"), "--trace", "20", *filter(None, [option])]
            _, said = Laboratory(BENCH_DIR).launch([*line, "--", *program])
            self.assertEqual(said["rss_trace"][-1][0] > 400, ended, option)

    def test_addresses_are_fixed_when_asked(self) -> None:
        def stack(*options: str) -> str:
            show = ["sh", "-c", "grep -F [stack] /proc/self/maps"]
            line = [str(BENCH_DIR / "launch"), *options, "--", *show]
            return Laboratory(BENCH_DIR).launch(line)[0][-1]

        self.assertEqual(len({stack("--fixed") for _ in range(3)}), 1)
        self.assertEqual(len({stack() for _ in range(3)}), 3)


class Rounds(unittest.TestCase):
    def test_refused_is_not_put_together(self) -> None:
        work = Workload("x", program="toy", exact=True)
        found = Exact(Laboratory(BENCH_DIR, allocators=[GLIBC]), [])
        found.works = {work: Measured(refused={"glibc": "why"})}
        found._put_together({(work, "glibc"): [dict.fromkeys(exact.FIGURE.values(), 1.0)]})
        self.assertEqual(found.works[work].samples, {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
