#!/usr/bin/env python3
"""Compares HAKMEM's address space with that of the same program on the C library.

    test_address_space.py LIBRARY WORKER

Each of these checks failed when HAKMEM still reserved address space in advance.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, WORKER = Path(sys.argv[1]), Path(sys.argv[2])
ROOM_KIB = 64 << 10
HEAP_SHARE = 1.02
GIB = 100


def numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (line.split() for line in text.splitlines())}


def preloaded(library: Path | None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_PRELOAD"))}
    return {**environment, "LD_PRELOAD": str(library)} if library else environment


def said(library: Path | None, *arguments: object) -> dict[str, int]:
    command = [str(WORKER), *map(str, arguments)]
    done = subprocess.run(command, env=preloaded(library), capture_output=True, text=True, timeout=500, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}: {done.stderr}")
    return numbers(done.stdout)


def needs(command: str) -> object:
    return unittest.skipUnless(shutil.which(command), f"there is no {command} here")


class AddressSpace(unittest.TestCase):
    def test_idle(self) -> None:
        ours, theirs = said(LIBRARY, "idle")["virtual_kib"], said(None, "idle")["virtual_kib"]
        print(f"idle: {ours} kB, on the C library {theirs} kB")
        self.assertLessEqual(ours, theirs + ROOM_KIB)

    def check_heap(self, kind: str) -> None:
        idle = said(None, "idle")["virtual_kib"]
        now = said(LIBRARY, kind, GIB)
        print(f"{kind}: heap {now['heap_kib']} KiB, virtual {now['virtual_kib']} KiB")
        self.assertGreaterEqual(now["heap_kib"], GIB << 20)
        self.assertLessEqual(now["virtual_kib"], idle + HEAP_SHARE * now["heap_kib"] + ROOM_KIB)

    def test_large_blocks(self) -> None:
        self.check_heap("large blocks")

    def test_slabs(self) -> None:
        self.check_heap("slabs")

    def test_limit_that_the_program_sets(self) -> None:
        ours = said(LIBRARY, "limited", 1024)
        self.assertEqual(ours, said(None, "limited", 1024))
        self.assertTrue(all(ours.values()), ours)

    def test_locked(self) -> None:
        """Runs with the limit of the account that runs the tests."""
        ours, theirs = said(LIBRARY, "locked"), said(None, "locked")
        print(f"mlockall: {ours['locked_kib']} kB locked, {ours['tables_kib']} kB of page tables; on the C library "
              f"{theirs['locked_kib']} and {theirs['tables_kib']} kB")
        self.assertEqual([ours["locked"], ours["blocks"]], [theirs["locked"], theirs["blocks"]])
        self.assertLessEqual(ours["locked_kib"], theirs["locked_kib"] + (8 << 10))
        self.assertLessEqual(ours["tables_kib"], theirs["tables_kib"] + 64)

    @needs("gdb")
    def test_core_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sizes = [self.core_size(Path(folder), name, library) for name, library in (("ours", LIBRARY), ("theirs", None))]
        print(f"gcore: {sizes[0]} bytes, on the C library {sizes[1]}")
        self.assertLessEqual(sizes[0], sizes[1] + (16 << 20))

    @staticmethod
    def core_size(folder: Path, name: str, library: Path | None) -> int:
        """gdb starts the program itself, because the system may forbid it to attach to another process."""
        core = folder / name
        preload = [f"-ex=set environment LD_PRELOAD {library}"] if library else []
        shell = [f"ulimit -f {512 << 10}; exec gdb -nx -batch -ex 'set startup-with-shell off' \"$@\""]
        steps = ["-ex=break procinfo_vmsize_kib", "-ex=run", f"-ex=gcore {core}", "-ex=kill"]
        done = subprocess.run(["bash", "-c", *shell, "gdb", *preload, *steps, "--args", str(WORKER), "idle"],
                              env=preloaded(None), capture_output=True, text=True, timeout=500, check=False)
        if not core.exists():
            raise unittest.SkipTest(f"gdb wrote no core here: {done.stdout} {done.stderr}")
        return core.stat().st_size

    @needs("qemu-x86_64")
    def test_user_mode_emulation(self) -> None:
        sizes = [self.emulator_kib(library) for library in (LIBRARY, None)]
        print(f"qemu-x86_64 /bin/true: {sizes[0]} kB resident at most, on the C library {sizes[1]} kB")
        self.assertLessEqual(sizes[0], sizes[1] + (16 << 10))

    @staticmethod
    def emulator_kib(library: Path | None) -> int:
        guest = ["-E", f"LD_PRELOAD={library}"] if library else []
        child = subprocess.Popen(["qemu-x86_64", *guest, "/bin/true"], env=preloaded(None))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise AssertionError(f"the guest ended with {child.returncode}")
        return usage.ru_maxrss


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
