"""Checks hakmem top on a live process, and its message about processes that it cannot show."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import unittest
from pathlib import Path
from unittest import mock

from rich.console import Console

from hakmem import explain, process, reports, top, top_flame, top_tables
from hakmem.top_tables import Thread, ThreadRow
from tool import PYTHON, TOOL, WAIT_S, ToolTest

# Writes a report with its own library for each line of input, and ends with its input.
LIVE = """
import ctypes, os, sys
hakmem, path = ctypes.CDLL(None), os.environ.get("HAKMEM_REPORT", "").encode()
for line in sys.stdin:
    kept = [bytes(i) for i in range(4000)]
    line.strip() and hakmem.hak_report(path)
    print("done", flush=True)
"""

# Does the same, with two heaps that the program creates: one is full, and one has a single block.
TENANTS = """
import ctypes
hakmem = ctypes.CDLL(None)
hakmem.hak_heap_create.restype = hakmem.hak_heap_malloc.restype = ctypes.c_void_p
hakmem.hak_heap_create.argtypes, hakmem.hak_heap_malloc.argtypes = [ctypes.c_char_p, ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t]
full, single = hakmem.hak_heap_create(b"full tenant", 4 << 20), hakmem.hak_heap_create(b"single tenant", 0)
hakmem.hak_heap_malloc(single, 100)
blocks = 0
while hakmem.hak_heap_malloc(full, 100000):
    blocks += 1
hakmem.hak_heap_malloc(full, 100000)
""" + LIVE.replace('"done"', '"done", blocks')


class Living(ToolTest):
    def begin(self, *words: str, report: bool = True, **more: str):
        program = self.start(*TOOL, "run", *words, "--", PYTHON, "-c", LIVE, **more)
        self.go_on(program, report)
        return program

    def go_on(self, program, report: bool = True) -> None:
        program.stdin.write("report\n" if report else "\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "done\n")

    def test_one_frame(self) -> None:
        log = self.folder / "log"
        log.write_text(
            json.dumps(
                {
                    "ms": 1500,
                    "who": "phase",
                    "what": "state",
                    "old": "STEADY",
                    "new": "BURST",
                    "unit": "",
                    "why": "busy",
                }
            )
            + "\n"
        )
        program = self.begin("--learn", "off", "--explain", str(log))
        said = self.ok("top", "--once", str(program.pid))
        served = json.loads((self.live / f"{program.pid}.json").read_text())
        self.assertIn(f"process {program.pid}", said)
        self.assertRegex(said, r"allocs/s +frees/s +hits")
        self.assertRegex(said, r"live +\d+\.\d MiB|live +\d+\.\d KiB")
        self.assertRegex(said, r"(?m)^ *(\d+ B|\d+\.\d KiB) +(tiny|small|medium) ")
        self.assertRegex(said, r"1\.5 s +phase +state +STEADY → BURST +busy")
        self.assertGreater(served["served"]["malloc"], 0)

    def test_on_the_hardened_library(self) -> None:
        program = self.begin("--hardened")
        self.assertIn(f"process {program.pid}", self.ok("top", "--once", str(program.pid)))

    def test_lists_the_processes_on_hakmem(self) -> None:
        live, still = self.begin("--live"), self.begin("--no-live", report=False)
        rows = {words[0]: words for words in (line.split() for line in self.ok("top").splitlines()) if words}
        self.assertEqual(rows[str(live.pid)][5], "yes")
        self.assertEqual(rows[str(still.pid)][5], "no")
        self.assertNotIn(str(os.getpid()), rows)
        rss, pss = process.Process(live.pid).memory()
        self.assertGreater(rss, pss)  # the interpreter's code is shared

    def test_a_report_of_a_name_of_ones_own(self) -> None:
        program = self.begin("--live", "--report", "mine-%p.json")
        self.assertIn(f"process {program.pid}", self.ok("top", "--once", str(program.pid)))

    def test_options_in_one_variable(self) -> None:
        program = self.begin(
            "--no-live", HAKMEM_CONF=f"purge_delay:7,report:{self.folder}/conf-%p.json", HAKMEM_EXPLAIN=""
        )
        self.assertEqual(process.Process(program.pid).options()["purge_delay"], "7")
        (self.folder / f"conf-{program.pid}.json").write_text(
            json.dumps({"served": {"malloc": 4242, "free": 1}, "time_ms": 1000})
        )
        self.assertIn("4.2 k", self.ok("top", "--once", str(program.pid)))

    def test_it_follows_and_q_ends_it(self) -> None:
        program = self.begin()
        ours, theirs = pty.openpty()
        watching = subprocess.Popen(
            [*TOOL, "top", "--save", "kept", str(program.pid)],
            env=self.env | {"TERM": "xterm"},
            cwd=self.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.addCleanup(self.end, watching)
        kept = self.folder / "kept"
        self.wait_for(lambda: kept.is_dir() and len(list(kept.glob("*.json"))) >= 1, "a first report is kept")
        self.go_on(program)
        self.wait_for(lambda: len(list(kept.glob("*.json"))) >= 2, "a second report is kept")
        os.write(ours, b"q")
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # a terminal reports in this way that the other side is closed
            pass
        self.assertEqual(watching.wait(WAIT_S), 0)
        self.assertIn(b"rates over", seen)
        left = seen.rpartition(b"\x1b[?1049l")[2].decode()  # the text after the end of the alternate screen
        for words in ("allocs/s", "= resident", f"process {program.pid}"):
            self.assertIn(words, left)
        self.assertRegex(self.ok("report", "kept"), r"Over \d+ reports")

    def terminal(self, *words: str):
        """Starts the tool in a terminal of 80 x 24. Returns the process, a function that types, and a function that waits for a text."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        watching = subprocess.Popen(
            [*TOOL, "top", *words], env=self.env | {"TERM": "xterm"}, cwd=self.folder, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.addCleanup(os.close, ours)
        self.addCleanup(self.end, watching)
        seen = [""]

        def look() -> bool:
            try:
                while select.select([ours], [], [], 0)[0]:
                    seen[0] += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # a terminal reports in this way that the other side is closed
                pass
            return True

        def wait(text: str) -> None:
            try:
                self.wait_for(lambda: look() and text in seen[0], text)
            except AssertionError as error:
                raise AssertionError(f"{error}; in {seen[0][-3000:]!r}") from None
            seen[0] = ""

        return watching, lambda text: os.write(ours, text.encode()), wait

    def test_keys(self) -> None:
        program = self.begin()
        watching, type_in, wait = self.terminal(str(program.pid))
        wait("sort: allocs/s")
        for keys, text in (
            (">", "sort: class"),
            ("<<", "sort: in slabs"),
            ("r", "in slabs▴"),
            ("t", "sort: cpu"),
            ("\x1b[C", "sort: thread"),
            ("h", "any key goes back"),
            ("x", "sort: thread"),
            ("t", "sort: allocs/s"),
        ):
            type_in(keys)
            wait(text)
        type_in("q")
        wait("= resident")
        self.assertEqual(watching.wait(WAIT_S), 0)

    def test_flame_graph_of_now(self) -> None:
        """The command `hakmem profile` makes the flame graph. Its page, or the reason for its failure, stays at the bottom of the view."""
        program = self.begin()
        watching, type_in, wait = self.terminal(str(program.pid))
        wait("sort: allocs/s")
        type_in("f")
        wait("flame graph: ")
        if self.tool("profile", "--help").returncode == 0:
            wait("flame graph: wrote ")
            self.assertTrue(list(self.folder.glob(f"hakmem-{program.pid}-*.html")))
        else:
            wait("No such command")
        type_in("q")
        wait("flame graph: ")
        self.assertEqual(watching.wait(WAIT_S), 0)

    def test_sort_and_threads_from_the_start(self) -> None:
        program = self.begin()
        self.assertIn("live▾", self.ok("top", "--once", "--sort", "live", str(program.pid)))
        self.assertIn("in bins▾", self.ok("top", "--once", "--sort", "in-bins", str(program.pid)))
        said = self.ok("top", "--once", "--threads", str(program.pid))
        self.assertRegex(said, rf"\S+ +{program.pid} +[RSD] +\d+\.\d % +\d+\.\d s +- +\d+\.\d [KM]iB")
        self.refused(64, "did you mean live?", "top", "--once", "--sort", "lives", str(program.pid))
        self.refused(64, "one of cpu, thread", "top", "--once", "--threads", "--sort", "live", str(program.pid))

    def test_heaps_from_the_start(self) -> None:
        program = self.start(*TOOL, "run", "--", PYTHON, "-c", TENANTS)
        program.stdin.write("report\n")
        program.stdin.flush()
        blocks = int(re.fullmatch(r"done (\d+)\n", program.stdout.readline())[1])
        self.assertGreater(blocks, 20)
        report = json.loads((self.live / f"{program.pid}.json").read_text())
        physical = {row["name"]: row["physical"] for row in report["heaps"]}
        said = self.ok("top", "--once", "--heaps", str(program.pid))
        self.assertRegex(said, rf"full tenant +(\d+ +)?{physical['full tenant'] / (1 << 20):.1f} MiB +4\.0 MiB .* {blocks} +(\d+ +)?2\b")
        self.assertRegex(said, r"single tenant +(\d+ +)?64\.0 KiB +- .* 1 +(\d+ +)?0\b")
        self.assertLess(said.index("full tenant"), said.index("single tenant"))
        by_name = self.ok("top", "--once", "--heaps", "--sort", "name", str(program.pid))
        self.assertIn("name▴", by_name)
        self.assertNotIn("tenant", self.ok("top", "--once", str(program.pid)))
        self.refused(64, "did you mean refused?", "top", "--once", "--heaps", "--sort", "refuse", str(program.pid))
        self.refused(64, "one table", "top", "--once", "--heaps", "--threads", str(program.pid))

    def test_heaps_of_a_process_without(self) -> None:
        program = self.begin()
        self.assertRegex(self.ok("top", "--once", "--heaps", str(program.pid)), r"physical▾(.|\n)*\n *- +- +-")

    def test_not_served(self) -> None:
        program = self.start(PYTHON, "-c", LIVE)
        self.refused(1, "is not served by HAKMEM", "top", "--once", str(program.pid))

    def test_no_live_report(self) -> None:
        program = self.begin("--no-live", report=False)
        self.refused(1, "hakmem run --live", "top", "--once", str(program.pid))

    def test_a_report_in_words(self) -> None:
        program = self.begin("--report", "words.txt", report=False)
        self.refused(1, "not the JSON form", "top", "--once", str(program.pid))

    def test_a_report_that_never_comes(self) -> None:
        program = self.begin("--set", "report_every=0", report=False)
        (self.live / f"{program.pid}.json").write_text('{"served": {"malloc": 1')
        self.refused(1, "has not written it", "top", "--once", str(program.pid))

    def test_no_such_process(self) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.refused(1, "there is no process", "top", "--once", str(ended.pid))


class Rates(unittest.TestCase):
    def report(self, ms: int, mallocs: int, misses: int, **classes: int) -> reports.Report:
        rows = [{"size": int(size[1:]), "tier": "tiny", "served": served} for size, served in classes.items()]
        return reports.Report(
            {"time_ms": ms, "served": {"malloc": mallocs, "free": 0}, "counters": {"misses": misses}, "classes": rows}
        )

    def test_between_two_reports(self) -> None:
        step = top.step_of(self.report(1000, 500, 50), self.report(3000, 2500, 150), alive_s=99)
        self.assertEqual((step.seconds, step.rate(top.MALLOCS), step.hit_rate()), (2, 1000, 0.95))
        self.assertIsNone(step.rate(top.PURGED))

    def test_of_one_report(self) -> None:
        self.assertEqual(top.step_of(None, self.report(2000, 500, 50), alive_s=99).rate(top.MALLOCS), 250)
        unclocked = reports.Report({"served": {"malloc": 500}})
        self.assertEqual(top.step_of(None, unclocked, alive_s=5).rate(top.MALLOCS), 100)

    def test_the_busiest_class_comes_first(self) -> None:
        step = top.step_of(
            self.report(0, 1, 1, s16=1000, s32=10), self.report(1000, 2, 1, s16=1001, s32=900, s64=5), alive_s=1
        )
        self.assertEqual([(row["size"], rate) for row, rate in step.class_rates()], [(32, 890), (64, 5), (16, 1)])

    def test_sorted_by_any_column(self) -> None:
        now = self.report(1000, 9, 1)
        columns = {"size": (16, 32, 48), "served": (5, 9, 1), "live": (70, 10, 40), "in_bins": (1, 3, 2), "free_in_slabs": (6, 5, 4)}
        rows = [dict(zip(columns, values), hit_rate=rate) for *values, rate in zip(*columns.values(), (0.9, 0.5, 0.7))]
        now.data["classes"] = rows
        step = top.step_of(None, now, 1)
        for column, sizes in (
            ("allocs/s", [32, 16, 48]),
            ("class", [16, 32, 48]),
            ("hits", [32, 48, 16]),
            ("live", [16, 48, 32]),
            ("in bins", [32, 48, 16]),
            ("in slabs", [16, 32, 48]),
        ):
            view = top.view_of(column, threads=False)
            self.assertEqual([row["size"] for row, _ in top.sorted_classes(step, view)], sizes, column)
            view.reversed = True
            self.assertEqual([row["size"] for row, _ in top.sorted_classes(step, view)], sizes[::-1], column)

    def test_heaps_of_its_own(self) -> None:
        now = self.report(1000, 9, 1)
        figures = {"cached": 5, "live": 7, "live_blocks": 4321, "served": 9, "refused": 3, "resets": 2, "peak": 1 << 20}
        now.data["heaps"] = [{"heap": at, "name": f"tenant {at}\x1b", "physical": size << 20, "limit": at << 30, **figures}
                             for at, size in enumerate((3, 9, 6))]
        step, view = top.step_of(None, now, 1), top.View()
        self.assertEqual([view.swap(heaps=True) or view.table for _ in range(3)], ["threads", "heaps", "classes"])
        view.swap(), view.swap()
        self.assertEqual(view.table, "classes")  # a process without heaps has no table of heaps
        view = top.View("heaps")
        for width in (80, 170):
            console = Console(width=width, height=60, record=True, file=io.StringIO())
            console.print(top.frame("a server", step, [], width, 60, view))
            said = console.export_text()
            found = re.findall(r"tenant (\d) +(?:\d +)?(\d\.\d MiB)", said)
            self.assertEqual(found, [("1", "9.0 MiB"), ("2", "6.0 MiB"), ("0", "3.0 MiB")][: len(found) if width == 170 else 3], said)
            self.assertTrue(found)
            self.assertIn("1.0 GiB", said)
            self.assertRegex(said, r"blocks.* refused(.|\n)*\b4 321\b")

    def test_a_frame_fits_its_screen(self) -> None:
        many = {f"s{16 * at}": at for at in range(1, 40)}
        for width, height in ((60, 16), (60, 20), (80, 24), (80, 40), (170, 24)):
            console = Console(width=width, height=height, record=True, file=io.StringIO())
            console.print(
                top.frame("x" * 300, top.step_of(None, self.report(1000, 9, 1, **many), 1), [], width, height)
            )
            lines = console.export_text().splitlines()
            self.assertLessEqual(len(lines), height)
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertTrue(any(re.search(r"\b624 B\b", line) for line in lines))


class Screens(unittest.TestCase):
    """Tests screens of all sizes from 60 x 24 on. Only the command and the reasons may be cut."""

    def setUp(self) -> None:
        parts = {name: (at + 100) << 20 for at, name in enumerate(reports.PARTS)}
        rows = [
            {"size": 1000 << at, "tier": "large", "served": 12345 << at, "misses": 1, "live": 1000 << 10}
            for at in range(12)
        ]
        knobs = {"thread_cache": 1 << 30, "purge_delay": 3600000, "huge_blocks_from": 1 << 30, "large_fit": 400}
        self.report = reports.Report(
            {
                "time_ms": 5000,
                "served": {"malloc": 10**9, "free": 10**9},
                "resident": 2 << 30,
                "resident_parts": parts,
                "classes": rows,
                "policy": {"state": "REMOTE_HEAVY", **knobs},
            }
        )
        self.decisions = [
            explain.Decision(3599.0 + at, "canary", "huge_blocks_from", 1 << 30, 2000000, "bytes", "a reason " * 20)
            for at in range(6)
        ]

    def lines(self, width: int, height: int, view: top.View | None = None, keys_shown: bool = False) -> list[str]:
        console = Console(width=width, height=height, record=True, file=io.StringIO())
        step = top.step_of(None, self.report, 1)
        threads = [
            ThreadRow(Thread(4000000 + at, f"a name, long {at:2}", "S", 100.0 * at, 1.0), at / 7) for at in range(30)
        ]
        console.print(top.frame("process 7  -c a\nb\x1b[1m" + "x" * 300, step, self.decisions, width, height, view, threads, keys_shown))
        return console.export_text().rstrip("\n").splitlines()

    def test_nothing_is_lost(self) -> None:
        for width, height in ((60, 24), (80, 24), (100, 30), (120, 40), (170, 24), (170, 45), (250, 60)):
            with self.subTest(width=width, height=height):
                lines = self.lines(width, height)
                text = "\n".join(lines)
                self.assertLessEqual(len(lines), height)
                self.assertLessEqual(max(map(len, lines)), width)
                self.assertIn("process 7", lines[0])
                for name, size in self.report.parts.items():
                    self.assertRegex(text, rf"{name} +{size >> 20}\.0 MiB")
                for words in (
                    r"= resident +2\.0 GiB",
                    r"thread_cache +1g",
                    r"purge_delay +3 600 000 ms",
                    "REMOTE_HEAVY",
                ):
                    self.assertRegex(text, words)
                self.assertRegex(text, r"at +who +what +change" + (" +why" if width >= 100 else ""))
                self.assertRegex(text, r"1:00:04 +canary +huge_blocks_from +1g → 2 000 000 bytes")
                self.assertRegex(text, r"2\.0 MiB( +large)? +5\.1 M +> 99\.99 % +1000\.0 KiB")
                cut = [line for line in lines[1:] if "…" in line and "canary" not in line]
                self.assertEqual(cut, [])

    def test_with_keys_it_fits_too(self) -> None:
        self.report.data["heaps"] = [
            {"heap": at, "name": f"a tenant, with a name of {at:2}, and more" * 2, "live": 1000 << 20, "live_blocks": 10**9, "served": 10**12,
             **dict.fromkeys(("physical", "limit", "peak", "cached"), 1000 << 20), **dict.fromkeys(("refused", "resets"), 10**6)}
            for at in range(32)
        ]
        for table in ("classes", "threads", "heaps"):
            for column in range(len(top.SORTS[table])):
                for width, height in ((60, 20), (60, 24), (80, 24), (120, 40), (170, 45)):
                    with self.subTest(width=width, height=height, table=table, column=column):
                        view = top.View(table, column)
                        lines = self.lines(width, height, view, keys_shown=True)
                        self.assertLessEqual(len(lines), height)
                        self.assertLessEqual(max(map(len, lines)), width)
                        self.assertTrue(lines[-1].endswith("h help"), lines[-1])
                        self.assertIn(f"sort: {view.sort}", lines[-1])
                        self.assertRegex("\n".join(lines), rf"{re.escape(view.sort)}[▾▴]")
                        self.assertRegex("\n".join(lines), r"= resident +2\.0 GiB")
                        if table == "heaps":
                            row = r"a tenant,.* 1000\.0 MiB +1000\.0 MiB" + ("" if width == 60 else r".* 1 000 000 000( .*)?$")
                            self.assertTrue(any(re.search(row, line) for line in lines), lines)
                            self.assertEqual([line for line in lines if re.search(r"[\d.] *…|MiB…|Mi…", line)], [])

    def test_the_smallest_parts_are_one_where_they_do_not_fit(self) -> None:
        text = "\n".join(self.lines(60, 20, keys_shown=True))
        others = re.search(r"(\d) others +(\d+)\.0 MiB", text)
        shown = [int(size) for size in re.findall(r"(?m)^\S+ +(\d+)\.0 MiB", text)]
        self.assertEqual(sum(shown) + int(others[2]), sum(self.report.parts.values()) >> 20)
        self.assertEqual(len(shown) + int(others[1]), len(self.report.parts))

    def test_threads_by_cpu(self) -> None:
        lines = self.lines(80, 24, top.View("threads"))
        self.assertRegex("\n".join(lines), r"a name, long 29 +4000029 +S +414\.3 % +48:20 +- +-\n")
        first = next(at for at, line in enumerate(lines) if "cpu▾" in line)
        self.assertTrue(lines[first + 2].startswith("a name, long 28"))
        self.assertNotIn("…", "".join(lines[1:first + 3]))

    def test_what_threads_hold(self) -> None:
        rows = [ThreadRow(Thread(number, "t", "S", 1.0, 1.0), 0.1) for number in (1, 2, 3)]
        thread_lines = lambda at: [{"thread": number, "allocations": 100 * at * number, "bins": 1024 * number, "depots": 512} for number in (2, 3)]
        before = reports.Report({"time_ms": 1000, "thread_lines": thread_lines(1)})
        step = top.step_of(before, reports.Report({"time_ms": 3000, "thread_lines": thread_lines(2)}), 9)
        found = {row.thread.number: (row.rate, row.cached) for row in top.threads_of(step, rows)}
        self.assertEqual(found, {1: (None, None), 2: (100, 2560), 3: (150, 3584)})
        for width, columns in ((60, "name +thread +state +cpu +allocs/s +cached▾"), (80, "cpu +cpu time +allocs/s +cached▾")):
            self.assertRegex("\n".join(self.lines(width, 24, top.View("threads", 6))), columns)

    def test_general_decisions_come_before_those_about_bins(self) -> None:
        single = explain.Decision(3605.0, "class", "capacity", 0, 15, "blocks", "it ran empty", {}, 32)
        self.decisions = [self.decisions[0], *[single] * 5]
        self.assertIn("canary", "\n".join(self.lines(80, 24)))


class Threads(unittest.TestCase):
    def test_a_line_of_the_kernel(self) -> None:
        fields = "S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 7 0 1000 99".split()
        thread = top_tables.parse(f"42 (a (b) c) {' '.join(fields)}\n")
        ticks = top_tables.TICKS_S
        self.assertEqual(thread, Thread(42, "a (b) c", "S", 200 / ticks, 1000 / ticks))
        self.assertIsNone(top_tables.parse("42 (cut"))

    def test_shares(self) -> None:
        before = {1: Thread(1, "a", "R", 10.0, 5.0), 2: Thread(2, "b", "S", 1.0, 5.0)}
        now = {1: Thread(1, "a", "R", 11.0, 5.0), 2: Thread(2, "c", "S", 3.0, 96.0), 3: Thread(3, "d", "S", 1.0, 90.0)}
        shares = {row.thread.number: row.share for row in top_tables.rows(before, now, 2.0, 100.0)}
        self.assertEqual(shares, {1: 0.5, 2: 0.75, 3: 0.1})

    def test_of_this_process(self) -> None:
        self.assertIn(os.getpid(), top_tables.read(os.getpid()))
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assertEqual(top_tables.read(ended.pid), {})


class Flames(unittest.TestCase):
    def run_it(self, script: str, page: bool) -> str:
        with tempfile.TemporaryDirectory() as name:
            one = top_flame.Flame(7, Path(name))
            made = lambda pid, path: [PYTHON, "-c", script, str(path) if page else name + "/other"]
            with mock.patch.object(top_flame, "command", made):
                one.begin()
                one.begin()  # has no effect, because only one can run at a time
                self.assertIn("sampling", one.note)
                one.running.wait(WAIT_S)
                self.assertTrue(one.look())
                self.assertFalse(one.look())
            return one.note

    def test_how_it_ended(self) -> None:
        write = "import sys; open(sys.argv[1], 'w')"
        self.assertRegex(self.run_it(write, page=True), r"wrote .*/hakmem-7-\d+\.html")
        self.assertEqual(self.run_it(write, page=False), "flame graph: it failed")
        boxed = "import sys; sys.exit('╭─ Error ──╮\\n│ no such thing │\\n╰───╯')"
        self.assertEqual(self.run_it(boxed, page=False), "flame graph: no such thing")

    def test_it_ends_with_the_view(self) -> None:
        one = top_flame.Flame(7, Path("."))
        with mock.patch.object(top_flame, "command", lambda pid, path: [PYTHON, "-c", "input()"]):
            one.begin()
        running = one.running
        one.end()
        self.assertIsNotNone(running.returncode)
        self.assertEqual(one.note, "")


class Owners(unittest.TestCase):
    def test_a_refusal_names_its_cause(self) -> None:
        mine = process.Process(os.getpid())
        for user in (0, os.getuid()):
            with mock.patch.object(os, "geteuid", return_value=user):
                self.assertIn("the kernel forbids it", process.refusal_reason(mine))
        with mock.patch.object(os, "geteuid", return_value=os.getuid() + 1):
            self.assertIn("another user (", process.refusal_reason(mine))


if __name__ == "__main__":
    unittest.main(verbosity=2)
