#!/usr/bin/env python3
"""Measures HAKMEM's resident memory in each of the system's modes of huge pages.

    test_huge_pages.py LIBRARY WORKER

The modes are the machine's: the script switches them, runs programs of less than a second, and restores the mode in each case.
Skipped where that is not permitted. With huge pages for all mappings, 300 threads took 78 MiB in place of 17, and large blocks of
which little is used 2.9 GB in place of 60 MiB.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

LIBRARY, WORKER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CANNOT_RUN = 77
MORE, ROOM_KIB = 1.15, 1024
EIGHTH = 8
PR_SET_THP_DISABLE = 41
CASES = ("idle", "heap", "threads", "parts", "tables")


def mode_now() -> str:
    return MODE.read_text().partition("[")[2].partition("]")[0]


@contextlib.contextmanager
def mode(wanted: str) -> Iterator[None]:
    was = mode_now()
    MODE.write_text(wanted)
    try:
        yield
    finally:
        MODE.write_text(was)


def forbid_huge_pages() -> None:
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def said(case: str, *, forbidden: bool = False) -> dict[str, int]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    done = subprocess.run([str(WORKER), case], env={**environment, "LD_PRELOAD": str(LIBRARY)}, capture_output=True, text=True,
                          timeout=120, check=True, preexec_fn=forbid_huge_pages if forbidden else None)
    return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}


def said_in(wanted: str) -> dict[str, int]:
    with mode(wanted):
        return {name: number for case in CASES for name, number in said(case).items()}


class HugePages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.by_mode = {wanted: said_in(wanted) for wanted in ("madvise", "always", "never")}
        with mode("madvise"):
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
        """A hundred of them: a few may cost a huge page each."""
        self.assertLessEqual(self.by_mode["madvise"]["tables_kib"], self.by_mode["never"]["tables_kib"] + (17 << 10))

    def test_the_mode_is_put_back(self) -> None:
        was = mode_now()
        with contextlib.suppress(KeyboardInterrupt), mode("never"):
            os.kill(os.getpid(), signal.SIGINT)
        self.assertEqual(mode_now(), was)


if __name__ == "__main__":
    if not os.access(MODE, os.W_OK):
        print(f"{MODE} cannot be written here")
        sys.exit(CANNOT_RUN)
    try:
        with mode(mode_now()):
            pass
    except OSError as refused:
        print(refused)
        sys.exit(CANNOT_RUN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    unittest.main(argv=sys.argv[:1])
