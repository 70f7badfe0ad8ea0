"""Tests the search for the learner's rival: candidates stay within the options, the better half holds the best, and ratios are
correct. A stand-in plays the runs. Run by CTest, or by hand: test_rival.py"""
import contextlib
import io
import math
import re
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

import contest
import gaps
import rival
from contest import DEFAULTS, PLAYS, SPACE, Course, Play, Setting, candidates, fixed
from measure import BadRun, Runner, Sample, mean_rss
from peers import Allocator
from point import Workload
from rich.console import Console

OPTIONS = Path(__file__).resolve().parent.parent / "src/policy/options.def"
ROW = re.compile(r"^HK_OPT\(NUMBER, (\w+), (\d+), (\d+), (\d+), (\w+),", re.MULTILINE)
# The ceiling follows the memory goal. The targets only say when a rule of the learner changes a knob.
NOT_SEARCHED = {"ceiling", "target_hit_mid", "target_hit_large"}


def play(name: str, short: bool = True) -> Play:
    return Play(name, Workload(f"{name} short") if short else None, Workload(f"{name} long"))


@dataclass
class Actor(Runner):
    """CPU, faults and RSS that follow from the setting; records each request."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    failing: dict[str, int] = field(default_factory=dict)  # a delay's runs that are still to fail

    def run_once(self, work: Workload, allocator: Allocator, factor: int = 1, watch: tuple[str, ...] = ()) -> Sample:
        delay = self.hakmem_env.get("HAKMEM_PURGE_DELAY", "500")
        self.asked.append((work.command, delay))
        if self.failing.get(delay, 0) > 0:
            self.failing[delay] -= 1
            raise BadRun("it failed")
        cost = float(delay) / 500
        return SAMPLE | {"user_s": cost, "system_s": 0, "wall_s": 3 * cost, "minor_faults": 100 * cost}


def course(plays: list[Play], **more: dict) -> Course:
    return Course(Actor(Path(), **more), Path("lib.so"), plays)


def delayed(*delays: int) -> list[Setting]:
    return [fixed(str(delay), {"purge_delay": delay}) for delay in delays]


SAMPLE = {"user_s": 1, "system_s": 2, "wall_s": 6, "minor_faults": 7, "max_rss_mib": 9, "mean_rss_mib": 4}


def ran(name: str, *rounds: dict[str, tuple[float, float, float]]) -> Setting:
    """CPU, faults, RSS of each program in each round."""
    runs = [{play: dict(zip(("cpu", "faults", "rss"), told)) for play, told in one.items()} for one in rounds]
    return Setting(name, {}, runs)


class Space(unittest.TestCase):
    def setUp(self) -> None:
        self.rows = {name: [int(x) for x in bounds] + [scope] for name, *bounds, scope in ROW.findall(OPTIONS.read_text())}

    def test_each_policy_option_is_searched(self) -> None:
        policy = {name for name, row in self.rows.items() if row[3] == "policy"}
        self.assertEqual(SPACE.keys() - {"background"}, policy - NOT_SEARCHED)

    def test_values_are_allowed_and_the_default_is_among_them(self) -> None:
        words = re.search(r"^HK_OPT\(WORD, background, (\d), \d, \d, start, ([\w|]+),", OPTIONS.read_text(), re.MULTILINE)
        names = words[2].split("|")
        self.assertEqual((names, names[int(words[1])]), ([str(value) for value in SPACE["background"]], DEFAULTS["background"]))
        for knob, values in SPACE.items():
            if knob == "background":
                continue
            default, least, most, _ = self.rows[knob]
            self.assertEqual(DEFAULTS[knob], default, knob)
            self.assertIn(default, values, knob)
            self.assertTrue(all(least <= value <= most for value in values), knob)

    def test_candidates_differ_and_do_not_learn(self) -> None:
        found, again, other = ([one.options for one in candidates(220, seed)] for seed in (1, 1, 2))
        self.assertEqual(found[0], {"HAKMEM_LEARN": "off"})
        self.assertEqual(len({tuple(sorted(options.items())) for options in found}), 220)
        self.assertEqual({options["HAKMEM_LEARN"] for options in found}, {"off"})
        self.assertEqual(found, again)
        self.assertNotEqual(found, other)


class Programs(unittest.TestCase):
    def test_there_are_twelve_and_more_and_they_differ_and_short_ones_do_less(self) -> None:
        names = {one.name for one in PLAYS}
        self.assertGreaterEqual(len(names), 12)
        self.assertEqual(len(names), len(PLAYS))
        self.assertLessEqual({"phases", "python-json", "drift trace"}, names)
        for one in PLAYS:
            if one.short and one.name != "phases":
                self.assertLessEqual(one.short.n, one.long.n, one.name)
                self.assertEqual(one.short.amount(False), one.short.n)

    def test_rss_is_between_peak_and_mean_or_the_peak_of_a_run_too_short_to_be_seen(self) -> None:
        told = contest.figures(SAMPLE)
        self.assertEqual((told["cpu"], told["faults"], told["rss"], told["stretch"]), (3, 7, 6, 2))
        told = contest.figures({key: value for key, value in SAMPLE.items() if key != "mean_rss_mib"})
        self.assertEqual((told["mean"], told["rss"]), (9, 9))

    def test_phases_are_judged_by_operation(self) -> None:
        speed = {f"cpu_mops_{phase}": 2.0 for phase in contest.BUSY}
        faults = {f"faults_{phase}": 8.0 for phase in contest.FAULTING} | {f"mops_{phase}": 2.0 for phase in contest.FAULTING}
        told = contest.figures(SAMPLE | speed | faults)
        self.assertAlmostEqual(told["cpu"], 0.5)
        self.assertAlmostEqual(told["faults"], 4)

    def test_speed_by_the_clock_asked_for(self) -> None:
        sample = {"rss_mib_mean": 4.0}
        for phase in contest.BUSY:
            sample |= {f"mops_{phase}": 2.0, f"cpu_mops_{phase}": 8.0, f"faults_{phase}": 8.0, f"settled_ms_{phase}": 3.0}
        for cpu_clock, throughput in ((False, 2), (True, 8)):
            told = rival.figures(sample, cpu_clock)
            self.assertAlmostEqual(told["throughput"], throughput)
            self.assertAlmostEqual(told["faults"], 4)

    def test_mean_rss_is_weighted_by_time(self) -> None:
        for trace, mib in ([[0, 1024], [10, 2048], [20, 2048], [40, 0]], 1.75), ([[0, 1024]], 1):
            self.assertEqual(mean_rss({"rss_trace": trace}), {"mean_rss_mib": mib})
        self.assertEqual(mean_rss({}), {})


class Search(unittest.TestCase):
    def setUp(self) -> None:
        self.said = self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def test_the_search_runs_all_on_what_is_short(self) -> None:
        tried = course([play("a"), play("b", short=False)])
        settings = delayed(500, 1000)
        self.assertEqual(tried.search(settings, long=False, jobs=2), settings)
        self.assertEqual({command for command, _ in tried.runner.asked}, {"a short"})
        self.assertEqual([contest.mean(one, "cpu") for one in settings], [1, 2])

    def test_a_run_that_fails_is_tried_again_and_then_dropped(self) -> None:
        tried = course([play("a")], failing={"100": 2, "200": 99})
        left = tried.search(delayed(500, 100, 200), long=True, jobs=1)
        self.assertEqual([one.name for one in left], ["500", "100"])
        self.assertEqual(list(tried.failed), ["200"])
        self.assertIn("dropped 200, a long: it failed", self.said.getvalue())

    def test_finals_take_turns_program_by_program(self) -> None:
        tried = course([play("a"), play("b")])
        settings = delayed(500, 1000, 2000)
        tried.finals(settings, rounds=2)
        asked = tried.runner.asked[2:]  # the first two are made once
        self.assertEqual([command for command, _ in asked], (["a long"] * 3 + ["b long"] * 3) * 2)
        for at in range(0, len(asked), 3):
            self.assertEqual({delay for _, delay in asked[at : at + 3]}, {"500", "1000", "2000"})
        self.assertTrue(all(run.keys() == {"a", "b"} for one in settings for run in one.runs))

    def test_the_best_share_holds_the_defaults_and_the_best_of_each_kind(self) -> None:
        settings = [ran("defaults", {"a": (9, 9, 9)}), ran("both", {"a": (2, 2, 1)}), ran("fast", {"a": (1, 8, 1)}),
                    ran("lean", {"a": (8, 1, 1)}), ran("poor", {"a": (10, 10, 1)})]
        self.assertEqual({one.name for one in contest.best_share(settings, 4)}, {"defaults", "both", "fast", "lean"})
        self.assertEqual([one.name for one in contest.rivals(settings)], ["both", "fast", "lean"])

    def test_the_whole_search_ends_with_the_best(self) -> None:
        tried = course([play("a"), play("b")])
        finalists, told = rival.search(tried, 40, 1, 2)
        fastest = min(told.values(), key=lambda one: one["cpu x rss"])
        self.assertEqual(finalists[0].name, "defaults")
        self.assertIn(fastest["options"]["HAKMEM_PURGE_DELAY"], {one.options.get("HAKMEM_PURGE_DELAY") for one in finalists[1:]})
        self.assertEqual(len(told), 40)
        self.assertEqual(sum("again" in one for one in told.values()), 10)


class Judging(unittest.TestCase):
    def test_least_cpu_and_median_of_the_rest(self) -> None:
        one = ran("x", {"a": (5, 10, 1)}, {"a": (3, 30, 2)}, {"a": (9, 20, 3)})
        told = contest.of_play(one, "a")
        self.assertEqual((told["cpu"], told["faults"], told["rss"]), (3, 20, 2))
        self.assertEqual((told["cpu x rss"], told["faults x rss"]), (6, 40))

    def test_a_ratio_is_of_geometric_means_and_a_slow_round_that_both_had_does_not_widen_its_interval(self) -> None:
        for one in ([{"a": (1, 1, 1), "b": (4, 1, 1)}] * 5, [{"a": (slow, 1, 1)} for slow in (1, 7, 1, 3, 1)]):
            twice = [{play: (2 * cpu, faults, rss) for play, (cpu, faults, rss) in each.items()} for each in one]
            told = contest.beside(ran("x", *one), ran("y", *twice), "cpu x rss")
            for key in ("ratio", "low", "high"):
                self.assertAlmostEqual(told[key], 0.5)
        self.assertEqual((told["low"], told["high"]), (0.5, 0.5))
        few = ran("x", {"a": (1, 1, 1)})
        self.assertTrue(math.isnan(contest.beside(few, few, "faults x rss")["low"]))

    def test_the_table_says_the_ratio_and_the_setting(self) -> None:
        console = Console(file=io.StringIO(), width=120)
        mine, its = ran("learned", *[{"a": (1, 2, 3)}] * 5), ran("#7", *[{"a": (2, 2, 3)}] * 5)
        its.options = {"HAKMEM_LARGE_FIT": "125"}
        lines = rival.compare_means(console, "finals", mine, [its])
        for said in ("x 0.500 (0.50-0.50)", "#7: HAKMEM_LARGE_FIT=125"):
            self.assertIn(said, console.file.getvalue())
        self.assertEqual(lines[1]["ratios of learned to it"]["faults x rss"]["ratio"], 1)
        self.assertEqual(lines[0]["programs"]["a"]["cpu"], 1)


class Opposed(Actor):
    """Program a is best with a short delay, and program b with a long one."""

    def run_once(self, work: Workload, allocator: Allocator, factor: int = 1, watch: tuple[str, ...] = ()) -> Sample:
        sample = super().run_once(work, allocator, factor, watch)
        return sample if work.command.startswith("a") else sample | {key: 1 / sample[key] for key in ("user_s", "minor_faults")}


class Gaps(unittest.TestCase):
    def setUp(self) -> None:
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def test_there_are_thirty_programs_and_more_and_each_is_searched(self) -> None:
        self.assertGreaterEqual(len(contest.SINGLE_PLAYS), 30)
        self.assertEqual(len({one.name for one in contest.SINGLE_PLAYS}), len(contest.SINGLE_PLAYS))
        self.assertTrue(all(one.short and one.long for one in contest.SINGLE_PLAYS))

    def test_each_program_finds_its_own_best_and_no_single_setting_serves_both(self) -> None:
        tried = Course(Opposed(Path()), Path("lib.so"), [play("a"), play("b")])
        found, single = gaps.measured(tried, 200, 1, jobs=1, rounds=4)
        delays = [int(one.options.get("HAKMEM_PURGE_DELAY", 500)) for one in found if one.measure == "cpu"]
        self.assertLess(delays[0], 500)
        self.assertGreater(delays[1], 500)
        means = gaps.means(found)
        self.assertLess(means["cpu"][gaps.OWN], 0.5)
        self.assertAlmostEqual(means["cpu"][gaps.SINGLE], 1)
        self.assertEqual(means["cpu"][gaps.LEARNED], 1)
        self.assertEqual(means["rss"][gaps.OWN], 1)
        self.assertEqual(set(single), set(gaps.MEASURES))
        self.assertAlmostEqual(gaps.share({gaps.LEARNED: 0.9, gaps.OWN: 0.81}), 0.5)
        self.assertIn("<svg", gaps.picture(found))

    def test_rounds_that_pick_do_not_tell(self) -> None:
        picking, telling = gaps.halves(ran("x", *[{"a": (n, 1, 1)} for n in range(5)]))
        self.assertEqual(([run["a"]["cpu"] for run in picking.runs], [run["a"]["cpu"] for run in telling.runs]), ([0, 1], [2, 3, 4]))


class Found(unittest.TestCase):
    def test_what_was_found_is_run_again_and_what_learns_or_is_a_build_is_not(self) -> None:
        mine, its = ran("learned", {"a": (1, 2, 3)}), ran("#7", {"a": (2, 2, 3)})
        its.options, build = fixed("#7", {"depot": 0}).options, ran("old", {"a": (2, 2, 3)})
        build.options = {"library": "old.so"}
        lines = rival.compare_means(Console(file=io.StringIO()), "finals", mine, [its, build])
        for kind in ("finals", "first run"):
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                rival.write(Path(file.name), {kind: lines})
                again = rival.saved_finalists(Path(file.name))
            self.assertEqual([(one.name, one.options, one.runs) for one in again], [("#7", its.options, [])])


class SecondRun(unittest.TestCase):
    def test_the_second_begins_with_what_the_first_saved(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            first, second = rival.first_and_second(folder)
            other, _ = rival.first_and_second(folder, HAKMEM_BACKGROUND="1")
        self.assertEqual(first.options["HAKMEM_PROFILE_SAVE"], second.options["HAKMEM_PROFILE"])
        self.assertNotEqual(first.options["HAKMEM_PROFILE_SAVE"], other.options["HAKMEM_PROFILE_SAVE"])
        self.assertEqual(other.options["HAKMEM_BACKGROUND"], "1")


if __name__ == "__main__":
    unittest.main()
