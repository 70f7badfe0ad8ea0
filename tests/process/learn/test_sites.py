"""Tests site rules with one program whose blocks return late, and one whose blocks do not, each with and without rules. The pauses take
no time (CLOCK).

test_sites.py LIBHAKMEM.SO SITE_WORKER CLOCK
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, WORKER, CLOCK = sys.argv[1:4]
LARGE, MEDIUM = 3 << 20, 512 << 10
IN_BINS = 128 << 10  # small heaps keep blocks of this size in bins, but not blocks of MEDIUM bytes
PR_SET_THP_DISABLE = 41


def forbid_huge_pages() -> None:
    """Forbids huge pages, because with them there would be only few page faults."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def worked(work: str, block: int, **options: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    env |= {"LD_PRELOAD": f"{LIBRARY}:{CLOCK}", "HAKMEM_LEARN": "frozen", "HAKMEM_PURGE_DELAY": "50"}
    env |= {f"HAKMEM_{name.upper()}": value for name, value in options.items()}
    return subprocess.run([WORKER, work, "12", "300", str(block)], env=env, preexec_fn=forbid_huge_pages, capture_output=True, text=True, check=True, timeout=500)


class Run:
    """One run of the worker: its page faults and resident KiB, the report and the decisions."""

    def __init__(self, folder: Path, work: str, block: int, mode: str, worth: int) -> None:
        report, explain = folder / f"{work}.{block}.{mode}.json", folder / f"{work}.{block}.{mode}.explain"
        done = worked(work, block, site_rules=mode, report=str(report), explain=str(explain), reuse_worth=str(worth))
        assert not done.stderr, done.stderr
        self.faults, self.resident_kib = map(int, done.stdout.split())
        self.report = json.loads(report.read_text())
        lines = explain.read_text().splitlines() if explain.exists() else []
        self.decisions = [line for line in map(json.loads, lines) if line["who"] == "sites"]

    def rules(self) -> list[str]:
        return [site["rule"] for site in self.report["sites"] if site["rule"] != "none"]

    def saved(self) -> int:
        return sum(site["saved"] for site in self.report["sites"])

    def done(self) -> int:
        return self.report["counters"]["large_kept"] + self.report["counters"]["large_dropped"]


class Sites(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def three(self, work: str, block: int, worth: int) -> list[Run]:
        """Runs the worker with rules on, off, and watched. Watched acts like off and reports the effect that on would have."""
        on, off, watch = (Run(self.folder, work, block, mode, worth) for mode in ("1", "0", "watch"))
        self.assertEqual((off.rules(), off.report["sites"], off.done(), off.decisions), ([], [], 0, []))
        self.assertEqual((watch.rules(), watch.done()), (on.rules(), 0))
        self.assertGreater(on.done(), 0)
        self.assertGreater(watch.saved(), 0)
        for run in (on, watch):
            self.assertEqual([decision["new"] for decision in run.decisions], [{"keep": 1, "drop": 2}[work]])
            self.assertIn(run.decisions[0]["seen"]["site"], [site["site"] for site in run.report["sites"]])
            for site in run.report["sites"]:
                self.assertEqual(site["frames"][0], site["site"])
        return [on, off, watch]

    def test_what_comes_back_late_is_kept_warm(self) -> None:
        """The block must not cause page faults again in each round."""
        for block, less in ((LARGE, 10), (IN_BINS, 4)):
            with self.subTest(block):
                on, off, watch = self.three("keep", block, worth=10000)
                self.assertEqual(on.rules(), ["keep-warm"])
                self.assertLess(on.faults, off.faults / less)
                self.assertGreater(watch.faults, off.faults * 0.9)

    def test_what_does_not_come_back_goes_at_once(self) -> None:
        """The blocks must not be resident after the last free. This must cause no more page faults."""
        on, off, watch = self.three("drop", LARGE, worth=100)
        self.assertEqual(on.rules(), ["purge-at-once"])
        self.assertLess(on.resident_kib, off.resident_kib - 3 * LARGE // 1024)
        self.assertGreater(watch.resident_kib, off.resident_kib - LARGE // 1024)
        self.assertLess(on.faults, off.faults * 1.1)

    def test_what_other_requests_use_again_stays(self) -> None:
        """During the pauses, the worker allocates blocks of another medium class, which use the memory of the freed blocks."""
        on, off = (Run(self.folder, "drop", MEDIUM, mode, worth=100) for mode in ("1", "0"))
        self.assertNotIn("purge-at-once", on.rules())
        self.assertLess(on.faults, off.faults * 1.1)
        self.assertLess(on.resident_kib, off.resident_kib + 2 * MEDIUM // 1024)

    def test_the_text_says_the_same(self) -> None:
        report = self.folder / "report"
        worked("keep", LARGE, site_rules="watch", report=str(report), reuse_worth="10000")
        rows = [row.split() for row in report.read_text().splitlines() if row.startswith("  0x")]
        self.assertIn("keep-warm", sum(rows, []))
        self.assertIn("call site ", report.read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
