"""Checks reports while a program runs: repeated, on a signal, in fork children, and of idle programs. No report may be incomplete.

test_running.py LIBRARY WORKER"""
import json
import os
import signal
import subprocess
from pathlib import Path

import reports

SEEN = 10  # reports that are read while threads allocate


class Running(reports.Case):
    def time_of(self, path: Path, after: int = -1) -> int:
        """Returns the time of the complete report in this file, in ms from 1 on, if it is later than `after`, and otherwise 0."""
        if not path.exists():
            return 0
        time_ms = reports.read(path)["time_ms"] + 1
        return time_ms if time_ms > after else 0

    def test_again_and_again_while_threads_allocate(self) -> None:
        path = self.folder / "report.json"
        worker = self.start("churn", "4", report=str(path), report_every="20")
        last = 0
        tasks = {int(name) for name in os.listdir(f"/proc/{worker.pid}/task")}
        for _ in range(SEEN):
            last = self.wait_for("the next report", lambda: self.time_of(path, last))
            thread_lines = reports.read(path)["thread_lines"]
            self.assertTrue(thread_lines and {row["thread"] for row in thread_lines} <= tasks, (thread_lines, tasks))
        self.assertEqual(self.end(worker), "")
        self.assertGreaterEqual(self.time_of(path), last)
        self.assertEqual(os.listdir(self.folder), ["report.json"])

    def test_half_a_report_would_be_noticed(self) -> None:
        path = self.folder / "report.json"
        self.end(self.start("idle", report=str(path)))
        path.write_text(path.read_text()[:1000])
        with self.assertRaises(json.JSONDecodeError):
            self.time_of(path)

    def test_of_an_idle_program(self) -> None:
        path = self.folder / "report.json"
        worker = self.start("idle", report=str(path), report_every="50")
        first = self.wait_for("a report", lambda: self.time_of(path))
        held = sum(row["bins"] + row["depots"] for row in reports.read(path)["thread_lines"])
        self.assertEqual(held, reports.read(path)["mapped"]["parts"]["thread_caches"])
        self.wait_for("another", lambda: self.time_of(path, first))
        self.assertTrue(reports.parts_sum_to_resident(reports.read(path)))
        self.assertEqual(self.end(worker), "")

    @staticmethod
    def another_file(path: Path, last: int) -> int:
        """Returns the inode of a new report, or 0. It compares inodes because two reports may have the same millisecond."""
        return path.stat().st_ino if path.exists() and path.stat().st_ino != last else 0

    def test_on_a_signal(self) -> None:
        path = self.folder / "report.json"
        worker = self.start("idle", report=str(path), report_signal=str(int(signal.SIGUSR1)))
        self.assertFalse(path.exists())
        last = 0
        for _ in range(3):
            worker.send_signal(signal.SIGUSR1)
            last = self.wait_for("the report", lambda: self.another_file(path, last))
        self.assertEqual(self.end(worker), "")

    def test_in_a_fork_child(self) -> None:
        worker = self.start("child", report=str(self.folder / "%p.json"), report_signal=str(int(signal.SIGUSR1)))
        child = int(worker.first_line)
        self.assertNotEqual(child, worker.pid)
        os.kill(child, signal.SIGUSR1)
        path = self.folder / f"{child}.json"
        self.wait_for("the child's report", lambda: self.time_of(path))
        report = reports.read(path)
        self.assertEqual(report["process"], child)
        self.assertIn(child, [row["thread"] for row in report["thread_lines"]])
        self.assertNotIn(worker.pid, [row["thread"] for row in report["thread_lines"]])
        self.assertEqual(self.end(worker), "")
        self.assertEqual({file.name for file in self.folder.iterdir()}, {f"{child}.json", f"{worker.pid}.json"})

    def test_the_programs_own_handler_is_left_alone(self) -> None:
        worker = self.start("handler", report=str(self.folder / "report.json"), report_signal=str(int(signal.SIGUSR1)))
        worker.send_signal(signal.SIGUSR1)
        self.assertEqual(worker.stdout.readline().strip(), "handled")
        self.assertIn("signal 10 is the program's own", self.end(worker))

    def test_signals_that_cannot_be_had(self) -> None:
        for number in (signal.SIGKILL, signal.SIGSEGV):
            worker = self.start("idle", report=str(self.folder / "report.json"), report_signal=str(int(number)))
            self.assertIn(f"signal {int(number)} is", self.end(worker))

    def test_nothing_without_a_file(self) -> None:
        worker = self.start("idle", report_every="20")
        threads = len(os.listdir(f"/proc/{worker.pid}/task"))
        said = "hakmem: option report_every has no effect because HAKMEM_REPORT names no file\n"
        self.assertEqual((threads, self.end(worker)), (1, said))
        self.assertIn("option report_signal has no effect", self.end(self.start("idle", report_signal="9")))
        self.assertEqual(self.end(self.start("idle", report="/dev/null", report_every="20")), "")

    def test_a_thread_for_them(self) -> None:
        """Negative control of the test above."""
        worker = self.start("idle", report=str(self.folder / "report.json"), report_every="20")
        self.wait_for("two threads", lambda: len(os.listdir(f"/proc/{worker.pid}/task")) == 2)
        self.end(worker)

    def test_a_log_that_cannot_be_written_is_said_once(self) -> None:
        for option in ("explain", "learn_trace"):
            errors = self.end(self.start("churn", "4", **{option: "/no/such/folder/log"}, goal="1m"))
            self.assertEqual(errors, f'hakmem: option {option}: "/no/such/folder/log" cannot be written: no such file or folder\n')

    def test_an_ignored_signal_stays_ignored(self) -> None:
        run = subprocess.run(["sh", "-c", f"trap '' USR1; exec {reports.WORKER} idle"], stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=reports.PATIENCE_S,
                             env=self.environment(report=str(self.folder / "%p.json"), report_signal="10"))
        self.assertIn("signal 10 is the program's own", run.stderr)


if __name__ == "__main__":
    reports.main()
