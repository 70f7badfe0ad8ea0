"""Checks hakmem.preload(): it must restart the running Python on HAKMEM once, with the same arguments, environment and program. Also checks that
hakmem doctor recognizes a free-threaded Python."""

import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from hakmem import doctor, elf
from tool import PLAIN, PYTHON, ToolTest

# The program must print the same with and without the library, except for "served" and "option".
LOOK = """
import hakmem, json, os, sys
print("before", flush=True)
hakmem.preload(purge_delay=7)
hakmem.preload()
import ctypes
print(json.dumps({"argv": sys.argv, "main": __name__, "x": sys._xoptions, "no_site": sys.flags.no_user_site, "mine": os.environ.get("MINE"),
    "executable": sys.executable, "prefix": sys.prefix, "folder": os.getcwd(), "library": os.environ.get("HAKMEM_LIBRARY"),
    "served": hasattr(ctypes.CDLL(None), "hak_malloc"), "option": os.environ.get("HAKMEM_PURGE_DELAY"),
    "mark": [name for name in os.environ if name.startswith("_HAKMEM")]}))
"""
WITHOUT = LOOK.replace("hakmem.preload(purge_delay=7)\nhakmem.preload()\n", "")


class Preload(ToolTest):
    def look(self, code: str, form: str) -> tuple[list[str], dict]:
        (self.folder / "mine.py").write_text(code)
        words = {"file": ["mine.py"], "module": ["-m", "mine"], "code": ["-c", code]}[form]
        command = [sys.executable, "-X", "dev", "-s", *words, "an argument", "--option", ""]
        path = f"{self.env['PYTHONPATH']}:{self.folder}"
        done = subprocess.run(command, env=self.env | {"MINE": "kept", "PYTHONPATH": path}, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        *said, last = done.stdout.splitlines()
        return said, json.loads(last)

    def test_all_but_the_library_is_as_before(self) -> None:
        for form in ("file", "module", "code"):
            with self.subTest(form):
                plainly_said, plain = self.look(WITHOUT, form)
                said, started = self.look(LOOK, form)
                # Negative control: without the call, this Python uses the C library's malloc.
                self.assertEqual((plain.pop("served"), started.pop("served")), (False, True))
                self.assertEqual((plain.pop("option"), started.pop("option")), (None, "7"))
                self.assertEqual((plainly_said, said), (["before"], ["before", "before"]))
                self.assertEqual(plain, started)

    def test_under_the_library_it_does_nothing(self) -> None:
        (self.folder / "mine.py").write_text(LOOK)
        said = self.ok("run", "--", sys.executable, "mine.py").splitlines()
        self.assertEqual(said[:-1], ["before"])
        self.assertIsNone(json.loads(said[-1])["option"])

    def python(self, *words: str, text: str = "", **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, *words], env=self.env | more, cwd=self.folder, input=text, capture_output=True, text=True, check=False)

    def test_a_program_from_standard_input_is_refused(self) -> None:
        done = self.python("-", text="import hakmem; hakmem.preload()")
        self.assertIn("hakmem.trouble.Trouble: a program that Python reads from standard input", done.stderr)

    def test_a_preload_without_effect_does_not_repeat_itself(self) -> None:
        """Tests a system whose loader ignores LD_PRELOAD. Here a wrapper in place of the interpreter removes the variable."""
        wrapper = self.folder / "python3"
        wrapper.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec "{sys.executable}" "$@"\n')
        wrapper.chmod(0o755)
        done = self.python("-c", f"import hakmem, sys; print('once'); sys.executable = {str(wrapper)!r}; hakmem.preload()")
        self.assertEqual(done.stdout, "once\nonce\n", done.stderr)
        self.assertIn("was started again with HAKMEM preloaded, and does not run on it", done.stderr)

    def test_options_are_checked(self) -> None:
        self.assertIn("no option is named purge_delya", self.python("-c", "import hakmem; hakmem.preload(purge_delya=1)").stderr)


class FreeThreaded(ToolTest):
    """No free-threaded Python is available here. A small program with the marks by which doctor recognizes one replaces it."""

    def as_python(self, name: str, text: bytes) -> Path:
        program = self.folder / name
        shutil.copy(PLAIN, program)
        with program.open("ab") as file:
            file.write(text)
        return program

    def test_a_program(self) -> None:
        for name, text in (("python3.13t", b""), ("python3", b"3.14.0 free-threading build (main)\0")):
            said = " ".join(self.ok("doctor", "--", str(self.as_python(name, text))).split())
            self.assertIn("it is free-threaded Python, whose objects and own blocks are served by a copy of mimalloc", said)
            self.assertNotIn("from its own pools", said)

    def test_others_are_not(self) -> None:
        for python in (self.as_python("python3.13", b""), Path(PYTHON)):
            self.assertIn("PYTHONMALLOC=malloc passes them", elf.note_on(python) or "")
        self.assertIsNone(elf.note_on(self.as_python("notpython3.13t", b"")))

    def test_the_python_that_runs_it(self) -> None:
        self.assertEqual(doctor.python_line(0).level, doctor.OK)
        self.assertEqual((doctor.python_line(1).level, "free-threaded" in doctor.python_line(1).found), (doctor.NOTE, True))


if __name__ == "__main__":
    unittest.main(verbosity=2)
