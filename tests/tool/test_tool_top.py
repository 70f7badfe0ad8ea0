"""Checks hakmem top: on a live process, and its message about processes that it cannot show."""

import json
import os
import pty
import re
import subprocess
import unittest
from unittest import mock

from rich.console import Console

from hakmem import explain, process, reports, top
from tool import PYTHON, TOOL, WAIT_S, ToolTest

# Reports as often as it is told to, by its own library; ends with its input.
LIVE = """
import ctypes, os, sys
hakmem, path = ctypes.CDLL(None), os.environ.get("HAKMEM_REPORT", "").encode()
for line in sys.stdin:
    kept = [bytes(i) for i in range(4000)]
    line.strip() and hakmem.hak_report(path)
    print("done", flush=True)
"""


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
        program = self.begin("--explain", str(log))
        said = self.ok("top", "--once", str(program.pid))
        served = json.loads((self.live / f"{program.pid}.json").read_text())
        self.assertIn(f"process {program.pid}", said)
        self.assertRegex(said, r"allocs/s +frees/s +hits")
        self.assertRegex(said, r"live +\d+\.\d MiB|live +\d+\.\d KiB")
        self.assertRegex(said, r"(?m)^ *(\d+ B|\d+\.\d KiB) +(tiny|mid|large) ")
        self.assertRegex(said, r"1\.5 s +phase +state +STEADY → BURST +busy")
        self.assertGreater(served["served"]["malloc"], 0)

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
        except OSError:  # how a terminal says that the other side has gone
            pass
        self.assertEqual(watching.wait(WAIT_S), 0)
        self.assertIn(b"rates over", seen)
        left = seen.rpartition(b"\x1b[?1049l")[2].decode()  # after the view's own screen is gone
        for words in ("allocs/s", "= resident", f"process {program.pid}"):
            self.assertIn(words, left)
        self.assertRegex(self.ok("report", "kept"), r"Over \d+ reports")

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

    def test_a_frame_fits_its_screen(self) -> None:
        many = {f"s{16 * at}": at for at in range(1, 40)}
        for width, height in ((80, 24), (80, 40), (170, 24)):
            console = Console(width=width, height=height, record=True, file=open(os.devnull, "w"))
            console.print(
                top.frame("x" * 300, top.step_of(None, self.report(1000, 9, 1, **many), 1), [], width, height)
            )
            lines = console.export_text().splitlines()
            self.assertLessEqual(len(lines), height)
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertTrue(any(re.search(r"\b624 B\b", line) for line in lines))


class Screens(unittest.TestCase):
    """Of all sizes from 60 x 24 on: nothing but the command and the reasons is cut."""

    def setUp(self) -> None:
        parts = {name: (at + 100) << 20 for at, name in enumerate(reports.PARTS)}
        rows = [
            {"size": 1000 << at, "tier": "large", "served": 12345 << at, "misses": 1, "live": 1000 << 10}
            for at in range(12)
        ]
        knobs = {"thread_cache": 1 << 30, "purge_delay": 3600000, "huge_blocks_from": 1 << 30, "big_fit": 400}
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

    def lines(self, width: int, height: int) -> list[str]:
        console = Console(width=width, height=height, record=True, file=open(os.devnull, "w"))
        step = top.step_of(None, self.report, 1)
        console.print(top.frame("process 7  " + "x" * 300, step, self.decisions, width, height))
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

    def test_general_decisions_come_before_those_about_bins(self) -> None:
        single = explain.Decision(3605.0, "class", "capacity", 0, 15, "blocks", "it ran empty", {}, 32)
        self.decisions = [self.decisions[0], *[single] * 5]
        self.assertIn("canary", "\n".join(self.lines(80, 24)))


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
