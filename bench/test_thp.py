"""Tests that the mode of huge pages is put back in each case: on a file that stands in for the kernel's, and, if permitted, for a moment on the
real one. Run by CTest, or by hand: test_thp.py"""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import thp

HERE = Path(__file__).resolve().parent
KERNEL = """
import sys
sys.path.insert(0, sys.argv[1])
import pathlib, thp, time
class Kernel(type(pathlib.Path())):
    def write_text(self, wanted):
        # The kernel's form of the text written.
        super().write_text(" ".join(f"[{m}]" if m == wanted else m for m in thp.MODES))
"""
HOLDING = KERNEL + """
import signal
# What runs the tests may ignore them: nohup ignores SIGHUP.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
with thp.mode("always", Kernel(sys.argv[2])) as problem:
    print(problem or "held", flush=True)
    if sys.argv[3] == "raise":
        raise RuntimeError("on purpose")
    # In short pieces: a signal that comes just before a sleep starts is handled after it.
    for _ in range(6000 if sys.argv[3] == "sleep" else 0):
        time.sleep(0.01)
"""
WAIT_S = 20


class Modes(unittest.TestCase):
    def setUp(self) -> None:
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "enabled"
        self.file.write_text("always [madvise] never")

    def holding(self, how: str) -> subprocess.Popen:
        self.file.write_text("always [madvise] never")
        line = [sys.executable, "-c", HOLDING, str(HERE), str(self.file), how]
        held = self.enterContext(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        self.addCleanup(held.kill)
        self.assertEqual(held.stdout.readline(), "held\n")
        return held

    def current(self) -> str:
        """The guard writes the word alone, which the kernel would put between the others."""
        return thp.current(self.file) or self.file.read_text()

    def back(self) -> bool:
        """The guard of one that was killed has no parent that waits for it."""
        end = time.monotonic() + WAIT_S
        while self.current() != "madvise" and time.monotonic() < end:
            time.sleep(0.01)
        return self.current() == "madvise"

    def test_it_is_set_while_it_is_held(self) -> None:
        held = self.holding("sleep")
        self.assertEqual(self.current(), "always")
        held.send_signal(signal.SIGINT)
        self.assertTrue(self.back())

    def test_put_back_at_the_end_and_after_a_failure(self) -> None:
        for how, code in (("end", 0), ("raise", 1)):
            self.assertEqual(self.holding(how).wait(), code)
            self.assertEqual(self.current(), "madvise")

    def test_put_back_by_the_guard_after_a_kill(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP):
            held = self.holding("sleep")
            held.send_signal(number)
            held.wait()
            self.assertTrue(self.back(), number)

    def test_nothing_is_done_where_nothing_is_wanted(self) -> None:
        self.file.chmod(0o444)
        for wanted in (None, "madvise"):
            with thp.mode(wanted, self.file) as problem:
                self.assertEqual(problem, "")

    def test_a_mode_that_cannot_be_set_is_named(self) -> None:
        """The file takes the text, and its mode does not change."""
        with thp.mode("always", self.file) as problem:
            self.assertIn("the mode stays madvise", problem)
        with thp.mode("never", self.file.parent / "none") as problem:
            self.assertIn("cannot be read", problem)

    def test_on_this_machine(self) -> None:
        """To the mode that is set: for others' sake, no other is tried."""
        before = thp.current()
        if before is None or not os.access(thp.FILE, os.W_OK):
            self.skipTest("the mode cannot be set here")
        self.assertTrue(thp.write(before, thp.FILE))
        self.assertEqual(thp.current(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
