"""Checks that `make` installs nothing by itself. On a machine without a compiler it names what is missing and how to get it."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HAS = ("sh", "make", "dirname", "readlink", "cat", "ls", "id", "mktemp", "rm", "nproc", "sed", "sudo")
MISSING = ("cmake", "ninja-build", "gcc", "g++")


class Deps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.tree = Path(folder.name), Path(folder.name) / "tree"
        self.apt = self.root / "apt-get was called"
        programs = self.root / "bin"
        programs.mkdir()
        for name in HAS:
            found = shutil.which(name)
            if found and name != "sudo":
                (programs / name).symlink_to(found)
        for name, text in {"apt-get": f'echo "$@" >>"{self.apt}"; exit 1', "sudo": 'exec "$@"'}.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self.environment = {"PATH": str(programs), "HOME": str(self.root), "HAKDEV_VENV": str(self.root / "venv")}
        for name in ("Makefile", "CMakeLists.txt", "CMakePresets.json", "tools/setup.sh", "tools/packages"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, self.tree / name)

    def make(self, *goals: str) -> tuple[int, str]:
        done = subprocess.run([os.path.join(self.environment["PATH"], "make"), *goals], cwd=self.tree, env=self.environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_goals_that_install_nothing(self) -> None:
        for goals in ([], ["all"], ["install"]):
            with self.subTest(goals):
                code, said = self.make(*goals)
                self.assertNotEqual(code, 0)
                self.assertEqual(said.count("setup: "), 1, said)
                for name in (*MISSING, "make deps"):
                    self.assertIn(name, said)
                self.assertFalse(self.apt.exists())

    def test_goals_that_install(self) -> None:
        for goals in (["deps"], ["run"], ["test"], ["check"], ["bench"]):
            with self.subTest(goals):
                self.apt.unlink(missing_ok=True)
                self.assertNotEqual(self.make(*goals)[0], 0)
                called = self.apt.read_text()
                for name in MISSING:
                    self.assertIn(name, called)


if __name__ == "__main__":
    unittest.main()
