"""Checks hakmem bench: it compares allocators on its benchmarks and on a program, and excludes runs that are not measurements."""

import json
import os
import unittest
from pathlib import Path

from hakmem import allocators, bench
from hakmem.allocators import Contest
from hakmem.measuring import Launcher
from tool import LIBRARY, LINKED_SHARED, PLAIN, STATIC, ToolTest

TWO = ("--rounds", "5", "-a", "glibc", "-a", "hakmem")


class Whole(ToolTest):
    def test_every_benchmark_runs(self) -> None:
        """Each one runs once. A renamed program or scenario would exclude all allocators."""
        glibc = allocators.Allocator("glibc", None)
        works = bench.works_of(bench.Plan([], [], [], 5), Path(LIBRARY), [glibc])
        self.assertEqual([work.name for work in works], list(bench.BENCHMARKS))
        for work in works:
            words = [word if not word.isdigit() or int(word) < 200_000 else "2000" for word in work.command]
            with self.subTest(work.name), Launcher(Path(LIBRARY), words) as launch:
                short = bench.Work(work.name, words)
                played, why = bench.run(launch, short, glibc, self.folder / "output")
                self.assertEqual(why, "")
                self.assertGreater(played["time"], 0)

    def test_two_allocators_on_a_benchmark(self) -> None:
        said = self.ok("bench", "--only", "json", *TWO, "--json", "o.json", "--html", "o.html")
        self.assertIn("json: bench_scenario json", said)
        self.assertRegex(said, r"(?m)^glibc +\d+\.\d\d ns")
        self.assertRegex(said, r"(?m)^hakmem +\d+\.\d\d ns +\d\.\d\d \(\d\.\d\d–\d")
        self.assertRegex(said, r"Least CPU time: \S+.*\.")
        (row,) = json.loads((self.folder / "o.json").read_text())["rows"]
        self.assertEqual({name: len(runs) for name, runs in row["runs"].items()}, {"glibc": 5, "hakmem": 5})
        self.assertEqual(row["refused"], {})
        page = (self.folder / "o.html").read_text()
        self.assertIn("json: CPU per operation", page)
        self.assertIn('"error_x"', page)

    def test_a_program(self) -> None:
        said = self.ok("bench", *TWO, "--", PLAIN, "20000")
        self.assertRegex(said, r"(?m)^hakmem +\d\.\d{3} s")
        self.assertRegex(said, r"Least memory: \S+.*\.")
        self.assertNotIn("left out", said)

    def test_what_is_refused(self) -> None:
        self.refused(64, "no such benchmark; there are random_mixed, ", "bench", "--only", "nothing")
        self.refused(64, "leave it out, or the program", "bench", "--only", "json", "--", PLAIN)
        self.refused(127, "no such program", "bench", "--", "no-such-program-here")
        self.refused(1, "HAKMEM did not serve the program", "bench", *TWO, "--", STATIC)
        self.refused(1, "the program is linked with HAKMEM", "bench", *TWO, "--", LINKED_SHARED)
        self.refused(1, "add --exit-code 3", "bench", *TWO, "--", "sh", "-c", "exit 3")


class Judging(ToolTest):
    def test_a_run_that_is_no_measurement(self) -> None:
        hakmem = allocators.Allocator("hakmem", Path(LIBRARY))
        output = self.folder / "output"
        for printed, why in (
            (f"malloc_from {LIBRARY}\ncpu_ns_per_op 7.5\n", ""),
            ("malloc_from /lib/libc.so.6\ncpu_ns_per_op 7.5\n", "malloc came from /lib/libc.so.6"),
            ("", "malloc came from an unknown file"),
            (f" x\nbanner \nmalloc_from {LIBRARY}\n", "it printed no time"),
        ):
            output.write_text(printed)
            self.assertEqual(bench.with_own_figures({"time": 1.0}, output, hakmem), ({} if why else {"time": 7.5}, why))
        for command, why in ((["sh", "-c", "echo no >&2; exit 3"], "it ended with code 3: no"), (["true"], "malloc came from an unknown file")):
            with Launcher(Path(LIBRARY), command) as launch:
                self.assertEqual(bench.run(launch, bench.Work("work", command), hakmem, output), ({}, why))

    def test_two_libraries_of_one_name(self) -> None:
        other = self.folder / "libhakmem.so"
        other.write_bytes(Path(LIBRARY).read_bytes())
        one, two = allocators.named(["hakmem", str(other)], Path(LIBRARY), ())
        self.assertEqual((one.name, two.name), ("hakmem", f"hakmem ({other})"))
        self.refused(64, "it is named twice", "bench", "-a", "glibc", "-a", "glibc")

    def test_a_place_that_cannot_be_written(self) -> None:
        self.refused(1, "No such file", "bench", "--only", "json", "--json", "no/such/folder/o.json")

    def test_a_daemon_that_stays(self) -> None:
        """The launcher must not wait for it."""
        said = self.ok("bench", *TWO, "--", "sh", "-c", f"setsid sleep 1000 & exec {PLAIN} 20000")
        self.assertRegex(said, r"Least memory: ")

    def test_an_excluded_allocator_stays_out(self) -> None:
        contest = Contest([allocators.Allocator(name, None) for name in ("glibc", "other")], bench.OF_PROGRAMS)
        for number in range(6):
            contest.add("glibc", {"time": 2.0, "rss_bytes": 10.0, "faults": 3.0}, "")
            contest.add("other", {"time": 1.0, "rss_bytes": 20.0, "faults": 3.0}, "it ended with code 1" if number == 5 else "")
        self.assertEqual(contest.able, ["glibc"])
        work = bench.Work("work", ["program"], False, 0, contest)
        (time, memory) = bench.sections_of(work)
        self.assertEqual(time[2]["data"][0]["y"], ["glibc"])
        self.assertEqual(memory[0], "work: peak RSS")


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main(verbosity=2)
