#!/usr/bin/env python3
"""Compares HAKMEM's stacks with those of backtrace() in real programs.

test_both_stacks.py --library both_stacks.so --leaks-cxx PROGRAM [unittest's own arguments]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

arguments = argparse.Namespace()
PYTHON = """
import decimal, json, re, sqlite3
texts = [json.dumps([{"a": list(range(50))}]) for _ in range(300)]
[json.loads(text) for text in texts]
re.compile("(a|b)*c{3,5}(x|y)").match("aaacccx")
table = sqlite3.connect(":memory:")
table.execute("create table t(a)")
[table.execute("insert into t values(?)", (i,)) for i in range(300)]
"""
PERL = 'my %h; $h{$_} = [1..10] for 1..2000; my $s = join ",", sort map {sprintf "%d", $_} keys %h; $s =~ s/([0-9]+)/<$1>/g;'
RUBY = 'h = {}; 5000.times {|i| h[i] = "x" * i.to_s.size}; h.map {|k, v| v}.join.size'
NODE = 'const all = []; for (let i = 0; i < 300; i++) all.push(Buffer.alloc(100000)); require("zlib").gzipSync(Buffer.alloc(1000000));'
PROGRAMS = {
    "python3": ["-c", PYTHON], "perl": ["-e", PERL], "bash": ["-c", 'for i in $(seq 200); do x="$x $i"; done; echo ${x//1/2}'],
    "ruby": ["-e", RUBY], "node": ["-e", NODE], "gdb": ["-batch", "-ex", "info functions main", "/bin/true"],
}
LEAST_FRAMES = 50


class Stacks(unittest.TestCase):
    def counts(self, command: list[str], **environment: str) -> list[int]:
        """Returns the sums of "stacks, frames, different, longer" over all processes of the command."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out")
            names = {"LD_PRELOAD": arguments.library, "BOTH_STACKS": str(out), **environment}
            done = subprocess.run(command, env={**os.environ, **names}, capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [[int(word) for word in line.split()] for line in out.read_text().splitlines()]
            self.assertTrue(lines, "nothing was compared")
            self.said = done.stderr
            return [sum(column) for column in zip(*lines)]

    def assert_alike(self, command: list[str]) -> None:
        stacks, frames, different, _ = self.counts(command)
        self.assertGreater(stacks, 0)
        self.assertGreater(frames, LEAST_FRAMES)
        self.assertEqual(different, 0, self.said)

    def test_programs(self):
        for name, words in PROGRAMS.items():
            program = shutil.which(name)
            if program is not None:
                with self.subTest(program=name):
                    self.assert_alike([os.path.realpath(program), *words])

    def test_cxx(self):
        stacks, _, different, _ = self.counts([arguments.leaks_cxx])
        self.assertGreater(stacks, 0)
        self.assertEqual(different, 0, self.said)

    def test_notices(self):
        """Negative control: stacks with a wrong frame must be found different."""
        stacks, _, different, _ = self.counts(["/bin/bash", "-c", "true"], BOTH_STACKS_SPOIL="1")
        self.assertEqual(different, stacks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "leaks-cxx"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=arguments)
    unittest.main(argv=sys.argv[:1] + rest)


if __name__ == "__main__":
    main()
