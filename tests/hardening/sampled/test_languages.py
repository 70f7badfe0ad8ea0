#!/usr/bin/env python3
"""Checks programs whose runtime handles SIGSEGV itself (Java, Go, Node, Python's faulthandler) together with sampled guard pages. They must recover
from faults, or be ended by faults, in the same way as without the option. Each program must have had sampled blocks.

test_languages.py --library libhakmem.so [unittest's own arguments]
"""
import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
arguments = argparse.Namespace()


def without_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Language(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def need(self, program: str) -> str:
        found = shutil.which(program)
        if not found:
            self.skipTest(f"no {program} here")
        return found

    def run_with(self, sample: str, *command: str, **more: str) -> subprocess.CompletedProcess:
        env = dict(os.environ) | {"LD_PRELOAD": arguments.library, "HAKMEM_GUARD_SAMPLE": sample, "HAKMEM_GOAL": "none",
                                  "HAKMEM_REPORT": str(self.folder / "report.json")} | more
        return subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=500,
                              check=False, preexec_fn=without_cores)

    def samples(self) -> int:
        return json.loads((self.folder / "report.json").read_text())["counters"]["guard_samples"]

    def recovers(self, expected: str, *command: str) -> None:
        done = self.run_with("64k", *command, HAKMEM_BIN_CAP="1")
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr[-2000:])
        self.assertNotIn("hakmem:", done.stderr)
        self.assertGreater(self.samples(), 10)

    def ends_alike(self, said: str, *command: str) -> None:
        """Checks that the program ends in the same way as without the option, with the message of its runtime."""
        ends = {}
        for sample in ("0", "64k"):
            done = self.run_with(sample, *command)
            self.assertIn(said, done.stdout + done.stderr)
            self.assertNotIn("hakmem:", done.stderr)
            ends[sample] = done.returncode
        self.assertEqual(ends["0"], ends["64k"])
        self.assertNotEqual(ends["0"], 0)


class Java(Language):
    def setUp(self) -> None:
        super().setUp()
        java, compiler = self.need("java"), self.need("javac")
        subprocess.run([compiler, "-nowarn", "-XDignore.symbol.file", "-d", str(self.folder), str(HERE / "Faults.java")], check=True,
                       capture_output=True)
        self.command = [java, "-Xmx200m", "-cp", str(self.folder), "Faults"]

    def test_recovers(self) -> None:
        self.recovers("100000 20\n", *self.command)

    def test_ends(self) -> None:
        self.ends_alike("SIGSEGV (0xb)", *self.command, "fault")


class Go(Language):
    def setUp(self) -> None:
        super().setUp()
        go = shutil.which("go") or "/usr/local/go/bin/go"
        if not os.path.exists(go):
            self.skipTest("no go here")
        self.program = str(self.folder / "faults")
        built = subprocess.run([go, "build", "-o", self.program, str(HERE / "faults.go")], capture_output=True, text=True, check=False,
                               env=dict(os.environ) | {"GOCACHE": str(self.folder / "cache"), "GO111MODULE": "off", "CGO_ENABLED": "1"})
        self.assertEqual(built.returncode, 0, built.stderr)

    def test_recovers(self) -> None:
        self.recovers("400\n", self.program)

    def test_ends(self) -> None:
        self.ends_alike("SIGSEGV: segmentation violation", self.program, "fault")


class Node(Language):
    def test_recovers(self) -> None:
        self.recovers("1500\n", self.need("node"), str(HERE / "faults.js"))


MISTAKE = """
import ctypes, faulthandler, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc_usable_size.argtypes = libc.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "early":
    faulthandler.enable()
while True:
    block = libc.malloc(100)
    if libc.malloc_usable_size(block) == 100:
        break
if sys.argv[1] == "late":
    faulthandler.enable()
libc.free(block)
if sys.argv[2] == "elsewhere":
    block = 64
ctypes.string_at(block, 1)
"""


class Python(Language):
    def mistake(self, when: str, where: str, sample: str = "256k") -> str:
        done = self.run_with(sample, sys.executable, "-c", MISTAKE, when, where)
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        return done.stderr

    def test_both_tell(self) -> None:
        for _ in range(6):  # rarely, the first sample comes before the handler is installed
            said = self.mistake("early", "here", "32m")
            if "hakmem:" in said:
                break
        self.assertLess(said.index("hakmem: use after free: read"), said.index("Fatal Python error: Segmentation fault"))
        self.assertEqual(said.count("hakmem: use after free"), 1)

    def test_fault_elsewhere(self) -> None:
        for when in ("early", "late"):
            said = self.mistake(when, "elsewhere")
            self.assertIn("Fatal Python error: Segmentation fault", said)
            self.assertNotIn("hakmem:", said)

    def test_later_handler(self) -> None:
        """A later handler replaces HAKMEM's. It calls HAKMEM's handler at its own end, when the address of the fault is lost."""
        said = self.mistake("late", "here")
        self.assertIn("Fatal Python error: Segmentation fault", said)


PROGRAMS = {  # each allocates some 100 MB in small blocks
    "awk": "BEGIN { for (i = 0; i < 2000000; i++) { k = i % 5000; a[k] = a[k] \"x\"; if (length(a[k]) > 200) a[k] = \"\" } }",
    "perl": "for $i (1 .. 1500000) { $h{$i % 50000} = 'x' x ($i % 300) }",
    "bash": "for i in {1..200000}; do a=x$i; b=$a$a$a; c=${b/x/y}; done",
    "lua5.4": "local t = {} for i = 1, 700000 do t[i % 1000] = ('s' .. i):rep(3) end",
    "node": "let a = []; for (let i = 0; i < 300000; i++) a.push(Buffer.alloc(100));",
    sys.executable: "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t(a, b)')\n"
                    "for i in range(200000): c.execute('insert into t values (?, ?)', (i, str(i) * 5))",
}


class Rate(Language):
    """Samples are due by bytes, whatever the program is. The report says how many blocks of each class it was served. While a
    report counts all calls, the number of samples is no estimate."""
    MEAN = 262144
    SLOT = 8192

    def test_rate(self) -> None:
        tried = 0
        for program, text in PROGRAMS.items():
            if not shutil.which(program):
                continue
            tried += 1
            words = [text] if program == "awk" else ["-e" if program in ("perl", "lua5.4", "node") else "-c", text]
            done = self.run_with(str(self.MEAN), program, *words)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            report = json.loads((self.folder / "report.json").read_text())
            due = sum(row["served"] * row["size"] for row in report["classes"] if row["size"] <= self.SLOT) / self.MEAN
            taken = sum(report["counters"][name] for name in ("guard_samples", "guard_missed"))
            with self.subTest(program=program):
                self.assertGreater(due, 50)
                self.assertAlmostEqual(taken / due, 1, delta=0.2 + 3 / due**0.5)
        self.assertGreater(tried, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=arguments)
    unittest.main(argv=["test_languages.py"] + rest)


if __name__ == "__main__":
    main()
