"""Tests `hakmem leaks` with programs that have planted leaks among caches that live long: ten in C, and 14 in other languages and situations. Time
passes only in their pauses (LEAK_CLOCK), so that the ages of blocks are the same on each machine. Only Node and Go have the real clock."""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tool"))
import tool  # noqa: E402
from hakmem import leaks, profiles  # noqa: E402
from hakmem.profiles import Live, Profile, Site  # noqa: E402
from hakmem.sources import BEST_RULE, Frame  # noqa: E402
from test_tool_scripts import node, pythons  # noqa: E402

SOURCES = Path(__file__).resolve().parent / "programs"
BUILT = Path(os.environ["LEAK_PROGRAMS"])
PRELOADED = f"{tool.LIBRARY}:{os.environ['LEAK_CLOCK']}"
NAMES = sorted(path.stem for path in SOURCES.glob("*.c"))
SAMPLE = 2048
FOUND_LEAST = len(NAMES) - 1
FINDING = re.compile(r"(\d+)\. .* blocks, (\S+):(\d+) \(\w+\): .*")
FIRST_LINES = re.compile(r"^\d+\. \S+ \S+ in .* blocks, .*$", re.MULTILINE)
PLACE = re.compile(r" blocks, (\S+):(\d+) \(.+\): (?:these|none|only)")
UNSURE = "no function of the program's own files is known"
LEAK = re.compile(r"/\* LEAK \*/|(?://|#) LEAK$", re.MULTILINE)
SCRIPT_FUNCTION = re.compile(r" *(?:def|function) ")
OTHERS = sorted(path for path in SOURCES.glob("*/*") if LEAK.search(path.read_text()))
RUNTIMES = os.environ.get("LEAK_RUNTIMES") == "yes"
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def planted(name: str) -> int:
    return line_of(SOURCES / f"{name}.c")


def line_of(source: Path) -> int:
    """Returns the line that is marked. In a script, this is the line at which the function of the marked line begins."""
    lines = source.read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if LEAK.search(line)]
    if source.suffix in (".py", ".js"):
        return max(number for number, line in enumerate(lines[:found], 1) if SCRIPT_FUNCTION.match(line))
    return found


def needs(found: object, name: str):
    if not (RUNTIMES and found):
        print(f"skipped: no {name}", flush=True)
    return unittest.skipUnless(RUNTIMES and found, f"no {name}")


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


class Judged(unittest.TestCase):
    def test_few_freed_blocks_do_not_tell_the_usual_lifetime(self) -> None:
        """A hash map frees its array of buckets when it grows. The last of some arrays lived for half of the time, but they are not like the entries."""
        entries = Site((1,), 6, 600, 48 * 600, 600, 48 * 600, live=[Live(48, age / 100) for age in range(600)], scale=10.0)
        for freed, found in ((0, "none of its blocks"), (9, "only 9 of its blocks were freed"), (400, None)):
            arrays = Site((2,), 12, 0, 0, freed, 4000 * freed, freed={13: freed} if freed else {})
            line = leaks.Line(Frame("remember", "map.cpp", 11), BEST_RULE, [entries, arrays], {(1,): 1.0})
            with self.subTest(freed):
                finding = leaks.judge(line, 6.0, unittest.mock.Mock())
                self.assertEqual(finding is not None, found is not None)
                self.assertIn(found or "", finding.why if finding else "")


    def test_a_saved_profile_is_judged_alike(self) -> None:
        """A file of the tool holds scaled blocks, but samples of lifetimes."""
        site = Site((1,), 6, 200, 48 * 200, 260, 48 * 260, freed={13: 60}, live=[Live(48, age / 40) for age in range(200)])
        direct = Profile([site], "", 6.0, 512 << 10)
        for found in (direct, profiles.parse(profiles.text_of(direct), "saved")):
            line = leaks.Line(Frame("keep", "cache.cpp", 7), BEST_RULE, found.sites, {(1,): 1.0})
            self.assertIsNone(leaks.judge(line, 6.0, unittest.mock.Mock()))


class Others(tool.ToolTest):
    def named(self, target: str, **more: str) -> tuple:
        """Returns the places of which the tool is sure, the first line, and all that it said."""
        said = self.ok("leaks", target, **more)
        lines = FIRST_LINES.findall(said)
        sure = [PLACE.search(line) for line in lines if UNSURE not in line]
        return [(Path(found[1]).name, int(found[2])) for found in sure if found], lines[0] if lines else "", said

    def check(self, source: Path, target: str) -> None:
        """Checks that the first line names the marked line, and that no other line is named."""
        places, first, said = self.named(target)
        self.assertEqual(places, [(source.name, line_of(source))], said)
        self.assertNotIn(UNSURE, first)

    def profiled(self, name: str, *command: str) -> list:
        """Runs the program until it ends, and returns its profiles."""
        process = self.start(*command, LD_PRELOAD=PRELOADED, HAKMEM_HEAP_SAMPLE=str(SAMPLE), HAKMEM_HEAP_PROFILE=f"{self.folder}/{name}.%p.heap")
        self.assertIn(process.wait(120), (0, -signal.SIGTERM))
        return sorted(self.folder.glob(f"{name}.*.heap"), key=lambda path: path.name != f"{name}.{process.pid}.heap")

    def while_it_runs(self, source: Path, process: subprocess.Popen) -> None:
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check(source, str(process.pid))

    def test_their_number(self) -> None:
        self.assertEqual(len(NAMES) + len(OTHERS), 24)

    def test_cxx(self) -> None:
        programs = [(source, BUILT / f"test_leak_{source.stem}") for source in (SOURCES / "cxx").iterdir()]
        if not programs[0][1].exists():
            self.skipTest("no C++")
        for source, program in programs:
            with self.subTest(source.name):
                (profile,) = self.profiled(source.stem, str(program))
                self.check(source, profile.name)

    @needs(shutil.which("rustc"), "rustc")
    def test_rust(self) -> None:
        for source in (SOURCES / "rust").iterdir():
            with self.subTest(source.name):
                program = str(self.folder / source.stem)
                subprocess.run(["rustc", "-g", "-O", "-o", program, str(source)], check=True, capture_output=True)
                (profile,) = self.profiled(source.stem, program)
                self.check(source, profile.name)

    @needs(GO, "go")
    def test_go(self) -> None:
        source = SOURCES / "go/images.go"
        shutil.copy(source, self.folder)
        environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "1"}
        subprocess.run([str(GO), "build", "-o", "images", source.name], cwd=self.folder, env=environment, check=True, capture_output=True)
        process = self.start(str(self.folder / "images"), LD_PRELOAD=tool.LIBRARY, HAKMEM_HEAP_SAMPLE=str(SAMPLE))
        self.while_it_runs(source, process)

    def script(self, *words: str, **more: str) -> subprocess.Popen:
        process = self.start(*tool.TOOL, "run", "--scripts", "--set", f"heap_sample={SAMPLE}", *words, **more)
        self.addCleanup(Path(f"/tmp/perf-{process.pid}.map").unlink, missing_ok=True)
        return process

    @needs(RUNTIMES and pythons(), "Python of version 3.12 or newer")
    def test_python(self) -> None:
        for source in (SOURCES / "scripts").glob("*.py"):
            with self.subTest(source.name):
                process = self.script("--set", f"heap_profile={self.folder}/%p.heap", "--", pythons()[-1], str(source), LD_PRELOAD=os.environ["LEAK_CLOCK"])
                self.assertEqual(process.wait(120), -signal.SIGTERM)
                self.check(source, f"{process.pid}.heap")

    @needs(RUNTIMES and node(), "Node of version 16 or newer")
    def test_node(self) -> None:
        for source in (SOURCES / "scripts").glob("*.js"):
            with self.subTest(source.name):
                self.while_it_runs(source, self.script("--", str(node()), "--no-turbo-inlining", "--expose-gc", str(source)))

    def test_a_plugin(self) -> None:
        source, command = SOURCES / "situations/filter.c", [str(BUILT / "test_leak_plugin"), os.environ["LEAK_FILTER"]]
        (profile,) = self.profiled("plugin", *command)
        self.check(source, profile.name)
        (profile,) = self.profiled("closed", *command, "close")
        places, first, said = self.named(profile.name)
        self.assertEqual(places, [], "the file of the plugin is not known")
        self.assertIn(UNSURE, first, said)

    def test_another_thread(self) -> None:
        (profile,) = self.profiled("worker", str(BUILT / "test_leak_worker"))
        self.check(SOURCES / "situations/worker.c", profile.name)

    def test_a_forked_child(self) -> None:
        parents, childs = self.profiled("forked", str(BUILT / "test_leak_forked"))
        self.check(SOURCES / "situations/forked.c", childs.name)
        self.assertEqual(self.named(parents.name)[1], "", "the parent leaks nothing")

    @unittest.skipUnless(shutil.which("strip") and shutil.which("objcopy"), "no strip and objcopy")
    def test_a_stripped_program(self) -> None:
        """Without debug information, no line is named, but the module. With a separate file of debug information, the line is named."""
        program = self.folder / "stripped"
        shutil.copy(BUILT / "test_leak_requests", program)
        self.change("objcopy", "--only-keep-debug", "stripped", "stripped.debug")
        self.change("strip", "stripped")
        (profile,) = self.profiled("stripped", str(program))
        places, first, said = self.named(profile.name)
        self.assertEqual(places, [], said)
        self.assertRegex(first, r" blocks, stripped \(stripped\+0x[0-9a-f]+\): .*has no lines")
        self.change("objcopy", "--add-gnu-debuglink=stripped.debug", "stripped", "linked")
        (profile,) = self.profiled("linked", str(self.folder / "linked"))
        self.check(SOURCES / "requests.c", profile.name)

    def change(self, *command: str) -> None:
        subprocess.run(command, cwd=self.folder, check=True)


if __name__ == "__main__":
    unittest.main()
