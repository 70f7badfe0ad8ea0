"""Checks `make run`: it prints what it sets, and why it cannot compare."""

import subprocess
import sys
import unittest

from tool import LIBRARY, PLAIN, ROOT, ToolTest


class MakeRun(ToolTest):
    def run_demo(self, program: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(ROOT / "tools/run_demo.py"), "--library", LIBRARY, "--rounds", "1"]
        command += ["--prog", program]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)

    def test_it_says_what_it_sets_for_both(self) -> None:
        done = self.run_demo(f"{PLAIN} 5000")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("with PYTHONMALLOC=malloc PYTHONHASHSEED=0 on both", " ".join(done.stdout.split()))

    def test_a_program_without_malloc(self) -> None:
        done = self.run_demo("false")
        self.assertEqual(done.returncode, 1)
        said = " ".join(done.stdout.split())
        self.assertIn("ends with exit code 1 on both", said)
        self.assertIn("never calls malloc", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
