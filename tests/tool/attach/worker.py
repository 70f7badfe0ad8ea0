"""Starts test_attach_worker with HAKMEM preloaded and talks to it. The tests of this folder share this code."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tool"))
import tool  # noqa: E402

WORKER = os.environ["ATTACH_WORKER"]


class WorkerTest(tool.ToolTest):
    def worker(self, mode: str, threads: int = 1, **more: str) -> subprocess.Popen:
        process = self.start(WORKER, mode, str(threads), LD_PRELOAD=tool.LIBRARY, **more)
        self.assertEqual(self.line(process), ["ready"])
        return process

    def line(self, process: subprocess.Popen) -> list:
        return process.stdout.readline().split()

    def ask(self, process: subprocess.Popen, line: str) -> list:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return self.line(process)

    def sums(self, process: subprocess.Popen, rounds: int) -> dict:
        words = self.ask(process, f"go {rounds}")
        return dict(zip(words[::2], map(int, words[1::2])))

    def end(self, process: subprocess.Popen) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            pipe.close()

    def finish(self, process: subprocess.Popen) -> int:
        process.stdin.close()
        return process.wait(tool.WAIT_S)
