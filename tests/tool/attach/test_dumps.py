"""Tests heap profiles and reports of a process that keeps running, or that SIGTERM ends."""

import json
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import worker
from worker import tool
from hakmem import profiles

SAMPLE = "4096"
MIB = 1 << 20
TERMS = 12


class Dumps(worker.WorkerTest):
    def profiled(self, mode: str, threads: int = 1, **more: str) -> subprocess.Popen:
        named = {"HAKMEM_HEAP_PROFILE": f"{self.folder}/out.heap", "HAKMEM_HEAP_SAMPLE": SAMPLE}
        return self.worker(mode, threads, **named, **more)

    @property
    def path(self) -> Path:
        return Path(self.folder, "out.heap")

    def held(self) -> float:
        """Returns the live bytes of the profile. A profile must be complete as soon as its file has its name."""
        self.assertIn("[vdso]", self.path.read_text().partition("MAPPED_LIBRARIES")[2])
        return profiles.read(self.path).live_bytes

    def near(self, value: float, right: float) -> None:
        self.assertAlmostEqual(value, right, delta=0.2 * right)

    def test_at_intervals(self) -> None:
        process = self.profiled("grow", HAKMEM_HEAP_PROFILE_EVERY="50")
        self.ask(process, "go 10")
        self.wait_for(lambda: self.path.exists() and abs(self.held() - 10 * MIB) < 2 * MIB, "a profile of 10 MiB")
        self.ask(process, "go 20")
        self.wait_for(lambda: self.held() > 15 * MIB, "a profile of 20 MiB")
        self.assertEqual(self.finish(process), 0)
        self.assertEqual(list(Path(self.folder).glob("*.tmp")), [])

    def test_the_end_amid_a_profile(self) -> None:
        """Profiles follow each other without a pause. The end of the process waits for the profile that is being written, and then writes the last
        one."""
        for _ in range(20):
            process = self.profiled("grow", HAKMEM_HEAP_PROFILE_EVERY="1")
            self.ask(process, "go 10")
            self.wait_for(self.path.exists, "a profile")
            self.assertEqual(self.finish(process), 0)
            self.assertEqual(list(Path(self.folder).glob("*.tmp")), [])
            self.held()
            self.path.unlink()

    def test_at_a_size(self) -> None:
        process = self.profiled("grow", HAKMEM_HEAP_PROFILE_AT="60m")
        self.ask(process, "go 10")
        self.ask(process, "go 100")
        self.wait_for(self.path.exists, "a profile at 60 MiB")
        self.assertGreater(self.held(), 20 * MIB)
        first = self.path.stat().st_mtime_ns
        self.ask(process, "go 1")
        self.assertEqual(self.finish(process), 0)
        self.assertEqual(self.path.stat().st_mtime_ns, first, "once, and not at exit")

    def test_at_the_peak(self) -> None:
        process = self.profiled("grow", HAKMEM_HEAP_PROFILE_AT="peak")
        for mib in (10, 40, 120):
            self.ask(process, f"go {mib}")
            self.wait_for(lambda: self.path.exists() and self.held() > 0.7 * mib * MIB, f"a profile of {mib} MiB")
        self.ask(process, "go 1")
        self.assertEqual(self.finish(process), 0)
        self.assertGreater(self.held(), 80 * MIB)

    def test_a_peak_that_is_over(self) -> None:
        """Freed memory stays resident for half a second. A look at this time must not replace the profile of the peak."""
        process = self.profiled("grow", HAKMEM_HEAP_PROFILE_AT="peak", HAKMEM_PURGE_DELAY="500")
        self.ask(process, "go 10")
        self.wait_for(self.path.exists, "a profile")
        most = 0.0
        for mib in range(20, 140, 5):
            self.ask(process, f"go {mib}")
            self.ask(process, "go 1")
            most = max(most, self.held())
            self.assertGreaterEqual(self.held(), 0.8 * most)
        self.assertEqual(self.finish(process), 0)
        self.assertGreaterEqual(self.held(), max(0.8 * most, 5 * MIB))

    def test_a_size_never_reached(self) -> None:
        process = self.profiled("grow", HAKMEM_HEAP_PROFILE_AT="60g")
        self.ask(process, "go 10")
        self.assertEqual(self.finish(process), 0)
        self.near(self.held(), 10 * MIB)

    def test_neither_peak_nor_bytes(self) -> None:
        done = subprocess.run(["true"], env=self.env | {"LD_PRELOAD": tool.LIBRARY, "HAKMEM_HEAP_PROFILE_AT": "much",
                                                        "HAKMEM_HEAP_PROFILE": "/dev/null"}, capture_output=True, text=True, check=False)
        self.assertIn('heap_profile_at: "much" is neither peak nor a number of bytes', done.stderr)

    def ended_by_term(self, process: subprocess.Popen) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(tool.WAIT_S)

    def test_sigterm(self) -> None:
        process = self.profiled("churn", HAKMEM_REPORT=f"{self.folder}/report.json")
        sums = self.sums(process, 20000)
        self.assertEqual(self.ended_by_term(process), -signal.SIGTERM)
        self.near(self.held(), sums["kept"])
        report = json.loads(Path(self.folder, "report.json").read_text())
        self.assertEqual(report["process"], process.pid)
        self.assertGreater(report["served"]["malloc"], 20000)

    def test_sigterm_in_the_middle(self) -> None:
        """SIGTERM arrives while threads hold locks or are in a call. The process must end and write its profile."""
        for _ in range(TERMS):
            self.path.unlink(missing_ok=True)
            process = self.profiled("churn", 8, HAKMEM_REPORT=f"{self.folder}/report.json")
            self.sums(process, 100)
            process.stdin.write("go 100000000\n")
            process.stdin.flush()
            self.assertEqual(self.ended_by_term(process), -signal.SIGTERM)
            self.assertGreater(profiles.read(self.path).samples, 0)

    def test_handlers_of_the_program(self) -> None:
        process = self.profiled("handler", HAKMEM_REPORT=f"{self.folder}/report.json")
        self.assertEqual(self.ended_by_term(process), 3)
        self.assertTrue(Path(self.folder, "report.json").exists())

    def caught(self, process: subprocess.Popen) -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text()
        (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
        return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)

    def test_nothing_asked_for(self) -> None:
        self.assertFalse(self.caught(self.worker("churn")))
        self.assertTrue(self.caught(self.worker("churn", HAKMEM_REPORT=f"{self.folder}/report.json")))

    def test_the_default_action_is_what_a_program_sees(self) -> None:
        """Python restores the action that it finds. A handler that Python does not know would be None, which Python refuses to set."""
        program = ("import ctypes, os, signal\n"
                   "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
                   "assert signal.signal(signal.SIGTERM, lambda *_: None) is signal.SIG_DFL\n"
                   "os.kill(os.getpid(), signal.SIGTERM)\n"
                   "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
                   "libc = ctypes.CDLL(None)\n"
                   "libc.signal.restype = ctypes.c_void_p\n"
                   "libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]\n"
                   "assert libc.signal(signal.SIGTERM, 1) is None, 'SIG_DFL, then SIG_IGN'\n"
                   "os.kill(os.getpid(), signal.SIGTERM)\n"
                   "assert libc.signal(signal.SIGTERM, None) == 1\n"
                   "os.kill(os.getpid(), signal.SIGTERM)\n")
        report = Path(self.folder, "report.json")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env=self.env | {"LD_PRELOAD": tool.LIBRARY, "HAKMEM_REPORT": str(report)})
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGTERM, ""))
        self.assertTrue(report.exists())

    def test_ignored(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            process = self.profiled("churn")
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.assertFalse(self.caught(process))
        process.send_signal(signal.SIGTERM)
        self.sums(process, 10)
        self.assertEqual(self.finish(process), 0)


if __name__ == "__main__":
    unittest.main()
