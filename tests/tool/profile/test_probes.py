#!/usr/bin/env python3
"""Checks that the probes are in the notes of the library, have their arguments, and are only on the path of samples.

test_probes.py --library libhakmem.so --leaks PROGRAM [unittest's own arguments]
"""
import argparse
import os
import re
import subprocess
import tempfile
import unittest

PROBES = {"alloc": 3, "free": 1}
arguments = argparse.Namespace()


def notes() -> list[tuple[str, str, int, int]]:
    """Returns (provider, name, semaphore, number of arguments) of every probe in the library."""
    text = subprocess.run(["readelf", "-nW", arguments.library], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x[0-9a-f]+, Base: 0x[0-9a-f]+, Semaphore: 0x([0-9a-f]+)\s+"
                       r"Arguments: (.*)", text)
    return [(provider, name, int(semaphore, 16), len(words.split())) for provider, name, semaphore, words in found]


class Probes(unittest.TestCase):
    def test_notes(self):
        self.assertEqual({(provider, name) for provider, name, _, _ in notes()}, {("otel_memory", name) for name in PROBES})
        for _, name, semaphore, count in notes():
            with self.subTest(probe=name):
                self.assertEqual((count, semaphore), (PROBES[name], 0), "no semaphore: tracers need not find one")

    def hits(self, name: str, mean: int) -> int:
        """Returns how often gdb, which is a tracer that most systems have, hits the probe."""
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
            script.write(f"set confirm off\nset startup-with-shell off\nset breakpoint pending on\n"
                         f"set environment LD_PRELOAD {arguments.library}\nset environment HAKMEM_HEAP_SAMPLE {mean}\n"
                         f"break -probe-stap otel_memory:{name}\nignore 1 1000000\nrun\ninfo breakpoints\n")
            script.flush()
            done = subprocess.run(["gdb", "-q", "-batch", "-nx", "-x", script.name, "--args", arguments.leaks, "threads"],
                                  capture_output=True, text=True, timeout=500)
        if "exited normally" not in done.stdout:
            self.fail(done.stdout + done.stderr)
        return sum(map(int, re.findall(r"breakpoint already hit (\d+) time", done.stdout)))

    def test_hits(self):
        """Four threads leak 60 blocks of 1 MiB each, and half of them are freed. At this distance all of them are sampled."""
        try:
            allocs, frees = self.hits("alloc", 65536), self.hits("free", 65536)
        except FileNotFoundError:
            self.skipTest("no gdb here")
        self.assertTrue(240 <= allocs <= 260, allocs)
        self.assertTrue(120 <= frees <= 130, frees)
        self.assertEqual(self.hits("alloc", 0), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "leaks"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=arguments)
    unittest.main(argv=["test_probes.py"] + rest)


if __name__ == "__main__":
    main()
