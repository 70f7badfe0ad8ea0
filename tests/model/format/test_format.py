"""Tests check_format.py: a formatted file passes, each other file is named, and another version of clang-format is not used."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_format

ROOT = Path(__file__).resolve().parents[3]
SOUND = "int f(int a)\n{\n    if (a > 0)\n        return 1;\n    return 0;\n}\n"
SHAPELESS = {
    "indented by two": SOUND.replace("    if", "  if"),
    "a brace on the line": SOUND.replace(")\n{", ") {"),
    "an if on one line": SOUND.replace(")\n        return", ") return"),
    "a star at the type": "int* f(void);\n",
    "a long line": "int f(int " + "a" * 60 + ", int " + "b" * 60 + ");\n",
}


class Format(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "tree"
        self.write(".clang-format", (ROOT / ".clang-format").read_text())
        for name in ("src/span/page_map.c", "include/hakmem.h", "tests/unit/page_map.c", "bench/loops.h"):
            self.write(name, SOUND)
        self.write("src/policy/rows.def", "ROW( 1 )\n")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def run_it(self, path: str, *more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, check_format.__file__, str(self.root), *more]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})

    def program(self) -> str:
        program = check_format.formatter()
        if program is None:
            self.skipTest("no clang-format of that version")
        return program

    def test_what_is_in_shape(self) -> None:
        self.assertEqual(check_format.check(self.root, self.program()), [])

    def test_what_is_not(self) -> None:
        program = self.program()
        for what, text in SHAPELESS.items():
            for name in ("src/span/page_map.c", "include/hakmem.h", "tests/unit/page_map.c", "bench/loops.h"):
                with self.subTest(f"{what} in {name}"):
                    self.write(name, text)
                    said = check_format.check(self.root, program)
                    self.assertEqual([line.split(":")[0] for line in said], [name])
                    self.assertEqual(check_format.check(self.root, program, write=True), [])
                    self.assertEqual(check_format.check(self.root, program), [])
                    self.write(name, SOUND)

    def test_nothing_to_check(self) -> None:
        program = self.program()
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn("nothing was checked", check_format.check(Path(empty), program)[0])
        (self.root / ".clang-format").unlink()
        self.assertIn("nothing was checked", check_format.check(self.root, program)[0])

    def test_a_configuration_that_is_not_understood(self) -> None:
        program = self.program()
        self.write(".clang-format", "NoSuchOption: true\n")
        self.assertNotEqual(check_format.check(self.root, program), [])

    def test_another_version_is_not_asked(self) -> None:
        bin_folder = self.root / "bin"
        for said, expected in ((None, "there is no clang-format"), ("Debian clang-format version 19.1.7", "version 19.1.7")):
            with self.subTest(expected):
                if said:
                    self.write("bin/clang-format", f"#!/bin/sh\necho '{said}'\n")
                    (bin_folder / "clang-format").chmod(0o755)
                ended = self.run_it(str(bin_folder))
                self.assertEqual(ended.returncode, check_format.CANNOT_RUN)
                self.assertIn(expected, ended.stdout)


if __name__ == "__main__":
    unittest.main()
