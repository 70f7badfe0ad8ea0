#!/usr/bin/env python3
"""Checks heap profiles of programs with known leaks. The readers that users have read them.

test_heap_profile.py --library libhakmem.so --leaks PROGRAM --leaks-cxx PROGRAM [unittest's own arguments]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import readers

CANNOT_RUN = 77
MEAN = 16384  # at this distance a block of 1 MiB is always sampled, and counts only for itself
arguments = argparse.Namespace()


class Run:
    """A program that ran with a profile, and its output."""

    def __init__(self, program: str, *words: str, **environment: str) -> None:
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        base = {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": arguments.library, "HAKMEM_HEAP_SAMPLE": str(MEAN),
                "HAKMEM_HEAP_PROFILE": f"{self.folder.name}/%p.heap"}
        done = subprocess.run([program, *words], env={**base, **environment}, capture_output=True, text=True, timeout=500)
        self.status, self.errors, self.said = done.returncode, done.stderr, done.stdout

    def stated(self, what: str) -> dict[str, int]:
        return {name: int(number) for name, number in re.findall(rf"^{what} (\w+) (\d+)$", self.said, re.MULTILINE)}

    def child(self) -> str:
        return re.search(r"^child (\d+)$", self.said, re.MULTILINE)[1]

    def profiles(self) -> dict[str, Path]:
        return {path.stem: path for path in Path(self.folder.name).glob("*.heap")}


class Profiles(unittest.TestCase):
    def read(self, run: Run, path: Path, index: str):
        """Yields (name of the reader, bytes by function) for every reader that is installed."""
        for reader in readers.present():
            yield reader.name, reader.read(run.program, str(path), index)

    def own(self, run: Run, besides: str = "") -> Path:
        self.assertEqual((run.status, run.errors), (0, ""))
        left = [path for name, path in run.profiles().items() if name != besides]
        self.assertEqual(len(left), 1, "one profile for each process")
        return left[0]

    def assert_bytes(self, run: Run, path: Path, index: str, stated: dict[str, int], error: float) -> None:
        self.assertTrue(stated)
        for name, found in self.read(run, path, index):
            for function, size in stated.items():
                with self.subTest(reader=name, function=function, index=index):
                    self.assertAlmostEqual(found.get(function, 0), size, delta=error * size)

    def test_plain(self):
        run = Run(arguments.leaks, "plain")
        path = self.own(run)
        live = run.stated("live")
        exact = {"leaks_large": live["leaks_large"], "frees_all": 0}
        self.assert_bytes(run, path, "inuse", exact, 0.001)
        # There are about 1200 samples, so this allows 5 standard deviations.
        self.assert_bytes(run, path, "inuse", {"leaks_small": live["leaks_small"]}, 0.15)
        self.assert_bytes(run, path, "alloc", run.stated("allocated"), 0.15)

    def test_every_kind_of_call(self):
        run = Run(arguments.leaks, "kinds")
        self.assert_bytes(run, self.own(run), "inuse", run.stated("live"), 0.001)

    def test_operators(self):
        run = Run(arguments.leaks_cxx)
        self.assert_bytes(run, self.own(run), "inuse", run.stated("live"), 0.001)

    def test_threads(self):
        run = Run(arguments.leaks, "threads")
        path = self.own(run)
        self.assert_bytes(run, path, "inuse", run.stated("live"), 0.001)
        self.assert_bytes(run, path, "alloc", run.stated("allocated"), 0.001)

    def test_fork(self):
        run = Run(arguments.leaks, "fork")
        parent, child = self.own(run, run.child()), run.profiles()[run.child()]
        self.assert_bytes(run, parent, "inuse", {**run.stated("live"), "child_leaks": 0}, 0.001)
        self.assert_bytes(run, child, "inuse", {**run.stated("child"), "leaks_large": 0}, 0.001)

    def test_user_heaps(self):
        run = Run(arguments.leaks, "heaps")
        path = self.own(run)
        self.assert_bytes(run, path, "inuse", run.stated("live"), 0.05)
        self.assert_bytes(run, path, "alloc", run.stated("allocated"), 0.001)

    def test_stacks(self):
        run = Run(arguments.leaks, "plain")
        for name, found in self.read(run, self.own(run), "inuse"):
            with self.subTest(reader=name):
                self.assertNotIn("hak_malloc", found, "HAKMEM's own frames are left out")
                self.assertIn("main", found, "the caller's callers are there")

    def test_with_the_usual_distance(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(arguments.leaks, "plain", HAKMEM_HEAP_SAMPLE="0", HAKMEM_HEAP_PROFILE=f"{folder}/p")
            self.assertEqual((run.status, run.errors), (0, ""))
            self.assertRegex(Path(folder, "p").read_text(), r"\Aheap profile: \d+: \d+ \[\d+: \d+\] @ heap_v2/524288\n")

    def test_on_request(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "asked")
            run = Run(arguments.leaks, "plain", str(path), HAKMEM_HEAP_PROFILE="")
            self.assertEqual((run.status, run.errors, run.profiles()), (0, "", {}))
            self.assert_bytes(run, path, "inuse", {"leaks_large": run.stated("live")["leaks_large"]}, 0.001)

    def test_off(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(arguments.leaks, "plain", f"{folder}/p", HAKMEM_HEAP_PROFILE="", HAKMEM_HEAP_SAMPLE="0")
            self.assertEqual((run.status, list(Path(folder).iterdir())), (1, []), "no samples, no profile")

    def test_full(self):
        run = Run(arguments.leaks, "many", HAKMEM_HEAP_SAMPLE="1")
        self.assertEqual(run.status, 0)
        self.assertRegex(run.errors, r"\Ahakmem: the heap profile is full[^\n]*\n\Z")

    def test_cannot_be_written(self):
        run = Run(arguments.leaks, "plain", HAKMEM_HEAP_PROFILE="/no/such/folder/p")
        self.assertEqual((run.status, run.errors),
                         (0, 'hakmem: option heap_profile: "/no/such/folder/p" cannot be written: no such file or folder\n'))

    def test_readers_notice(self):
        """Negative control: a profile with doubled numbers must be found wrong."""
        run = Run(arguments.leaks, "plain")
        path = self.own(run)
        text = path.read_text()
        path.write_text(re.sub(r"^(\d+): (\d+) \[", lambda m: f"{2 * int(m[1])}: {2 * int(m[2])} [", text, flags=re.MULTILINE))
        for _, found in self.read(run, path, "inuse"):
            self.assertGreater(found["leaks_large"], 1.5 * run.stated("live")["leaks_large"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "leaks", "leaks-cxx"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=arguments)
    if not readers.present():
        print("none of google-pprof, jeprof and go is here: nothing can read a profile")
        sys.exit(CANNOT_RUN)
    unittest.main(argv=sys.argv[:1] + rest)


if __name__ == "__main__":
    main()
