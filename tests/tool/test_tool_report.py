"""Checks hakmem report on a real report, on a series of reports, and with decisions. Also checks the contents of the page."""

import functools
import json
import os
import re
import unittest
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

from hakmem import explain, figures, page, plots, reports, tree
from hakmem.trouble import Trouble
from tool import PLAIN, ToolTest

DECISIONS = (
    {
        "ms": 900,
        "tick": 6,
        "who": "phase",
        "what": "state",
        "old": "STEADY",
        "new": "BURST",
        "unit": "",
        "seen": {"misses": 1200},
        "why": "misses rose <threefold></script>",
    },
    {
        "ms": 1800,
        "tick": 12,
        "who": "reuse",
        "what": "purge_delay",
        "old": 500,
        "new": 1000,
        "unit": "ms",
        "seen": {"refaults": 40},
        "why": "what was given back came back",
    },
    {
        "ms": 2700,
        "tick": 18,
        "who": "goal",
        "what": "large_cache",
        "old": 134217728,
        "new": 67108864,
        "unit": "bytes",
        "seen": {},
        "why": "near the goal",
    },
)
LOG = "".join(json.dumps(decision) + "\n" for decision in DECISIONS) + '{"ms": 3000, "who": "cut o'


class Page(HTMLParser):
    """Collects the addresses that the page loads from elsewhere, its cells, and the data of its plots."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked, self.cells, self.scripts, self.plots, self.inside = [], [], [], [], ""
        self.feed(text)
        self.data = json.loads(re.search(r"^const figures = (.*);$", self.scripts[-1], re.MULTILINE)[1])

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.inside = tag
        given = dict(attributes)
        self.asked += [given[name] for name in ("src", "href") if name in given]
        self.plots += [given["id"]] if given.get("class") == "plot" else []

    def handle_data(self, text: str) -> None:
        if self.inside == "script" and text.strip():
            self.scripts.append(text)
        if self.inside == "td":
            self.cells.append(text)


class OfARun(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        self.ok("run", "--report", "r.json", "--", PLAIN, "20000")
        self.report = json.loads((self.folder / "r.json").read_text())
        (self.folder / "log").write_text(LOG)

    def series(self, count: int = 4) -> Path:
        """Writes the real report with several times, and with the keys that newer libraries write."""
        folder = self.folder / "series"
        folder.mkdir()
        rows = [row | {"misses": row["served"] // 9} for row in self.report["classes"]]
        for at in range(count):
            newer = {
                "classes": rows,
                "time_ms": 1000 * (count - at),
                "resident": self.report["resident"] + (at << 20),
                "policy": {"state": "BURST", "novelty": 64},
                "resident_parts": {"live": 1 << 20, "idle": at << 20, "rest_of_process": 2 << 20},
            }
            (folder / f"{at}.json").write_text(json.dumps(self.report | newer))
        return folder

    def test_text(self) -> None:
        said = self.ok("report", "r.json")
        report = reports.Report(self.report)
        served = self.report["served"]["malloc"]
        self.assertIn(figures.count_text(served), said)
        for part, size in report.parts.items():
            self.assertRegex(said, rf"{part} +{re.escape(figures.bytes_text(size))} ")
        self.assertIn(figures.percent_text(1 - report.misses / served, 3), said)

    def test_text_of_a_series_with_decisions(self) -> None:
        said = self.ok("report", str(self.series()), "--explain", "log")
        self.assertIn("Over 4 reports", said)
        self.assertRegex(said, r"resident +\d.*MiB")
        self.assertRegex(said, r"state +BURST")
        self.assertRegex(said, r"1\.8 s +reuse +purge_delay +500 ms → 1000 ms +what was given back came back")
        self.assertIn("128m → 64m", said)
        self.assertIn("Where the resident memory was at 4.0 s", said)
        self.assertRegex(said, r"novelty +64\n")
        self.assertRegex(said, r"purge_delay +500 ms\n")

    def test_page(self) -> None:
        self.ok("report", str(self.series()), "--explain", "log", "--html", "out.html")
        text = (self.folder / "out.html").read_text()
        seen = Page(text)
        self.assertEqual(seen.asked, [], "it must need nothing from elsewhere")
        self.assertEqual(set(seen.plots), set(seen.data))
        self.assertEqual(len(seen.plots), 6)
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertLess(len(text), 1 << 20)
        self.assertIn("misses rose <threefold></script>", seen.cells)
        for words in ("Where the memory was at 4.0 s", "Memory over time", "Hit rate per size class", "Decisions"):
            self.assertIn(f"<h2>{words}</h2>", text)

    def test_page_of_one_report_has_no_time_line(self) -> None:
        self.ok("report", "r.json", "--html", "out.html")
        text = (self.folder / "out.html").read_text()
        self.assertNotIn("Memory over time", text)
        self.assertNotIn("<h2>Decisions", text)
        self.assertTrue(Page(text).data)

    def test_what_cannot_be_read(self) -> None:
        (self.folder / "not.json").write_text("{}")
        self.refused(66, "no such file", "report", "gone.json")
        self.refused(66, "no JSON report", "report", "not.json")
        self.refused(66, "No such file", "report", "r.json", "--explain", "gone")
        self.refused(1, "out.html", "report", "r.json", "--html", "gone/out.html")
        (self.folder / "other.json").write_text(json.dumps(self.report | {"process": 1}))
        (self.folder / "log").write_text(LOG)
        self.refused(64, "reports of one process", "report", "r.json", "other.json", "--explain", "log")
        self.refused(66, "File name too long", "report", "x" * 300)
        self.refused(66, "OpenMetrics", "report", "r.prom")
        self.refused(1, "File exists", "top", "--save", "r.json", str(os.getpid()))

    def test_values_of_other_types_are_missing(self) -> None:
        broken = self.report | {"classes": [{"size": "x", "tier": 3, "served": None, "live": [1]}], "resident": "much"}
        (self.folder / "broken.json").write_text(json.dumps(broken))
        self.assertIn("resident -", self.ok("report", "broken.json", "--html", "out.html"))

    def test_a_log_that_is_none(self) -> None:
        (self.folder / "text").write_text("no log\n")
        self.refused(66, "contains no decision", "report", "r.json", "--explain", "text")
        (self.folder / "empty").touch()
        self.ok("report", "r.json", "--explain", "empty")

    def test_a_log_of_another_process(self) -> None:
        pid = self.report["process"]
        self.report["options"]["explain"] = "/some/where/log-%p"
        (self.folder / "r.json").write_text(json.dumps(self.report))
        for name in (f"log-{pid}", f"log-{pid + 1}"):
            (self.folder / name).write_text(LOG)
        self.assertEqual(self.tool("report", "r.json", "--explain", f"log-{pid}").stderr, "")
        self.refused(66, f"process wrote log-{pid}", "report", "r.json", "--explain", f"log-{pid + 1}")
        self.assertIn("may be another process's", self.tool("report", "r.json", "--explain", "log").stderr)
        self.report["options"]["explain"] = "/some/where/log.txt"
        (self.folder / "r.json").write_text(json.dumps(self.report))
        (self.folder / f"log.{pid}.txt").write_text(LOG)  # the log of a child
        self.assertEqual(self.tool("report", "r.json", "--explain", f"log.{pid}.txt").stderr, "")

    def test_decisions_about_classes_are_grouped(self) -> None:
        single = {"who": "class", "what": "capacity", "unit": "blocks", "why": "it ran empty"}
        steps = [(size, at) for at in range(20) for size in (16, 32, 2048)]
        lines = [single | {"ms": 100 * at, "class": size, "old": at, "new": at + 1} for size, at in steps]
        (self.folder / "log").write_text(LOG.rpartition("\n")[0] + "\n" + "".join(json.dumps(l) + "\n" for l in lines))
        said = self.ok("report", "r.json", "--explain", "log", "--html", "out.html")
        self.assertRegex(said, r"2\.0 KiB +capacity +20 +1\.9 s +0 blocks → 20 blocks")
        self.assertEqual(said.count("capacity"), 3)
        self.assertIn("near the goal", said)
        seen = Page((self.folder / "out.html").read_text())
        self.assertEqual(seen.cells.count("capacity"), 3)
        self.assertIn("near the goal", seen.cells)


class OfATree(ToolTest):
    """A shell and the programs that it starts."""

    def setUp(self) -> None:
        super().setUp()
        (self.folder / "tree").mkdir()
        self.ok("run", "--report", "tree/", "--", "sh", "-c", f"{PLAIN} 20000; {PLAIN} 30000; exit 0")
        self.reports = [json.loads(file.read_text()) for file in (self.folder / "tree").iterdir()]

    def summed(self, *path: str) -> int:
        found = [functools.reduce(dict.get, path, report) for report in self.reports]
        return sum(found)

    def test_text(self) -> None:
        said = self.ok("report", "tree")
        self.assertIn("3 processes", said)
        self.assertIn(f"served {figures.count_text(self.summed('served', 'malloc'))} allocations", said)
        for part in ("live", "rest_of_process"):
            self.assertRegex(said, rf"\n{part} +{re.escape(figures.bytes_text(self.summed('resident_parts', part)))} ")
        for report in self.reports:
            self.assertRegex(said, rf"\n{report['command']} +{report['process']} +{report['parent']} ")
        self.assertRegex(said, r"test_tool_plain +2 +5\d \d\d\d ")

    def test_json(self) -> None:
        found = json.loads(self.ok("report", "tree", "--json", "-"))
        self.ok("report", "tree", "--json", "sum.json")
        self.assertEqual(found, json.loads((self.folder / "sum.json").read_text()))
        for path in (("served", "malloc"), ("served", "free"), ("resident",), ("mapped", "total"), ("resident_parts", "idle"),
                     ("counters", "slabs_made"), ("threads",)):
            self.assertEqual(functools.reduce(dict.get, path, found), self.summed(*path), path)
        self.assertEqual({row["process"] for row in found["processes"]}, {report["process"] for report in self.reports})
        tiny = [row for report in self.reports for row in report["tiers"] if row["tier"] == "tiny"]
        self.assertEqual(found["tiers"][0]["served"], sum(row["served"] for row in tiny))
        size = self.reports[0]["classes"][0]["size"]
        rows = [row["served"] for report in self.reports for row in report["classes"] if row["size"] == size]
        self.assertEqual([row["served"] for row in found["classes"] if row["size"] == size], [sum(rows)])

    def test_page(self) -> None:
        self.ok("report", "tree", "--html", "out.html")
        text = (self.folder / "out.html").read_text()
        seen = Page(text)
        self.assertEqual(seen.asked, [])
        self.assertIn("3 processes", text)
        for words in ("Memory per process", "Hit rate per size class"):
            self.assertIn(f"<h2>{words}</h2>", text)
        for report in self.reports:
            self.assertIn(str(report["process"]), seen.cells)
        bars = next(plot for plot in seen.data.values() if plot["layout"].get("barmode") == "stack" and "orientation" in plot["data"][0])
        self.assertEqual(len(bars["data"][0]["y"]), 3)

    def test_the_latest_report_of_each_process_counts(self) -> None:
        one = reports.Report({"process": 1, "time_ms": 5, "served": {"malloc": 3}})
        two = reports.Report({"process": 1, "time_ms": 9, "served": {"malloc": 7}})
        other = reports.Report({"process": 2, "served": {"malloc": 10}})
        self.assertEqual(tree.total(tree.last_of_each([two, other, one])).number("served", "malloc"), 17)


class Series(unittest.TestCase):
    def test_a_report_that_may_not_be_read(self) -> None:
        refusal = PermissionError(13, "Permission denied", "/root/x.json")
        with mock.patch.object(Path, "stat", side_effect=refusal), self.assertRaises(Trouble) as raised:
            reports.read_all([Path("/root/x.json")])
        self.assertEqual(str(raised.exception), "/root/x.json: Permission denied")

    def report(self, **more: object) -> reports.Report:
        return reports.Report({"served": {"malloc": 100, "free": 10}, "process": 7} | more)

    def test_order_is_the_programs_clock(self) -> None:
        ordered = reports.in_order([self.report(time_ms=at) for at in (30, 10, 20)])
        self.assertEqual([report.seconds for report in ordered], [0.01, 0.02, 0.03])

    def test_stacked_plot_holds_every_part_at_every_time(self) -> None:
        series = [self.report(time_ms=at, resident=5 << 20, resident_parts={"live": at << 20}) for at in (1, 2)]
        drawn = plots.memory_over_time(
            series + [self.report(time_ms=3, resident_parts={"idle": 1 << 20})], explain.parse(LOG)
        )
        stacked = {trace["name"]: trace["y"] for trace in drawn["data"] if "stackgroup" in trace}
        self.assertEqual(stacked, {"live": [1, 2, 0], "idle": [0, 0, 1]})
        self.assertEqual(drawn["data"][-1]["y"], [5, 5, None])
        self.assertEqual([mark["x0"] for mark in drawn["layout"]["shapes"]], [0.9, 1.8, 2.7])

    def test_titles_pss_and_the_peak(self) -> None:
        workers = [self.report(process=at, command="nginx", title=title, resident=9 << 20, resident_pss=at << 20, resident_peak=20 << 20)
                   for at, title in ((1, "nginx: worker process"), (2, "/usr/sbin/nginx"))]
        self.assertEqual([tree.cells(tree.process_row(one))[0] for one in workers], ["nginx: worker process", "nginx"])
        both = tree.total(workers)
        self.assertEqual(page.tiles(both)["PSS"], "3.0 MiB")
        self.assertIn("3.0 MiB", tree.commands(tree.processes(both))[0])
        self.assertEqual(page.tiles(workers[0], page.peak(workers[:1]))["peak RSS"], "20.0 MiB")
        older = [self.report(resident=size << 20) for size in (5, 8, 6)]
        self.assertEqual(page.tiles(older[-1], page.peak(older))["peak RSS"], "8.0 MiB")

    def test_missing_keys_are_dashes(self) -> None:
        bare = self.report()
        self.assertEqual(
            (bare.hit_rate, bare.resident, bare.parts, bare.classes, bare.state, bare.policy),
            (None, None, {}, [], None, {}),
        )
        self.assertIn(f"<b>{figures.MISSING}</b><span>hits", page.tile_row(page.tiles(bare)))
        self.assertTrue("<h2>Where the memory was</h2>" in page.page([bare], []))

    def test_hit_rates(self) -> None:
        self.assertEqual(reports.class_hit_rate({"hit_rate": 0.5, "served": 4, "misses": 0}), 0.5)
        self.assertEqual(reports.class_hit_rate({"served": 4, "misses": 1}), 0.75)
        self.assertIsNone(reports.class_hit_rate({"served": 4}))
        self.assertIsNone(reports.class_hit_rate({"served": 0, "misses": 0}))
        self.assertIsNone(reports.class_hit_rate({"served": 3, "misses": 3}))

    def test_misses_are_the_tiers_sum_where_there_is_none(self) -> None:
        self.assertEqual(self.report(counters={"misses": 5}).misses, 5)
        self.assertEqual(
            self.report(tiers=[{"tier": "tiny", "misses": 2}, {"tier": "small", "misses": 1}]).hit_rate, 0.97
        )
        self.assertIsNone(self.report().misses)

    def test_policy_is_flat(self) -> None:
        nested = self.report(policy={"state": "STEADY", "numbers": {"refill": 32}, "caps": {"mid": 9}})
        self.assertEqual((nested.state, nested.policy), ("STEADY", {"refill": 32, "caps.mid": 9}))

    def test_decisions_that_are_cut_off_are_left_out(self) -> None:
        self.assertEqual([decision.who for decision in explain.parse(LOG)], ["phase", "reuse", "goal"])
        self.assertEqual(explain.parse('[]\n{"who": "x"}\nnothing\n'), [])


class OddValues(ToolTest):
    """Values that HAKMEM does not write, and strange paths, must be shown or treated as missing. A traceback must never appear."""

    def test_numbers_of_more_than_64_bits_are_missing(self) -> None:
        report = reports.parse('{"served": {"malloc": 1e999, "free": NaN}, "resident": %s, "threads": 3}' % ("9" * 400))
        self.assertEqual([report.number(*at) for at in (("served", "malloc"), ("served", "free"), ("resident",))], [None] * 3)
        self.assertEqual(report.number("threads"), 3)
        self.assertEqual(explain.parse('{"ms": %s, "who": "x"}' % ("9" * 400)), [])

    def test_nested_too_deeply(self) -> None:
        self.assertIsNone(reports.parse("[" * 100000))
        self.assertEqual(explain.parse("[" * 100000), [])

    def test_half_a_character(self) -> None:
        self.assertEqual(explain.parse('{"ms": 1, "why": "\\ud800"}')[0].why, "\ufffd")

    def test_brackets_and_colons_in_a_path(self) -> None:
        (self.folder / "r.json").write_text(json.dumps({"served": {"malloc": 1}, "options": {"report": "/a/[/]:smile:[bold]"}}))
        self.assertIn("/a/[/]:smile:[bold]", self.ok("report", "r.json"))


class Figures(unittest.TestCase):
    def test_texts(self) -> None:
        for said, expected in (
            (figures.bytes_text(1536), "1.5 KiB"),
            (figures.bytes_text(12), "12 B"),
            (figures.bytes_text(None), "-"),
            (figures.count_text(1234567), "1 234 567"),
            (figures.short_text(12345), "12.3 k"),
            (figures.percent_text(0.5), "50.00 %"),
            (figures.percent_text(1), "100.00 %"),
            (figures.percent_text(0.999999), "> 99.99 %"),
            (figures.time_text(3725), "1:02:05"),
            (figures.time_text(61), "1:01"),
            (figures.setting_text(12 << 20), "12m"),
            (figures.setting_text(0), "0"),
            (figures.setting_text(""), "-"),
            (figures.unit_text(500, "ms"), "500 ms"),
            (figures.unit_text(8 << 20, "bytes"), "8m"),
            (figures.unit_text(700, "bytes"), "700 bytes"),
            (figures.unit_text(0, "bytes"), "0"),
            (figures.unit_text(8388608, ""), "8 388 608"),
        ):
            self.assertEqual(said, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
