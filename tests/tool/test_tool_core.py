"""Checks hakmem core on core files of a program that prints where its blocks are and what became of them (died.c)."""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from hakmem import heap
from hakmem.core import Core
from tool import LIBRARY, PLAIN, PROGRAMS, PYTHON, ROOT, ToolTest

DIED = {kind: str(PROGRAMS / f"test_tool_died_{kind}") for kind in ("shared", "static", "whole")}
GDB = shutil.which("gdb")
PATTERN = Path("/proc/sys/kernel/core_pattern").read_text().strip()
KERNEL_WRITES = not PATTERN.startswith(("|", "/")) and "/" not in PATTERN and resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY
STATES = {
    "trimmed": "free in its slab",
    "beside_trimmed": "live",
    "heap_live": "live",
    "heap_freed": "free in its slab",  # a ring of events leaves user heaps no caches
    "burst": "free, in the depot of owner 2",
    "of_ended_thread": "live",
    "live": "live",
    "freed": "free, in a bin of owner 2",
    "ended_thread": "freed by another thread, waits in its slab for the owner",
    "other_thread": "free, as a remote free in the outbox of owner 3",
    "large": "live",
    "large_freed": "free, cached for reuse",
}
IN_HEAP_CACHE = "free, in the cache of a user heap of owner 2"
SIZE, LARGE = 1024, 5 << 20


@unittest.skipUnless(KERNEL_WRITES or GDB, f"the core pattern {PATTERN!r} or the limit keeps the kernel from writing cores here, and there is no gdb")
class CoreFiles(ToolTest):
    def setUp(self) -> None:
        """Sets options with which no free block moves from a cache to its slab because of its age."""
        super().setUp()
        self.env |= {"HAKMEM_FREE_POLICY": "keep", "HAKMEM_BACKGROUND": "0"}

    def dump(self, *words: str, leave_out: bool = False, **more: str) -> tuple[str, str]:
        """Runs a program that dies. Returns what it printed, and its core file. A cache with a ring of events is not kept for the next thread."""
        more = {"HAKMEM_TRACE_RING": "16"} | more
        folder = self.folder / f"died{len(list(self.folder.iterdir()))}"
        folder.mkdir()

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if leave_out:
                Path("/proc/self/coredump_filter").write_text("0")

        if KERNEL_WRITES:
            done = subprocess.run(words, cwd=folder, env=self.env | more, capture_output=True, text=True, check=False, preexec_fn=prepare)
            self.assertLess(done.returncode, 0, done.stderr)
        else:
            settings = [word for name, value in more.items() for word in ("-ex", f"set environment {name}={value}")]
            command = [GDB, "-nx", "-batch", *settings, "-ex", f"run {shlex.join(words[1:])} > out", "-ex", "generate-core-file core", words[0]]
            subprocess.run(command, cwd=folder, env=self.env, capture_output=True, check=True)
        cores = list(folder.glob("*core*"))
        self.assertEqual(len(cores), 1, list(folder.iterdir()))
        return done.stdout if KERNEL_WRITES else (folder / "out").read_text(), str(cores[0])

    def shown(self, *words: str) -> str:
        done = self.in_a_copy(words, {})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def blocks(self, said: str) -> dict:
        return {name: (int(address, 16), int(size)) for name, address, size in map(str.split, said.splitlines())}

    def check_states(self, said: str, core: str, states: dict) -> None:
        blocks = self.blocks(said)
        for name, state in states.items():
            address, size = blocks[name]
            lines = self.shown("core", core, "-a", hex(address)).splitlines()
            self.assertEqual(lines[0], f"0x{address:x} is the start of a block of {size} bytes: {state}", name)
            inside = self.shown("core", core, "--address", hex(address + 9)).splitlines()
            self.assertEqual(inside[0], f"0x{address + 9:x} is 9 bytes into the block of {size} bytes at 0x{address:x}: {state}", name)
            self.assertEqual(inside[1:], lines[1:])

    def test_states(self) -> None:
        for kind, program in DIED.items():
            with self.subTest(kind):
                said, core = self.dump(program, "abort")
                self.check_states(said, core, STATES)

    def test_neighbours(self) -> None:
        said, core = self.dump(DIED["shared"], "abort")
        blocks = self.blocks(said)
        (before, size), (after, _) = blocks["trimmed"], blocks["beside_trimmed"]
        self.assertEqual(after, before + size)
        beside = f"the block of {size} bytes at 0x"
        self.assertIn(f"    before: {beside}{before:x}: free in its slab", self.shown("core", core, "-a", hex(after)).splitlines())
        self.assertIn(f"    after: {beside}{after:x}: live", self.shown("core", core, "-a", hex(before)).splitlines())
        lines = self.shown("core", core, "-a", hex(blocks["heap_live"][0])).splitlines()
        self.assertIn(f"    in a slab of blocks of {size} bytes, which user heap 0 (sessions) has", lines)
        lines = self.shown("core", core, "-a", hex(blocks["of_ended_thread"][0])).splitlines()
        self.assertIn("    in a slab of blocks of 2048 bytes, which no thread has", lines)
        self.assertIn("lies in memory that HAKMEM has no block in", self.shown("core", core, "-a", "1"))
        self.refused(64, "not an address in hexadecimal digits", "core", core, "-a", "main")

    def row(self, said: str, first: str) -> list:
        found = re.search(rf"^ +{first} +(.*)$", said, re.MULTILINE)
        self.assertIsNotNone(found, said)
        return found[1].split()

    def test_summary(self) -> None:
        _, core = self.dump(DIED["static"], "abort")
        said = self.shown("core", core)
        live, live_bytes, in_caches, remote, in_slabs, slabs = map(int, self.row(said, str(SIZE)))
        self.assertEqual((live, live_bytes, remote, slabs), (1, SIZE, 1, 1))
        self.assertEqual(in_caches + in_slabs, (64 << 10) // SIZE - 2)
        self.assertEqual(self.row(said, "large"), ["1", str(LARGE), "1", f"({LARGE // 2}", "bytes", "cached)"])
        self.assertRegex(said, r"(?m)^ +224 +1 +224 .* user heap 0 \(sessions\)$")
        self.assertIn("cache of owner 3: 1 blocks, 1024 bytes", said)
        self.assertEqual(self.row(said, "64")[:2], ["0", "0"])
        self.assertNotIn("could not be read", said)

    def test_fault(self) -> None:
        said, core = self.dump(DIED["shared"], "fault")
        start, size = self.blocks(said)["large"]
        place = rf"is 1000 bytes into the block of {size} bytes at 0x{start:x}: live"
        self.assertRegex(self.shown("core", core), rf"0x{start + 1000:x} \(address of the fault.*\) {place}")

    def test_call_sites(self) -> None:
        program = str(shutil.copy(DIED["static"], self.folder / "moved"))
        said, core = self.dump(program, "abort", HAKMEM_HEAP_SAMPLE="1")
        os.rename(program, self.folder / "there")
        site = rf"{LARGE} bytes  make at \S+died\.c:\d+\n"
        self.assertNotRegex(self.shown("core", core), site)
        self.assertRegex(self.shown("core", core, str(self.folder / "there")), site)
        (self.folder / "files").mkdir()
        os.rename(self.folder / "there", self.folder / "files/moved")
        lines = self.shown("core", core, "--symbols", str(self.folder / "files"), "-a", hex(self.blocks(said)["live"][0]))
        self.assertRegex(lines, r"    allocated at make at \S+died\.c:\d+\n    allocated at main at \S+died\.c:\d+\n")

    @unittest.skipUnless(KERNEL_WRITES, "the kernel writes no cores here, and gdb leaves out memory with guard pages")
    def test_protected(self) -> None:
        """Tests that the quarantine is seen. No free block has a link to another one that could be encoded."""
        said, core = self.dump(DIED["shared"], "abort", HAKMEM_HARDENED="1")
        for name, (address, _) in self.blocks(said).items():
            lines = self.shown("core", core, "-a", hex(address))
            if STATES[name] == "live":
                self.assertRegex(lines, r"block of \d+ bytes: live")
            elif name != "large_freed":
                self.assertRegex(lines, r"block of \d+ bytes: free|lies in free memory")
        self.assertRegex(self.shown("core", core, "-a", hex(self.blocks(said)["freed"][0])), "free, in the quarantine of owner 2")

    @unittest.skipUnless(KERNEL_WRITES, "the kernel writes no cores here, and gdb leaves out memory with guard pages")
    def test_two_copies(self) -> None:
        """Tests a program that is linked with the library, and is served by a preloaded one."""
        said, core = self.dump(DIED["shared"], "abort", LD_PRELOAD=str(Path(LIBRARY).parent / "libhakmem-hardened.so"))
        for name in ("live", "large"):
            self.assertRegex(self.shown("core", core, "-a", hex(self.blocks(said)[name][0])), r"is the start of a block of \d+ bytes: live\n")

    def test_stripped(self) -> None:
        program = str(self.folder / "stripped")
        subprocess.run(["strip", "-o", program, DIED["whole"]], check=True)
        said, core = self.dump(program, "abort")
        self.check_states(said, core, {"live": STATES["live"], "freed": STATES["freed"]})

    def test_names_of_files(self) -> None:
        """Tests a core file that does not name the mapped files, for example one of qemu."""
        said, core = self.dump(DIED["static"], "abort")
        data = Path(core).read_bytes()
        Path(core).write_bytes(data.replace(b"ELIFCORE\0", b"NONECORE\0"))
        self.check_states(said, core, {"live": STATES["live"], "freed": STATES["freed"]})

    def test_truncated(self) -> None:
        """Tests cores that end early. Each gives a part of the heap, or one line that says what is missing."""
        _, core = self.dump(DIED["shared"], "abort")
        data = Path(core).read_bytes()
        said = set()
        for part in range(1, 32):
            Path(core).write_bytes(data[: len(data) * part // 32])
            done = self.in_a_copy(("core", core), {})
            self.assertNotIn("Traceback", done.stderr)
            self.assertIn({0: "the core file is truncated", 1: "lacks ", 66: "not a core file"}[done.returncode], done.stdout + done.stderr)
            said.add(done.returncode)
        self.assertNotEqual(said, {0})

    def test_refusals(self) -> None:
        _, core = self.dump(DIED["shared"], "abort")
        data = Path(core).read_bytes()
        Path(core).write_bytes(data.replace(b"hakmem attach 4\0", b"hakmem attach 9\0"))
        self.refused(1, "another version of HAKMEM than this tool's (hakmem attach 9)", "core", core)
        _, core = self.dump(PYTHON, "-c", "import os; os.abort()")
        self.refused(1, "the program did not run HAKMEM", "core", core)
        self.refused(66, "not a core file", "core", PYTHON)
        (self.folder / "empty").touch()
        self.refused(66, "not a core file", "core", "empty")
        self.refused(1, "No such file", "core", str(self.folder / "nothing"))

    @unittest.skipUnless(KERNEL_WRITES, "the kernel writes no cores here")
    def test_free_memory_left_out(self) -> None:
        """Tests HAKMEM_CORE=live. The core file lacks free memory, but no live block and nothing that `hakmem core` reads."""
        sizes = {}
        for how in ("all", "live"):
            said, core = self.dump(DIED["shared"], "hollow", HAKMEM_CORE=how, HAKMEM_TRACE_RING="0")
            sizes[how] = os.stat(core).st_blocks * 512
            self.check_states(said, core, {"live": "live", "heap_live": "live", "large": "live", "large_gone": STATES["large_freed"], "heap_freed": IN_HEAP_CACHE})
            file = Core(Path(core), None, None)
            for name in ("live", "beside_trimmed", "of_ended_thread"):
                self.assertEqual(file.read(self.blocks(said)[name][0], 100), b"\7" * 100, name)
            if how == "live":
                self.assertRegex(self.shown("core", core), r"large +\d+ +\d+ +1\d +\(\d{8} bytes cached\)")
        self.assertGreater(sizes["all"] - sizes["live"], 100 << 20)

    @unittest.skipUnless(KERNEL_WRITES, "the kernel writes no cores here")
    def test_nothing_dumped(self) -> None:
        _, core = self.dump(DIED["shared"], "abort", leave_out=True)
        self.refused(1, "lacks the data of", "core", core)

    def test_joined_blocks(self) -> None:
        """Tests a slab in which a block of three cells begins at block 1, block 0 is free, and block 7 is in a bin."""
        area = heap.Area(0, 128, 16, 8, "", free=0b1, joined=0b1100, held=1 << 7)
        self.assertEqual([area.cells(index) for index in (0, 1, 4, 7)], [1, 3, 1, 1])
        self.assertEqual((area.taken, area.bytes_of(area.taken & ~area.held)), (0b11110010, (3 + 3) * 16))

    def gdb(self, *words: str) -> str:
        script = ROOT / "tools/hakmem/hakmem/hakmem-gdb.py"
        command = [GDB, "-nx", "-batch", "-ex", f"source {script}", *words]
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    @unittest.skipUnless(GDB, "no gdb here")
    def test_gdb(self) -> None:
        """Tests the commands of gdb on a core file, on a running program, on a stripped one, and before the start of the program."""
        said, core = self.dump(DIED["static"], "abort", HAKMEM_HEAP_SAMPLE="1")
        address, size = self.blocks(said)["live"]
        shown = self.gdb(DIED["static"], core, "-ex", "hakmem heap", "-ex", f"hakmem {address} + 1", "-ex", "hakmem nothing")
        self.assertIn(self.shown("core", core, "-a", hex(address + 1)).partition("    allocated")[0], shown)
        self.assertRegex(shown, r"    allocated at make( \+ \d+)? in section \.text")
        self.assertRegex(shown, rf"(?m)^ +{size} +1 +{size} ")
        self.assertIn('hakmem: No symbol "nothing" in current context.', shown)
        running = ["-ex", "hakmem heap", "-ex", "break abort", "-ex", "run", "-ex"]
        shown = self.gdb(*running, "hakmem kept[1]", "--args", DIED["shared"], "abort")
        self.assertRegex(shown, rf"0x[0-9a-f]+ is the start of a block of {size} bytes: live\n")
        self.assertIn("hakmem: No current process", shown)
        subprocess.run(["strip", "-o", self.folder / "stripped", DIED["static"]], check=True)
        shown = self.gdb("-ex", "run", "-ex", "hakmem heap", "--args", str(self.folder / "stripped"), "abort")
        self.assertRegex(shown, rf"(?m)^ +{size} +1 +{size} ")
        self.assertIn("hakmem: the program does not run HAKMEM", self.gdb("-ex", "break main", "-ex", "run", "-ex", "hakmem heap", "--args", PLAIN))


if __name__ == "__main__":
    unittest.main()
