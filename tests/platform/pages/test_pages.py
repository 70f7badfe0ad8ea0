#!/usr/bin/env python3
"""Runs programs on a core whose system has larger pages.

test_pages.py LIBRARY BYTES STRESS CC
  LIBRARY must serve the programs on a system with pages of BYTES. It ends the program at a system call that is not aligned to these pages.
  Negative control: if the same library is told that pages have 4 KiB, it must make a call that is not aligned.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

library, page, stress, compiler = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3], sys.argv[4]

MODES = {
    "plain": {},
    "purged": {"HAKMEM_BACKGROUND": "1", "HAKMEM_PURGE_DELAY": "1"},
    "hardened": {"HAKMEM_HARDENED": "1"},
    "sampled": {"HAKMEM_GUARD_SAMPLE": "64k", "HAKMEM_HEAP_SAMPLE": "16k"},
}
PYTHON = "import json; d = [json.loads(json.dumps({str(i): 'x' * i})) for i in range(3000)]; b = [bytes(i * 9000) for i in range(300)]; print(len(d))"
VALLOC = "import ctypes; c = ctypes.CDLL(None); c.valloc.restype = c.pvalloc.restype = ctypes.c_void_p; c.malloc_usable_size.argtypes = [ctypes.c_void_p]; v, p = c.valloc(1), c.pvalloc(1); print(v % {page} | p % {page}, c.malloc_usable_size(p) >= {page})"
SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n" + "".join(f"int f{i}(int x) {{ return x * {i} + abs(x); }}\n" for i in range(400))


def run(command: list, **env) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, timeout=500,
                          env={**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc", **env})


class Pages(unittest.TestCase):
    def good(self, command: list, **env) -> str:
        done = run(command, **env)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def test_stress(self):
        for mode, env in MODES.items():
            with self.subTest(mode):
                self.good([stress, "threads=2", "generations=2", "steps=5000", "seed=5"], TEST_ALLOCATOR="hakmem", **env)

    def test_python(self):
        for mode, env in MODES.items():
            with self.subTest(mode):
                self.assertEqual(self.good([sys.executable, "-c", PYTHON], **env), "3000\n")

    def test_bash_and_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "many.c")
            source.write_text(SOURCE)
            self.good([compiler, "-O2", "-c", str(source), "-o", f"{folder}/many.o"])
        self.assertEqual(self.good(["bash", "-c", "a=(); for i in {1..2000}; do a+=($i$i); done; (echo ${#a[@]}) | cat"]), "2000\n")

    def test_valloc(self):
        self.assertEqual(self.good([sys.executable, "-c", VALLOC.format(page=page)]), "0 True\n")

    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            self.good([sys.executable, "-c", PYTHON], HAKMEM_REPORT=f"{folder}/r.json")
            report = json.loads(Path(folder, "r.json").read_text())
        self.assertGreater(report["served"]["malloc"], 3000)

    def test_control(self):
        done = run([sys.executable, "-c", PYTHON], COARSE_SAYS_FINE="1", HAKMEM_PURGE_DELAY="1", HAKMEM_BACKGROUND="1")
        self.assertEqual(done.returncode, -6)
        self.assertTrue(re.search(r"coarse_pages: \w+\(", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
