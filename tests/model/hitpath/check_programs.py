#!/usr/bin/env python3
"""Counts the costs of real programs on HAKMEM, and compares them with the costs in programs.json for the same compiler and version of the program.

check_programs.py [--build FOLDER] [--update] [PROGRAM...]
  --build    the folder that has libhakmem.so and bench/; the default is build/
  --update   writes the counts to programs.json; its diff shows the effect of a change
  PROGRAM    a part of the program's name; the default is all programs

"instructions" are those of the library itself. "instructions with libc" include the C library's functions that it calls, for example to copy in
realloc. The instructions of the whole process would be less exact: Lua's hashes depend on addresses, so the same work differs by 2 %. "page faults"
are those after the program's start: without huge pages, and with them if the kernel's mode is madvise and huge pages are available.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

import callgrind
import check_loops
from check_loops import CANNOT_RUN, ROOT, Numbers, check, command_of, compiler
from loops import huge_pages, steady

FILE = Path(__file__).resolve().parent / "programs.json"
INPUTS = ROOT / "bench/programs"
PYTHON = ("PYTHONMALLOC=malloc", "PYTHONHASHSEED=0")
BUILD = "g++ -O2 -std=c++17 -pthread {here}/service.cpp -o {work}/service"


@dataclass(frozen=True)
class Program:
    name: str
    command: str
    start: str  # the same program with nothing to do
    version: str  # the command that prints the version
    env: tuple[str, ...] = ()


PROGRAMS = [
    Program("python-json", "/usr/bin/python3 {here}/py_json.py 4", "/usr/bin/python3 -c pass", "/usr/bin/python3 --version", PYTHON),
    Program("python-dicts", "/usr/bin/python3 {here}/py_dicts.py 2", "/usr/bin/python3 -c pass", "/usr/bin/python3 --version", PYTHON),
    Program("perl", "/usr/bin/perl {here}/report.pl 5", "/usr/bin/perl -e 1", "/usr/bin/perl --version", ("PERL_HASH_SEED=0",)),
    Program("ruby", "/usr/bin/ruby {here}/text.rb 2", "/usr/bin/ruby -e 1", "/usr/bin/ruby --version"),
    Program("lua", "/usr/bin/lua5.4 {here}/tables.lua 6", "/usr/bin/lua5.4 -", "/usr/bin/lua5.4 -v"),
    Program("service", "{work}/service 6 in-order", "{work}/service 0", "/usr/bin/g++ --version"),
]


@dataclass(frozen=True)
class Place:
    """Copies the preloaded libraries and the programs' inputs to paths of constant length. The length of a path moves the stack, with whose
    address Lua hashes strings, and changes the classes of the strings in which Python keeps it: 2,972 to 3,166 page faults of python-json."""

    build: Path
    work: Path

    def __post_init__(self) -> None:
        for file in (self.library, self.clock):
            shutil.copy(self.build / ("bench" if file == self.clock else "") / Path(file).name, file)
        shutil.copytree(INPUTS, self.inputs)

    @property
    def library(self) -> str:
        return str(self.work / "libhakmem.so")

    @property
    def clock(self) -> str:
        return str(self.work / "libslow_clock.so")

    @property
    def inputs(self) -> Path:
        return self.work / "inputs"

    def line(self, command: str) -> list[str]:
        return command.format(here=self.inputs, work=self.work).split()

    def environment(self, program: Program) -> dict[str, str]:
        """Returns the environment. Time passes only with calls of the clock. The control group is not read, because it differs between machines."""
        own = dict(setting.split("=") for setting in program.env)
        return own | {"LD_PRELOAD": f"{self.library}:{self.clock}", "HAKMEM_GOAL": "none", "LC_ALL": "C", "HOME": "/"}

    def faults(self, program: Program, command: str) -> int:
        settings = [word for item in self.environment(program).items() for word in ("--env", "=".join(item))]
        line = [self.build / "bench/launch", *settings, "--", *self.line(command)]
        outcome = subprocess.run(line, check=True, capture_output=True, text=True, timeout=500, env={}, cwd="/",
                                 stdin=subprocess.DEVNULL)
        said = json.loads(outcome.stdout.splitlines()[-1])
        if said["status"] != 0 or said["signal"] or "cannot be preloaded" in outcome.stderr:
            raise SystemExit(f"programs: {program.name} failed: {outcome.stderr}")
        return said["minor_faults"]

    def faults_beyond_start(self, program: Program) -> int:
        """Returns the page faults without those of the start, which depend on how much of a file the kernel maps at one fault."""
        tries = range(3)
        return median_low(self.faults(program, program.command) for _ in tries) - self.faults(program, program.start)

    def instructions(self, program: Program) -> Numbers:
        profile = callgrind.profile(self.line(program.command), self.environment(program))
        return {"instructions": profile.instructions(self.library), "instructions_with_libc": profile.instructions_with_libc(self.library)}

    def kinds_of_faults(self) -> Iterator[str]:
        """Yields the kinds of page faults that can be counted. While the caller handles one kind, programs that it starts get pages of this kind."""
        if not steady():
            print("notice: page faults are not counted: the system does not let addresses be fixed")
            return
        yield "page_faults"
        if huge_pages(True) and self.gives_huge_pages():
            yield "page_faults_with_huge_pages"
        else:
            print("notice: faults with huge pages are not counted: the kernel has none, or not for those that ask alone")

    def gives_huge_pages(self) -> bool:
        mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
        line = [self.build / "bench/paging_cost"]
        if not mode.exists() or "[madvise]" not in mode.read_text():
            return False
        return json.loads(subprocess.run(line, check=True, capture_output=True, timeout=500).stdout)["huge_fault_ns"] > 0


def version(program: Program) -> str:
    """Returns name and version, for example perl 5.36.0, or an empty string if the program is not installed."""
    line = program.version.split()
    if not shutil.which(line[0]):
        return ""
    said = subprocess.run(line, capture_output=True, text=True, timeout=500)
    found = re.search(r"\d+\.\d+[.\d]*(?:p\d+)?", said.stdout + said.stderr)
    return f"{program.name}, {Path(line[0]).name} {found[0]}" if found else ""


def chosen(parts: list[str]) -> dict[str, Program]:
    """Returns the programs by name and version."""
    asked = [p for p in PROGRAMS if not parts or any(part in p.name for part in parts)]
    named = {version(p): p for p in asked}
    for program in asked:
        if program not in named.values():
            print(f"notice: {program.name}: not here")
    return {name: p for name, p in named.items() if name}


def measured(build: Path, programs: dict[str, Program]) -> dict[str, Numbers]:
    with tempfile.TemporaryDirectory(prefix="hakmem-programs-", dir="/tmp") as work, ThreadPoolExecutor(os.cpu_count()) as pool:
        place = Place(build, Path(work))
        subprocess.run(place.line(BUILD), check=True, timeout=500)
        found = dict(zip(programs, pool.map(place.instructions, programs.values())))
        for what in place.kinds_of_faults():
            for name, faults in zip(programs, pool.map(place.faults_beyond_start, programs.values())):
                found[name][what] = faults
    return found


def main() -> int:
    asked = check_loops.arguments(__doc__)
    if callgrind.VALGRIND is None:
        print(callgrind.MISSING)
        return CANNOT_RUN
    build, programs = asked.build.resolve(), chosen(asked.part)
    name, locks = compiler(str(build / "libhakmem.so")), json.loads(FILE.read_text())
    locked = locks.get(name, {})
    if asked.update:
        locks[name] = dict(sorted((locked | measured(build, programs)).items()))
        FILE.write_text(check_loops.written(locks))
        return 0
    for unknown in programs.keys() - locked.keys():
        print(f"notice: nothing is locked for {unknown} and {name} (--update does it)")
    known = {key: p for key, p in programs.items() if key in locked}
    if not known:
        print("programs: skipped")
        return CANNOT_RUN
    return check(measured(build, known), locked, command_of(__file__, build))


if __name__ == "__main__":
    sys.exit(main())
