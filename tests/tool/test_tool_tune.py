"""Checks hakmem tune: it must measure what it reports, choose by its measurements, and claim no more than the rounds support."""

import io
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from rich.console import Console

from hakmem import interval, launcher, measuring, tune
from tool import LINKED, OWN_MALLOC, PLAIN, PYTHON, ROOT, TOOL, ToolTest

QUICKLY = ("tune", "--budget", "0.02", "--rounds", "5", "--candidates", "3")
# A program that does less work if any option is set.
GAINS = ("sh", "-c", f'env | grep -q "^HAKMEM_[^R]" || exec {PLAIN} 3000000; exec {PLAIN} 3')
OPTION_ROW = re.compile(r"^HK_OPT\(NUMBER, (\w+), (\d+), (\d+), (\d+),", re.MULTILINE)


class Whole(ToolTest):
    def test_it_picks_and_writes_a_profile(self) -> None:
        said = self.ok(*QUICKLY, "-o", "my.profile", "--", *GAINS)
        first, *rest = (self.folder / "my.profile").read_text().splitlines()
        self.assertEqual(first, "# hakmem profile")
        settings = [line for line in rest if not line.startswith("#")]
        self.assertIn("# from: ", "\n".join(rest))
        for line in settings:
            self.assertRegex(line, r"^\w+ = \w+$")
        self.assertRegex(said, r"CPU time +\d.* s +\d.* s +\d.* s +\d\.\d+ \(\d\.\d+ … \d")
        self.assertRegex(said, r"Against default: \d+\.\d % less")
        self.assertRegex(said, r"Against glibc: ")
        self.assertNotIn("no profile is needed", said)
        self.assertIn(f"to use it: {shlex.join(['hakmem', 'run', '--profile', 'my.profile', '--', *GAINS])}\n", said)
        self.library_understands(settings)

    def library_understands(self, settings: list[str]) -> None:
        words = [word for line in settings for word in ("--set", line.replace(" = ", "="))]
        done = self.tool("run", "--report", "r.json", *words, "--", PLAIN)
        self.assertNotIn("is not a number", done.stderr)
        self.assertNotIn("unknown option", done.stderr)

    def test_a_program_that_is_linked_with_hakmem(self) -> None:
        """The program has no run on glibc that could be compared."""
        said = self.ok(*QUICKLY, "--", LINKED, "100000")
        self.assertIn("The program is linked with HAKMEM", said)
        self.assertRegex(said, r"\n +default +best +best / default *\n")
        self.assertNotIn("Against glibc", said)

    def test_all_profiles_compete(self) -> None:
        names = [candidate.name for candidate in measuring.named({"profile": ""})]
        self.assertEqual(names, ["throughput", "balanced", "compact"])

    def test_what_it_cannot_tune(self) -> None:
        self.refused(1, "did not serve", "tune", "--budget", "0", "--rounds", "5", "--", OWN_MALLOC)
        self.refused(
            1, "fails without HAKMEM too, with exit code 3: oh", *QUICKLY, "--", "sh", "-c", "echo oh >&2; exit 3"
        )
        self.refused(1, "does not end alike each time: exit code 0, then 1", *QUICKLY, "--", "mkdir", "once")
        self.assertEqual(list(self.folder.glob("*.profile")), [])
        self.refused(127, "no such program", "tune", "--", "no-such-program-here")
        self.assertEqual(self.tool("tune", "--rounds", "3", "--", PLAIN).returncode, 2)

    def test_another_exit_code_may_be_success(self) -> None:
        self.ok(*QUICKLY, "--exit-code", "3", "--", PYTHON, "-I", "-S", "-c", "raise SystemExit(3)")

    def test_the_output_is_checked_before_the_first_run(self) -> None:
        for output, why in (("gone/p", "No such file"), (".", "Is a directory")):
            self.refused(1, why, *QUICKLY, "-o", output, "--", "sh", "-c", "echo >> ran")
        self.assertFalse((self.folder / "ran").exists())

    def test_interrupted_it_keeps_the_best_so_far(self) -> None:
        runs = self.folder / "runs"
        counted = ("sh", "-c", f'echo >> {runs}; exec "$0" "$@"', *GAINS)
        tuning = self.start(*TOOL, "tune", "--rounds", "500", "--candidates", "4", "-o", "kept.profile", "--", *counted)
        self.wait_for(lambda: runs.exists() and len(runs.read_text()) > 12, "the first candidates have run")
        tuning.send_signal(2)
        said, _ = tuning.communicate()
        self.assertEqual(tuning.returncode, 130)
        self.assertRegex(said, r"Interrupted after \d+ of \d+ runs")
        self.assertRegex(said, r"Best so far: .*; 0\.\d+ of the default's CPU time × peak memory, not confirmed")
        self.assertIn("# Interrupted.", (self.folder / "kept.profile").read_text().splitlines())


class Measuring(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        self.server = subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end, self.server)

    def ask(self, *command: str, timeout: float = 60, warm: int = 0, **setting: str) -> dict:
        request = {
            "command": command,
            "set": setting,
            "errors": str(self.folder / "errors"),
            "output": "/dev/null",
            "warm_bytes": warm,
            "timeout": timeout,
        }
        print(json.dumps(request), file=self.server.stdin, flush=True)
        return json.loads(self.server.stdout.readline())

    def test_peak_memory_is_the_programs_own(self) -> None:
        """The peak must not include the memory of the parents, which are this interpreter and the launcher."""
        interpreter, small = self.ask(PYTHON, "-I", "-S", "-c", ""), self.ask(PLAIN)
        self.assertLess(small["rss_bytes"], interpreter["rss_bytes"] / 2)
        large = self.ask(PYTHON, "-I", "-S", "-c", "b'x' * (64 << 20)")
        self.assertGreater(large["rss_bytes"], interpreter["rss_bytes"] + (60 << 20))
        self.assertLess(self.ask(PLAIN, warm=64 << 20)["rss_bytes"], interpreter["rss_bytes"] / 2)

    def test_work_costs_time_and_faults(self) -> None:
        little, much = self.ask(PLAIN, "1"), self.ask(PYTHON, "-I", "-S", "-c", "sum(range(10**7)); b'x' * (64 << 20)")
        for figure in ("cpu_s", "wall_s", "faults"):
            self.assertGreater(much[figure], little[figure])

    def test_codes_signals_and_variables(self) -> None:
        self.assertEqual(self.ask("sh", "-c", "exit 7")["code"], 7)
        self.assertEqual(self.ask("sh", "-c", "kill -9 $$")["code"], -9)
        self.assertEqual(self.ask("no-such-program-here")["code"], 127)
        self.assertEqual(self.ask("sh", "-c", 'test "$GREETING" = "a b"', GREETING="a b")["code"], 0)
        self.assertEqual(self.ask("sh", "-c", "echo oh >&2; echo output")["code"], 0)
        self.assertEqual((self.folder / "errors").read_text(), "oh\n")

    def test_late_programs_are_ended_with_all_they_left(self) -> None:
        note = self.folder / "child"
        self.assertTrue(self.ask("sh", "-c", f"sleep 600 & echo $! > {note}; wait", timeout=3)["late"])
        self.assertFalse(Path(f"/proc/{note.read_text().strip()}").exists())
        self.assertEqual(self.ask(PLAIN)["code"], 0)


class Server(ToolTest):
    def test_interrupted_it_leaves_nothing_running(self) -> None:
        note = self.folder / "running"
        tuning = self.start(*TOOL, "tune", "--", "sh", "-c", f"echo $$ > {note}; exec sleep 600")
        self.wait_for(lambda: note.exists() and note.read_text(), "the program has begun")
        tuning.send_signal(2)
        self.assertEqual(tuning.wait(), 130)
        self.wait_for(lambda: not Path(f"/proc/{note.read_text().strip()}").exists(), "the program has ended")


class Choosing(unittest.TestCase):
    """Tests the search with a launcher that invents figures, so that the best setting is known."""

    def contest(self, cost: dict[str, float], failing: str = "") -> tune.Field:
        chance = random.Random(3)

        class Made:
            def run(self, candidate: measuring.Candidate) -> dict:
                noise = chance.gauss(1, 0.02)
                return {
                    "code": 9 if candidate.name == failing else 0,
                    "cpu_s": cost.get(candidate.name, 1.0) * noise,
                    "rss_bytes": 1000.0,
                    "wall_s": 1.0,
                    "faults": 1.0,
                    "said": "broken",
                }

        return tune.Field(Made(), 0, chance)

    def test_the_best_is_found(self) -> None:
        members = [measuring.Candidate(f"c{index}") for index in range(30)]
        of = tune.OBJECTIVE["both"]
        self.assertEqual(tune.search(self.contest({"c17": 0.7}), members, of, str).name, "c17")
        self.assertEqual(tune.search(self.contest({"c17": 0.7, "c4": 0.8}, failing="c17"), members, of, str).name, "c4")

    def test_the_budget_bounds_the_search(self) -> None:
        plan = tune.Plan([], "both", budget_s=100, rounds=7, candidates=None, output=Path(), seed=1)
        count = tune.affordable(plan, run_s=1)
        self.assertLessEqual(tune.runs_of(count) + 3 * 7, 100)
        self.assertGreater(tune.runs_of(count + 1) + 3 * 7, 100)
        self.assertEqual(tune.affordable(plan, run_s=1000), 2)
        self.assertEqual(
            [tune.within_budget(plan, run_s).rounds for run_s in (1, 3, 1000)], [7, 5, interval.LEAST_ROUNDS]
        )
        self.assertEqual(tune.rungs(9), [(9, 1), (3, 2)])

    def verdict(self, ratio: float) -> str:
        best, plan = measuring.Candidate("best"), tune.Plan([], "time", 1, 11, None, Path(), 1)
        contest = self.contest({"best": ratio})
        for _ in range(plan.rounds):
            contest.round([measuring.GLIBC, measuring.DEFAULT, best], str)
        return tune.verdict(contest, best, measuring.DEFAULT, plan)

    def test_the_best_so_far(self) -> None:
        members = [measuring.Candidate(f"c{index}") for index in range(9)]
        contest, of = self.contest({"c3": 0.5, "c5": 0.8}, failing="c3"), tune.OBJECTIVE["time"]
        self.assertIsNone(contest.best_so_far(members, of))
        contest.round([measuring.DEFAULT, *members], str)
        best, share = contest.best_so_far(members, of)
        self.assertEqual(best.name, "c5")
        self.assertAlmostEqual(share, 0.8, delta=0.1)

    def closing_words(self, ratio: float) -> str:
        best = measuring.Candidate("best", {"large_cache": "1048576"})
        with tempfile.TemporaryDirectory() as folder:
            plan = tune.Plan(["prog", "a b"], "time", 1, 11, None, Path(folder, "p"), 1)
            contest = self.contest({"best": ratio})
            for _ in range(plan.rounds):
                contest.round([measuring.GLIBC, measuring.DEFAULT, best], str)
            said = io.StringIO()
            tune.close(plan, contest, best, {"large_cache": "1048576"}, 3, Console(file=said, width=120))
            self.written = plan.output.exists()
        return said.getvalue()

    def test_the_closing_words_do_not_contradict(self) -> None:
        said = self.closing_words(0.5)
        self.assertTrue(self.written and "to use it:" in said and "prog 'a b'" in said, said)
        self.assertNotIn("no profile is needed", said)
        said = self.closing_words(1.0)
        self.assertIn("no profile is needed, and none is written", said)
        self.assertFalse(self.written or "to use it" in said, said)

    def test_what_is_said_of_it(self) -> None:
        self.assertIn("% less CPU time (95 % confidence", self.verdict(0.8))
        self.assertIn("% MORE CPU time (95 % confidence", self.verdict(1.2))
        self.assertIn("no significant change", self.verdict(1.0))


class Profiles(ToolTest):
    def written(self, options: dict[str, str]) -> list[str]:
        plan = tune.Plan(["prog", "a\nb"], "both", 1, 5, None, self.folder / "p", 1)
        tune.write_profile(plan, measuring.Candidate("it"), options, ["Against default: less."])
        return (self.folder / "p").read_text().splitlines()

    def test_only_bytes_are_abbreviated(self) -> None:
        self.assertIn("purge_delay = 24576", self.written({"purge_delay": str(24 << 10)}))
        drawn = measuring.draw(200, random.Random(1), measuring.RANGES)
        delays = [part for candidate in drawn for part in candidate.name.split(", ") if part.startswith("purge_delay")]
        self.assertTrue(delays)
        for delay in delays:
            self.assertRegex(delay, r"^purge_delay [\d ]+ ms$")

    def test_each_setting_has_its_line_and_all_else_is_comment(self) -> None:
        first, *rest = self.written({"large_cache": str(12 << 20), "purge_delay": "7"})
        self.assertEqual(first, "# hakmem profile")
        self.assertEqual([line for line in rest if not line.startswith("#")], ["large_cache = 12m", "purge_delay = 7"])
        self.assertIn("# Against default: less.", rest)


class Candidates(unittest.TestCase):
    def setUp(self) -> None:
        rows = OPTION_ROW.findall((ROOT / "src/policy/options.def").read_text())
        self.options = {name: (int(usual), int(least), int(most)) for name, usual, least, most in rows}

    def test_they_are_within_the_librarys_bounds(self) -> None:
        for candidate in measuring.draw(500, random.Random(1), self.options):
            for name, value in candidate.options.items():
                _, least, most = self.options[name]
                self.assertTrue(least <= int(value) <= most, candidate.name)

    def test_they_reach_over_all_options_and_around_the_defaults(self) -> None:
        drawn = measuring.draw(500, random.Random(1), self.options)
        for name in measuring.RANGES:
            values = [int(candidate.options[name]) for candidate in drawn if name in candidate.options]
            self.assertTrue(min(values) < self.options[name][0] or self.options[name][0] == self.options[name][1], name)
            self.assertTrue(max(values) > self.options[name][0] or self.options[name][0] == self.options[name][2], name)

    def test_no_two_alike_and_only_what_the_library_knows(self) -> None:
        drawn = measuring.draw(100, random.Random(1), {"large_fit": 400})
        self.assertEqual(len({candidate.name for candidate in drawn}), len(drawn))
        self.assertEqual({name for candidate in drawn for name in candidate.options}, {"large_fit"})
        self.assertEqual(measuring.draw(5, random.Random(1), {}), [])
        self.assertEqual(measuring.named({"large_fit": 400}), [])
        self.assertEqual(
            [c.options for c in measuring.named({"profile": ""})], [{"profile": n} for n in measuring.PROFILES]
        )


class Intervals(unittest.TestCase):
    def test_students_quantiles(self) -> None:
        for freedom, tabled in ((4, 2.776), (6, 2.447), (10, 2.228), (30, 2.042)):
            self.assertAlmostEqual(interval.student_quantile(0.975, freedom) / tabled, 1, delta=0.01)

    def covered(self, truth: float, cases: int = 150, rounds: int = 11) -> float:
        chance = random.Random(5)
        held = 0
        for _ in range(cases):
            base = [chance.uniform(1, 2) for _ in range(rounds)]
            found = interval.ratio([value * truth * chance.gauss(1, 0.05) for value in base], base)
            held += found.low <= truth <= found.high
        return held / cases

    def test_it_holds_the_truth_about_as_often_as_it_says(self) -> None:
        self.assertGreater(self.covered(1.0), 0.90)
        self.assertGreater(self.covered(0.8), 0.90)

    def test_few_rounds_and_no_noise(self) -> None:
        self.assertIsNone(interval.ratio([1] * 4, [1] * 4))
        self.assertEqual(interval.ratio([2.0] * 6, [1.0] * 6), interval.Ratio(2.0, 2.0, 2.0))
        self.assertEqual(interval.paired([0, 1], [0, 0])[0], 1.0)
        self.assertEqual(statistics.median(interval.paired([3, 1], [1, 1])), 2.0)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main(verbosity=2)
