"""Reads the blocks of docs/DEPLOY.md that are tested, and provides what is needed to run them: other paths and ports, and a folder for the
reports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/DEPLOY.md").read_text()
BLOCKS = dict(re.findall(r"<!-- tried: (\w+) -->\n```\w+\n(.*?)```", TEXT, re.DOTALL))
LIBRARY = os.environ["HAKMEM_LIBRARY"]
IN_PAGE = "/usr/local/lib/libhakmem.so"
REPORTS = "/var/lib/hakmem"
PATIENCE_S = 60


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hakmem-deploy-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        self.reports = self.folder / "reports"
        self.reports.mkdir()
        self.reports.chmod(0o777)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}

    def command(self, name: str, **others: str) -> str:
        """Returns the command of a block. The paths and each name in `others` must be in the command, and are replaced."""
        command = BLOCKS[name].strip()
        for old, new in {IN_PAGE: LIBRARY, REPORTS: str(self.reports), **others}.items():
            if old in (IN_PAGE, REPORTS) and not command.startswith("LD_PRELOAD="):
                command = command.replace(old, new)
                continue
            self.assertIn(old, command)
            command = command.replace(old, new)
        return command

    def needs(self, program: str, *folders: str) -> str:
        found = shutil.which(program, path=os.pathsep.join([*folders, os.environ["PATH"]]))
        if found is None:
            self.skipTest(f"{program} is not installed")
        return found

    def start(self, command: str, **more: object) -> subprocess.Popen:
        process = subprocess.Popen(["sh", "-c", f"exec {self.as_exec(command)}"], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def as_exec(command: str) -> str:
        """Returns the command with `env` before its variables, if it has any, because `exec` replaces the shell."""
        return f"env {command}" if re.match(r"[A-Z_]+=", command) else command

    def run_it(self, command: str) -> str:
        done = subprocess.run(["sh", "-c", f"exec {self.as_exec(command)}"], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def wait_for(self, what: str, happened, process: subprocess.Popen | None = None) -> object:
        until = time.monotonic() + PATIENCE_S
        while not (result := happened()):
            if process is not None and process.poll() is not None:
                self.fail(f"ended before {what}: {process.stdout.read()}")
            self.assertLess(time.monotonic(), until, f"waited in vain: {what}")
            time.sleep(0.05)
        return result

    def summed(self) -> dict:
        """Returns the sums of the reports, as `hakmem report DIR` prints them."""
        done = subprocess.run([sys.executable, "-m", "hakmem", "report", str(self.reports), "--json", "-"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def served(self, least: int, command: str, processes: int = 1) -> dict:
        """Checks by HAKMEM's own counters that at least `processes` processes of this command made at least `least` allocations each."""
        found = self.summed()
        mine = [row for row in found["processes"] if row["command"].startswith(command) and row["malloc"] >= least]
        self.assertGreaterEqual(len(mine), processes, found["processes"])
        return found
