#!/usr/bin/env python3
"""Counts the costs of whole benchmark loops, and compares them with the costs for the same compiler in loops.json.

check_loops.py [--build FOLDER] [--update] [LOOP...]
  --build   the folder that has libhakmem.so, bench/ and tests/; the default is build/
  --update  writes the counts to loops.json; its diff shows the effect of a change
  LOOP      a part of the loop's name; the default is all loops
"""
import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import callgrind
from loops import LOOPS, Bench, steady

CANNOT_RUN = 77
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FILE = HERE / "loops.json"
MORE = 1.01
# The number of huge pages that the system can provide differs between runs.
MORE_BY_KIND = {"page_faults_with_huge_pages": 1.25}
# One more line of code can fill the last page of the library and begin another.
SPARE = {"page_faults": 2, "page_faults_with_huge_pages": 2}

Numbers = dict[str, int]


def compiler(library: str) -> str:
    """Returns the compiler, for example gcc 12.2. If clang compiled a library, the C library's start files in it name gcc too, so clang is looked for
    first."""
    command = ["readelf", "-p", ".comment", library]
    notes = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name, known_by in (("clang", r"clang version "), ("gcc", r"GCC: \(.*\) ")):
        if found := re.search(known_by + r"(\d+\.\d+)", notes):
            return f"{name} {found[1]}"
    return "an unknown compiler"


def judged(name: str, found: Numbers, locked: Numbers) -> tuple[list[str], list[str]]:
    """Returns the costs that are above the locked ones, and those that are below them."""
    worse, better = [], []
    if not locked:
        worse.append(f"{name}: not in loops.json")
    for what in found.keys() & locked.keys():
        more, spare = MORE_BY_KIND.get(what, MORE), SPARE.get(what, 0)
        said = f"{name}: {what.replace('_', ' ')}: {found[what]:,}, locked {locked[what]:,}"
        if found[what] > locked[what] * more + spare:
            worse.append(said)
        elif found[what] < locked[what] / more - spare:
            better.append(said)
    if found["instructions"] == 0:
        worse.append(f"{name}: no instruction was counted")
    return worse, better


def compared(counts: dict[str, Numbers], locked: dict[str, Numbers]) -> tuple[int, int]:
    """Prints at least one line for each loop. Returns how many numbers are worse, and how many are better."""
    all_worse = all_better = 0
    for name, found in counts.items():
        worse, better = judged(name, found, locked.get(name, {}))
        numbers = (f"{number:,} {what.replace('_', ' ')}" for what, number in found.items())
        for said in worse or better or [f"{name}: " + ", ".join(numbers)]:
            print("MORE: " if worse else "less: " if better else "as locked: ", said, sep="")
        all_worse, all_better = all_worse + len(worse), all_better + len(better)
    return all_worse, all_better


def written(locks: dict[str, dict[str, Numbers]]) -> str:
    """Returns JSON with one loop in each line, so that a diff is easy to read."""
    parts = []
    for name in sorted(locks):
        loops = locks[name].items()
        lines = (f"    {json.dumps(loop)}: {json.dumps(costs)}" for loop, costs in loops)
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def arguments(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--update", action="store_true", help="write the numbers anew")
    parser.add_argument("part", nargs="*", help="a part of its name; default: all")
    return parser.parse_args()


def counted(bench: Bench, parts: list[str]) -> dict[str, Numbers]:
    chosen = [loop for loop in LOOPS if not parts or any(part in loop.name for part in parts)]
    with_faults = steady()
    if not with_faults:
        print("notice: page faults are not counted: the system does not let addresses be fixed")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda loop: bench.measured(loop, with_faults), chosen))
    return {loop.name: numbers for loop, numbers in zip(chosen, found)}


def update(locks: dict[str, dict[str, Numbers]], name: str, counts: dict[str, Numbers]) -> None:
    """Writes the counts. Removes loops that do not exist any more."""
    known = locks.get(name, {}) | counts
    locks[name] = {loop.name: known[loop.name] for loop in LOOPS if loop.name in known}
    FILE.write_text(written(locks))


def command_of(script: str, build: Path) -> str:
    return f"python3 {Path(script).resolve().relative_to(ROOT)} --build {os.path.relpath(build, ROOT)} --update"


def check(counts: dict[str, Numbers], locked: dict[str, Numbers], command: str) -> int:
    """Returns the exit code. `command` is the command that locks the new numbers."""
    worse, better = compared(counts, locked)
    if worse:
        print(f"{worse} costs grew by more than 1 %. If it is meant: {command}")
    if better:
        print(f"notice: {better} costs shrank by more than 1 %; to lock that: {command}")
    return 1 if worse else 0


def main() -> int:
    asked = arguments(__doc__)
    if callgrind.VALGRIND is None:
        print(callgrind.MISSING)
        return CANNOT_RUN
    build = asked.build.resolve()
    clock, present = (str(build / f"tests/{name}.so") for name in ("support/libclock", "hitpath/libpresent"))
    bench = Bench(str(build / "libhakmem.so"), build / "bench", clock, present)
    name, locks = compiler(bench.library), json.loads(FILE.read_text())
    if asked.update:
        update(locks, name, counted(bench, asked.part))
        return 0
    if name not in locks:
        print(f"loops: nothing is locked for {name} (--update does it): skipped")
        return CANNOT_RUN
    return check(counted(bench, asked.part), locks[name], command_of(__file__, build))


if __name__ == "__main__":
    sys.exit(main())
