#!/usr/bin/env python3
"""Measures HAKMEM's resident memory in each of the system's modes of huge pages.

    test_huge_pages.py LIBRARY WORKER

The modes hold for the whole machine. The script changes the mode and runs programs of less than a second. A guard process (bench/thp.py)
restores the mode, also if the script is killed at its time limit. The test is skipped if it may not set a mode. Before HAKMEM
limited their use, huge pages for all mappings cost 78 MiB instead of 17 for 300 threads, and 2.9 GB instead of 60 MiB for large
blocks of which little is used.
"""

import ctypes
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
import thp  # noqa: E402

LIBRARY, WORKER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
CANNOT_RUN = 77
MORE, ROOM_KIB = 1.15, 1024
EIGHTH = 8
PR_SET_THP_DISABLE = 41
WAIT_S = 30
HOLDS = f"""
import sys, time
sys.path.insert(0, {str(BENCH)!r})
import thp
with thp.mode(sys.argv[1]):
    print("held", flush=True)
    time.sleep({WAIT_S})
"""
CASES = ("idle", "heap", "threads", "parts", "tables")


def forbid_huge_pages() -> None:
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def said(case: str, *, forbidden: bool = False) -> dict[str, int]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    done = subprocess.run([str(WORKER), case], env={**environment, "LD_PRELOAD": str(LIBRARY)}, capture_output=True, text=True,
                          timeout=500, check=True, preexec_fn=forbid_huge_pages if forbidden else None)
    return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}


def said_in(wanted: str) -> dict[str, int]:
    with thp.mode(wanted):
        return {name: number for case in CASES for name, number in said(case).items()}


class HugePages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.by_mode = {wanted: said_in(wanted) for wanted in ("madvise", "always", "never")}
        with thp.mode("madvise"):
            cls.by_mode["forbidden"] = {name: number for case in CASES for name, number in said(case, forbidden=True).items()}
        for name in cls.by_mode["madvise"]:
            print(name.ljust(14), *(f"{wanted} {numbers[name]}".ljust(20) for wanted, numbers in cls.by_mode.items()))

    def check_no_more_than_with_madvise(self, wanted: str, name: str) -> None:
        self.assertLessEqual(self.by_mode[wanted][name], MORE * self.by_mode["madvise"][name] + ROOM_KIB, f"{name}, {wanted}")

    def test_always_takes_no_more(self) -> None:
        for name in ("idle_kib", "heap_kib", "threads_kib", "ended_kib", "parts_kib"):
            self.check_no_more_than_with_madvise("always", name)

    def test_never_and_forbidden_take_no_more(self) -> None:
        for wanted in ("never", "forbidden"):
            for name in self.by_mode["madvise"]:
                if name.endswith("_kib"):
                    self.check_no_more_than_with_madvise(wanted, name)

    def test_heap_that_grows_faults_seldom(self) -> None:
        for wanted in ("madvise", "always"):
            self.assertLessEqual(self.by_mode[wanted]["heap_faults"], self.by_mode["never"]["heap_faults"] / EIGHTH)

    def test_tables_used_here_and_there(self) -> None:
        """There are a hundred tables, and a few may cost a huge page each."""
        self.assertLessEqual(self.by_mode["madvise"]["tables_kib"], self.by_mode["never"]["tables_kib"] + (17 << 10))

    def test_the_mode_is_put_back(self) -> None:
        """The mode is restored after a kill, for example at the time limit of a test."""
        was = thp.current()
        other = next(mode for mode in thp.MODES if mode != was)
        held = subprocess.Popen([sys.executable, "-c", HOLDS, other], stdout=subprocess.PIPE, text=True)
        self.assertEqual((held.stdout.readline(), thp.current()), ("held\n", other))
        held.kill()
        held.communicate()
        end = time.monotonic() + WAIT_S
        while thp.current() != was and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(thp.current(), was)


if __name__ == "__main__":
    if thp.current() is None or not thp.write(thp.current(), thp.FILE):
        print(f"{thp.FILE} cannot be written here")
        sys.exit(CANNOT_RUN)
    unittest.main(argv=sys.argv[:1])
