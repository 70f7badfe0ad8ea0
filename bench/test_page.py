"""Tests that the page is complete, self-contained and correct. Run by CTest, or by hand: test_page.py"""
import re
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import digest
import page
import plots
import results
import tables
from point import Goal, Workload
from results import Result, Unfit
from test_results import FAST, made_up, memory, speed

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*(?!["']?#)|url\((?!#)|@import""")


def cells(page: str) -> list[str]:
    """Of all tables. The page must be well-formed."""
    return ["".join(cell.itertext()) for cell in ElementTree.fromstring(page).iter("td")]


def traced() -> Result:
    result = results.merge([speed(), memory()])
    trace = [[0, 1000], [5, 90_000], [10, 40_000]]
    result.works[FAST].traces = {"glibc": trace, "hakmem": trace}
    return result


def with_series() -> Result:
    """Two traces that print live bytes: in one, memory is not returned."""
    parts = []
    for name, factor in (("drift", 1.0), ("lru", 2.0)):
        work = Workload(f"trace {name}", series="operations")
        part = made_up(work, "peak_rss_per_live", name, begin=name)
        part.points = [replace(part.points[0], row=f"M7.{name}", unit="x", higher=False)]
        series = [[at, 1000 * at, 1000 * at * factor] for at in range(3)]
        part.works[work].traces = {"glibc": series, "hakmem": series}
        parts.append(part)
    return results.merge(parts)


class Saying(unittest.TestCase):
    def assert_says(self, text: str, *there: str, without: tuple[str, ...] = ()) -> None:
        self.assertTrue(cells(text))
        for what in there:
            self.assertIn(what, text)
        for what in without:
            self.assertNotIn(what, text)


class Pages(Saying):
    @classmethod
    def setUpClass(cls) -> None:
        cls.result = replace(traced(), notes=["<b>skipped</b> & refused"])
        cls.text = page.render(cls.result)

    def test_needs_no_network(self) -> None:
        """Names of XML languages are no addresses."""
        self.assertEqual(OUTSIDE.findall(self.text), [])
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", self.text))
        self.assertLessEqual(addresses, {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"})
        for bad in ('<img src="x.png">', "<a href='http://x'>", "url(//x/y)", '@import "x"'):
            self.assertTrue(OUTSIDE.search(bad), bad)

    def test_says_what_the_tables_say_and_notes_are_text(self) -> None:
        self.assertLessEqual({cell for row in tables.judged(self.result.lines())[1:] for cell in row}, set(cells(self.text)))
        self.assertIn("&lt;b&gt;skipped&lt;/b&gt; &amp; refused", self.text)

    def test_every_colour_has_a_value(self) -> None:
        self.assertLessEqual(set(re.findall(r"var\(--([\w-]+)", self.text)), set(re.findall(r"--([\w-]+):", self.text)))
        for stand_in, _, _ in plots.PALETTE.values():
            self.assertNotIn(stand_in, self.text)

    def test_only_what_was_measured_over_time_has_a_chart(self) -> None:
        self.assert_says(self.text, "Memory over time", without=("Memory and what is live",))
        self.assert_says(page.render(memory()), without=("Memory over time",))
        self.assert_says(page.render(with_series()), "Memory and what is live", "M operations", without=("Memory over time",))
        ground = "fill: var(--grid)"
        self.assertIn(ground, plots.charts(with_series(), "fragmentation"))
        self.assertNotIn(ground, plots.charts(traced(), "memory"))

    def test_peers_alone(self) -> None:
        result = speed()
        result.allocators = [a for a in result.allocators if a["role"] == "peer"]
        self.assert_says(page.render(result), "All allocators", without=("HAKMEM to the best peer",))

    def test_few_rounds_and_zeros_are_drawn(self) -> None:
        result = speed(rounds=2)
        for sample in result.works[FAST].samples["glibc"]:
            sample["mops_per_s"] = 0.0
        page.render(result)
        page.render(speed(rounds=0))


def counted(name: str = "perl") -> Result:
    """A program whose cost was counted: HAKMEM takes fewer instructions, and more faults."""
    work = Workload("perl", 5, program=name, exact=True)
    part = made_up(work, "instructions_m", name, begin=name)
    part.points = [replace(part.points[0], row=f"exact.{name}", unit="M", higher=False, repeats=0.01)]
    part.parts[0]["paging"] = {"fault_ns": 1000, "huge_fault_ns": 100_000, "tlb_miss_ns": 10}
    figures = dict.fromkeys(("i1_misses_m", "d1_misses_m", "l2_misses_m", "mean_mib"), 1.0)
    figures |= {"system_calls": 9, "peak_mib": 20.0, "huge_mib": 4.0, "huge_share": 0.2}
    for allocator, instructions, faults in (("hakmem", 80.0, 3002), ("glibc", 100.0, 2002)):
        own = {"instructions_m": instructions, "page_faults": faults, "tlb_misses_k": 200.0}
        part.works[work].samples[allocator] = [figures | own] * 3
        part.works[work].traces[allocator] = [[0, 1000], [5, 90_000]]
    part.works[work].samples["other"] = [{"page_faults": 77, "system_calls": 1}] * 3
    return part


class Counted(Saying):
    def test_a_table_for_each_program(self) -> None:
        ((title, (head, *rows)),) = tables.exact(counted())
        own, glibc, other = (dict(zip(head, row)) for row in rows)
        self.assertEqual((title, [row[0] for row in rows]), ("perl (5)", ["hakmem", "glibc", "other"]))
        self.assertEqual((own["instructions, M"], glibc["instructions, M"]), ("80.0*", "100"))
        # 3000 faults at 1 us, two at 100 us, 200 000 misses at 10 ns
        self.assertEqual((own["paging, ms"], glibc["paging, ms"]), ("5.20", "4.20*"))
        self.assertEqual((other["page faults"], other["instructions, M"]), ("77*", "-"))
        self.assertEqual(own[tables.HUGE_COLUMN], "20")

    def test_a_price_that_is_unknown_is_none(self) -> None:
        result = counted()
        result.parts[0]["paging"]["huge_fault_ns"] = -1
        ((_, (head, *rows)),) = tables.exact(result)
        self.assertEqual({row[head.index("paging, ms")] for row in rows}, {"-"})
        self.assertIn("on one of 2 MiB unknown", tables.paging_text(result))

    def test_it_is_on_the_page_and_first_in_the_text(self) -> None:
        result = results.merge([speed(), counted(), counted("lua")])
        said = ("Exact cost of real programs", "Memory of real programs over time", "% of the run")
        self.assert_says(page.render(result), *said, without=("Memory over time<",))
        self.assert_says(page.render(speed()), without=("Exact cost",))
        self.assertTrue(tables.markdown(result).startswith(tables.HOW_TO_READ_EXACT))

    def test_it_is_judged_by_its_runs_and_is_no_round(self) -> None:
        result = counted()
        self.assertEqual(result.lines()[0].versus["glibc"].verdict.value, "ahead")
        self.assertEqual(tables.rounds_text(result), "0")


class Fragmentation(unittest.TestCase):
    def test_the_median_and_the_worst_are_of_all_traces(self) -> None:
        result = with_series()
        for work, factor in zip(result.works, (1.0, 2.0)):
            for sample in result.works[work].samples["hakmem"]:
                sample["peak_rss_per_live"] = factor
            result.works[work].refused["other"] = "wrong library"
        head, *rows = tables.fragmentation(result)
        shown = {row[0]: row[head.index("hakmem")] for row in rows}
        self.assertEqual(shown, {"drift": "1.00", "lru": "2.00", "median": "1.50", "worst": "2.00"})
        self.assertEqual({row[head.index("other")] for row in rows}, {"-"})  # an allocator that ran none

    def test_without_traces_there_is_no_table(self) -> None:
        self.assertIsNone(tables.fragmentation(speed()))
        self.assertNotIn("Traces:", tables.markdown(speed()))
        self.assertIn("Traces:", tables.markdown(with_series()))


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "picture.svg"

    def saved(self, result: Result) -> str:
        plots.save_picture(result, self.file)
        return self.file.read_text()

    def test_is_svg_of_its_own_and_made_again_it_is_the_same(self) -> None:
        text = self.saved(goal_row("P4"))
        ElementTree.fromstring(text)
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertIn("2.00 × other", text)
        self.assertEqual(self.saved(goal_row("P4")), text)

    def test_shows_memory_over_time_if_speed_was_not_measured(self) -> None:
        left = with_series()
        left.points[0] = replace(left.points[0], row="M13")
        self.assertIn("M13 drift", self.saved(left))
        self.assertNotIn("M7.lru", self.saved(left))
        self.assertNotIn("M13 drift", self.saved(results.merge([goal_row("P4"), left])))

    def test_shows_the_rows_of_goals_alone(self) -> None:
        self.assertNotIn("memory", self.saved(results.merge([goal_row("P4"), memory()])))
        self.assertIn("speed · P16<", self.saved(goal_row("P16.lua")))


def goal_row(row: str) -> Result:
    result = speed()
    return replace(result, points=[replace(result.points[0], row=row, goal=Goal(ratio=1.2))])


def with_programs() -> Result:
    """One real program: 1.5 s and 30 MiB on the best other, 1 s and 60 MiB on HAKMEM."""
    work = Workload("lua x", 1, program="lua")
    part = made_up(work, "cpu_s", "lua, CPU", begin="lua")
    time = replace(part.points[0], row="P16.lua", unit="s", higher=False)
    part.points = [time, replace(time, label="lua, RSS", metric="rss_mib", unit="MiB")]
    for name, seconds, mib in (("glibc", 2.0, 30.0), ("other", 1.5, 40.0), ("hakmem", 1.0, 60.0)):
        part.works[work].samples[name] = [{"cpu_s": seconds, "rss_mib": mib}] * 7
    return part


class Quotients(unittest.TestCase):
    def uneven(self) -> Result:
        """Three rounds whose median ratio is 2 and whose medians are 10 and 20."""
        result = goal_row("P4")
        for name, values in (("glibc", (1.0, 1.0, 1.0)), ("other", (5.0, 20.0, 40.0)), ("hakmem", (10.0, 40.0, 5.0))):
            result.works[FAST].samples[name] = [{"mops_per_s": value} for value in values]
        return result

    def test_a_reader_can_follow_them(self) -> None:
        line = self.uneven().lines()[0]
        self.assertEqual((line.to_best.ratio, line.quotient), (2.0, 0.5))
        self.assertEqual(digest.judged([("speed", line)])[1], ["speed", "1.00", "20.0 other", "10.0", "0.50", "3 rounds"])

    def test_less_is_better_of_times(self) -> None:
        result = self.uneven()
        line = replace(result, points=[replace(result.points[0], higher=False)]).lines()[0]
        self.assertEqual((line.best_peer, line.quotient), ("glibc", 0.1))

    def test_the_picture_has_them_and_the_page_the_paired_ratio(self) -> None:
        lines = self.uneven().lines()
        self.assertIn("0.50 × other", plots.to_best(lines, "x", "y", quotients=True))
        self.assertIn("2.00 × other", plots.to_best(lines))

    def test_peers_alone_have_none(self) -> None:
        result = goal_row("P4")
        del result.works[FAST].samples["hakmem"]
        line = result.lines()[0]
        self.assertIsNone(line.quotient)
        self.assertEqual(digest.judged([("speed", line)])[1][3:], ["-", "-", "-"])


class Documents(unittest.TestCase):
    def paste(self, text: str, result: Result | None = None) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "doc.md"
            path.write_text(text)
            digest.paste(result or goal_row("P4"), path)
            return path.read_text()

    def test_what_a_result_has_not_stays(self) -> None:
        timed, left = {"readme", "speed", "facts"}, replace(memory(), points=[replace(memory().points[0], row="M13")])
        for result, has in ((counted(), {"exact"}), (goal_row("P4"), timed), (with_series(), {"traces"}), (with_programs(), {"programs"} | timed),
                            (left, {"memory"})):
            places = {what: f"<!-- bench:{what} -->\nold\n<!-- /bench -->\n" for what in digest.PLACES}
            self.assertEqual({what for what, place in places.items() if self.paste(place, result) != place}, has)

    def test_tables_come_between_the_marks(self) -> None:
        text = self.paste("a\n<!-- bench:speed -->\nold\n<!-- /bench -->\nz\n")
        self.assertRegex(text, r"(?s)^a\n<!-- bench:speed -->\n\| work.*\n<!-- /bench -->\nz\n$")
        self.assertIn("| P4 speed, M/s | 10", text)
        self.assertNotIn("old", text)
        self.assertEqual(self.paste(text), text)

    def test_counted_programs_a_real_program_and_traces_without_those_that_ran_none(self) -> None:
        traces = with_series()
        for measured in traces.works.values():
            measured.refused["other"] = "wrong library"
        for place, result, row in (
            ("exact", counted(), "| perl | 80.0 | 100 glibc | 1.00 | 1.00 glibc | 3002 | 77 other | 20.0 | 20.0 glibc |"),
            ("exact", counted(), "cpu: x, processors: 2. HAKMEM: commit c0ffee. Others: glibc 2.36, other 1.0."),
            ("programs", with_programs(), "| lua | 2000 | 1500 other | 1000 | 1.50 | 30.0 | 30.0 glibc | 60.0 | 0.50 |"),
            ("traces", traces, "| trace | work | hakmem | glibc |\n"),
        ):
            self.assertIn(row, self.paste(f"<!-- bench:{place} -->\n<!-- /bench -->\n", result))

    def test_no_marks_or_unknown_ones(self) -> None:
        for text in ("nothing", "<!-- bench:none -->\n<!-- /bench -->"):
            self.assertRaises(Unfit, self.paste, text)


class Published(unittest.TestCase):
    """README.md and docs/BENCHMARKS.md show the figures of docs/*.json."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.results = [results.load(ROOT / "bench/results" / name) for name in ("benchmarks.json", "exact.json", "memory.json")]

    def test_the_documents_are_those_of_the_json(self) -> None:
        for name in ("README.md", "docs/BENCHMARKS.md"):
            with self.subTest(name), tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch) / "copy.md"
                copy.write_text((ROOT / name).read_text())
                for result in self.results:
                    digest.paste(result, copy)
                self.assertEqual(copy.read_text(), (ROOT / name).read_text())

    def test_the_readme_s_rows_are_all_there(self) -> None:
        self.assertEqual(digest.readme(self.results[0]).count("\n"), 2 + len(digest.README))


if __name__ == "__main__":
    unittest.main(verbosity=2)
