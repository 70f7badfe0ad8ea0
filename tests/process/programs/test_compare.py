"""Tests the decision which side is at fault, with planted faults of the library and with checks that fail on a busy machine.

Each case has one group with the check `planted`, whose outcomes on both sides are listed for each run."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from harness import compare, serving
from harness.case import Case
from harness.load import busy, scratch_folder, sweep
from harness.side import Side

RUNS = 1 + compare.REPETITIONS + compare.MORE_IN_DOUBT
HERE = Path(__file__).resolve().parent
OK, FAIL = "ok", "fail"


class Planned(Case):
    """Returns the listed outcomes, then `ok`."""

    name = "planned"
    health = 0.5

    def __init__(self, control, library, said="", control_said=""):
        self.outcomes = {"glibc": chain(control, repeat(OK)), "other": chain(library, repeat(OK))}
        self.said = {"glibc": control_said, "other": said}
        self.runs = 0

    def run(self, side, group):
        self.runs += side.library is not None
        outcome = next(self.outcomes[side.name])
        if outcome != OK:
            side.log_path().write_text(self.said[side.name])
        return {"steady": OK, "planted": outcome}


class Decision(unittest.TestCase):
    def judged(self, control, library, **said):
        silent = SimpleNamespace(begin=lambda *_: None, end=lambda *_: None, step=lambda *_: None)
        kit = SimpleNamespace(packages=lambda _: None)
        with tempfile.TemporaryDirectory() as folder:
            options = SimpleNamespace(size="quick", quick=True, keep=False, logs=folder, need_report=False, inherited={}, library="/lib.so")
            self.case = Planned(control, library, **said)
            with mock.patch.object(compare, "busy", self.load):
                return compare.Comparison(self.case, options, silent).judge(kit)

    def setUp(self):
        self.loads = 0

    def load(self):
        self.loads += 1
        return mock.MagicMock()

    def check(self, verdict, status, runs):
        told = [difference.line() for difference in verdict.differences]
        self.assertEqual((verdict.status, verdict.failed, self.case.runs), (status, status == "differs", runs), told)
        self.assertEqual(self.loads, max(0, runs - 1 - compare.REPETITIONS), "busy where it decides, and nowhere else")

    def test_the_same(self):
        self.check(self.judged([], []), "same", 1)

    def test_it_fails_in_each_run(self):
        self.check(self.judged([], [FAIL] * RUNS), "differs", 1 + compare.REPETITIONS)

    def test_it_fails_twice_and_never_on_glibc(self):
        """The second failure may come late."""
        for later in range(1, RUNS):
            library = [FAIL] + [OK] * (later - 1) + [FAIL]
            self.loads = 0
            verdict = self.judged([], library)
            self.check(verdict, "differs", RUNS)
            self.assertIn("preloaded fail (2 times), ok (11 times): intermittent", verdict.differences[0].line())

    def test_it_fails_once_and_never_again(self):
        verdict = self.judged([], [FAIL])
        self.check(verdict, "flaky", RUNS)
        self.assertIn("not seen again", verdict.differences[0].line())

    def test_it_fails_on_glibc_too_in_a_later_run(self):
        for later in range(1, RUNS):
            self.loads = 0
            self.check(self.judged([OK] * later + [FAIL], [FAIL, OK, FAIL, OK]), "flaky", max(later, compare.REPETITIONS) + 1)

    def test_it_fails_on_glibc_alone(self):
        self.check(self.judged([FAIL], []), "flaky", 1 + compare.REPETITIONS)

    def test_it_fails_on_glibc_alone_each_time(self):
        self.check(self.judged([FAIL] * RUNS, []), "flaky", 1 + compare.REPETITIONS)

    def test_it_fails_in_another_way_than_on_glibc(self):
        self.check(self.judged([FAIL] * RUNS, ["error"] * RUNS), "differs", 1 + compare.REPETITIONS)

    def test_one_crash_is_enough(self):
        self.check(self.judged([], ["signal SIGSEGV"]), "differs", RUNS)

    def test_a_crash_on_glibc_as_well(self):
        self.check(self.judged([OK, OK, OK, "signal SIGSEGV"], ["signal SIGSEGV"]), "flaky", 4)

    def test_one_message_of_the_library_is_enough(self):
        verdict = self.judged([], [FAIL], said="1..2\nhakmem: double free of 0x1000\nnot ok 2\n")
        self.check(verdict, "differs", RUNS)
        self.assertEqual(verdict.differences[0].words, ["hakmem: double free of 0x1000", "double free"])

    def test_one_crash_inside_a_suite_is_enough(self):
        self.check(self.judged([], [FAIL], said="t/x.t: Segmentation fault (core dumped)\nnot ok 2\n"), "differs", RUNS)

    def test_a_message_in_a_later_run(self):
        self.check(self.judged([], ["fail", OK, OK, OK, "error"], said="hakmem: wild free\n"), "differs", RUNS)

    def test_what_fails_in_another_way_each_time(self):
        self.check(self.judged([], [f"fail {number}" for number in range(RUNS)]), "differs", 1 + compare.REPETITIONS)


class Around(unittest.TestCase):
    def test_the_load_ends(self):
        with busy(2) as loops:
            self.assertEqual([loop.poll() for loop in loops], [None, None])
            self.assertLessEqual({loop.pid for loop in loops}, set(Side.live))
        self.assertEqual([loop.returncode for loop in loops], [-signal.SIGKILL] * 2)
        self.assertFalse({loop.pid for loop in loops} & set(Side.live))

    def test_the_load_ends_with_a_harness_that_is_killed(self):
        program = "import time\nfrom harness.load import busy\nwith busy(1) as loops:\n print(loops[0].pid, flush=True)\n time.sleep(600)"
        harness = subprocess.Popen([sys.executable, "-c", program], cwd=HERE, stdout=subprocess.PIPE, text=True)
        loop = Path("/proc") / harness.stdout.readline().strip() / "stat"
        self.assertTrue(loop.exists())
        harness.kill()
        harness.communicate()
        end = time.monotonic() + 30
        while running(loop) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(running(loop))

    def test_a_killed_harness_leaves_no_folder_behind(self):
        own, other = Path(scratch_folder()), Path(tempfile.mkdtemp(prefix="hakmem-programs-4194305-"))  # no process has this number
        sweep()
        self.assertEqual((own.exists(), other.exists()), (True, False))
        own.rmdir()

    def test_a_port_is_kept_for_a_server(self):
        port = serving.free_port()
        with serving.socket.socket() as server, serving.socket.socket() as other:
            with self.assertRaises(OSError):
                other.bind((serving.HERE, port))
            server.setsockopt(serving.socket.SOL_SOCKET, serving.socket.SO_REUSEADDR, 1)
            server.bind((serving.HERE, port))
            server.listen()
            self.assertTrue(serving.answers(port))

    def test_no_number_is_given_twice(self):
        name = f"test-{os.getpid()}"
        held = [serving.OwnNumber(name, 3) for _ in range(3)]
        self.assertEqual([own.number for own in held], [0, 1, 2])
        held[1].give_back()
        again = serving.OwnNumber(name, 3)
        self.assertEqual(again.number, 1)
        for own in (held[0], again, held[2]):
            own.give_back()


def running(stat):
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
