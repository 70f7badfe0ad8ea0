#!/usr/bin/env python3
"""The engine notices a target that fails, keeps its input, and makes it shorter.   test_engine.py PROGRAM (of control.c)"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop()
SHORT = {"wrong_here": 24, "wrong_in_child": 24, "crash": 1}  # bytes, of some 400


class Engine(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_engine(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True, errors="replace", check=False)

    def test_faults_are_found_kept_and_reduced(self) -> None:
        for name, short in SHORT.items():
            found = self.run_engine(f"--target={name}", "--operations=1e7", "--seed=3", "--largest=400")
            self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
            fault = self.folder / f"fuzz-fault-{name}"
            self.assertEqual(self.run_engine(f"--target={name}", str(fault)).returncode, 1)
            self.assertEqual(self.run_engine(f"--target={name}", f"--reduce={fault}").returncode, 0)
            self.assertLessEqual(len(fault.read_bytes()), short)

    def test_cases_of_a_corpus(self) -> None:
        corpus = self.folder / "corpus"
        corpus.mkdir()
        (corpus / "crash.txt").write_text("00\n0102 # nothing\n")
        said = self.run_engine("--target=crash", f"--corpus={corpus}")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("5 operations", said.stdout)
        (corpus / "crash.txt").write_text("00\n017702\n")
        said = self.run_engine("--target=crash", f"--corpus={corpus}")
        self.assertEqual(said.returncode, 1)
        self.assertIn("case", said.stderr)
        (corpus / "crash.txt").write_text("")
        self.assertEqual(self.run_engine("--target=crash", f"--corpus={corpus}").returncode, 1, "no case is a fault too")

    def test_unknown_target(self) -> None:
        self.assertEqual(self.run_engine("--target=none", "--operations=1").returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
