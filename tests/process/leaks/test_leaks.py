"""Tests `hakmem leaks` with ten programs that have planted leaks among caches that live long. Time passes only in their pauses (LEAK_CLOCK),
so that the ages of blocks are the same on each machine."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tool"))
import tool  # noqa: E402

SOURCES = Path(__file__).resolve().parent / "programs"
BUILT = Path(os.environ["LEAK_PROGRAMS"])
PRELOADED = f"{tool.LIBRARY}:{os.environ['LEAK_CLOCK']}"
NAMES = sorted(path.stem for path in SOURCES.glob("*.c"))
SAMPLE = 2048
FOUND_LEAST = len(NAMES) - 1
FINDING = re.compile(r"(\d+)\. .* blocks, (\S+):(\d+) \(\w+\): .*")


def planted(name: str) -> int:
    lines = (SOURCES / f"{name}.c").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if "/* LEAK */" in line]
    return found


class Leaks(tool.ToolTest):
    def begin(self, name: str) -> subprocess.Popen:
        more = {"LD_PRELOAD": PRELOADED, "HAKMEM_HEAP_SAMPLE": str(SAMPLE), "HAKMEM_HEAP_PROFILE": f"{self.folder}/{name}.heap"}
        return self.start(str(BUILT / f"test_leak_{name}"), **more)

    def first_lines(self, name: str, **more: str) -> list:
        found = [FINDING.match(line) for line in self.ok("leaks", f"{name}.heap", **more).splitlines()[:3]]
        return [(Path(line[2]).name, int(line[3])) for line in found if line]

    def test_ten_programs(self) -> None:
        running = [self.begin(name) for name in NAMES]
        for process in running:
            self.assertEqual(process.wait(120), 0)
        places = {name: self.first_lines(name) for name in NAMES}
        right = {name: (f"{name}.c", planted(name)) for name in NAMES}
        missed = {name: found for name, found in places.items() if right[name] not in found}
        wrong = {name: found for name, found in places.items() if set(found) - {right[name]}}
        self.assertEqual(len(NAMES), 10)
        self.assertGreaterEqual(len(NAMES) - len(missed), FOUND_LEAST, missed)
        self.assertEqual(wrong, {}, "no other line is named")

    def test_without_a_leak(self) -> None:
        """The control is the same program with a free in the leaking line."""
        process = self.start(str(BUILT / "test_leak_none"), LD_PRELOAD=PRELOADED, HAKMEM_HEAP_SAMPLE=str(SAMPLE),
                             HAKMEM_HEAP_PROFILE=f"{self.folder}/none.heap")
        self.assertEqual(process.wait(120), 0)
        self.assertEqual(self.first_lines("none"), [])

    def test_each_symbolizer(self) -> None:
        name = "requests"
        self.assertEqual(self.begin(name).wait(120), 0)
        tools = ["llvm-symbolizer", "eu-addr2line", "addr2line", "llvm-addr2line"]
        for without in range(len(tools)):
            found = self.first_lines(name, HAKDEV_TOOL_WITHOUT=",".join(tools[:without]))
            with self.subTest(without=tools[:without]):
                self.assertIn((f"{name}.c", planted(name)), found)

    def test_other_files(self) -> None:
        self.refused(66, "not a heap profile of HAKMEM", "leaks", "/etc/hostname")
        self.refused(66, "No such file", "leaks", "nowhere.heap")


if __name__ == "__main__":
    unittest.main()
