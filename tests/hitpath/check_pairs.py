#!/usr/bin/env python3
"""Counts what a pair of malloc(64) and free executes, the jumps through the PLT included.    check_pairs.py LIBRARY PAIRS

callgrind counts exactly; the difference between N and 2N pairs leaves out the start. What the caller itself executes (the
loop, its calls) is not counted.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from locks import bound, over

CANNOT_RUN = 77
PAIRS = 20000


def costs(profile: str):
    """(object, function, instructions) of every line of cost that is a function's own."""
    code, function, inclusive = "", "", False
    for line in profile.splitlines():
        if line.startswith("ob="):
            code = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line.startswith("calls="):
            inclusive = True
        elif line[:1].isdigit():
            if not inclusive:
                yield code, function, int(line.split()[-1])
            inclusive = False


def executed(library: str, program: str, pairs: int) -> int:
    """Instructions in the library, and in jumps through a PLT, which callgrind names so."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        subprocess.run(["valgrind", "-q", "--tool=callgrind", "--skip-plt=no", "--compress-strings=no", "--compress-pos=no",
                        f"--callgrind-out-file={profile}", program, str(pairs)], check=True, timeout=50,
                       env={**os.environ, "LD_PRELOAD": library})
        lines = list(costs(profile.read_text()))
    return sum(cost for code, function, cost in lines if code == os.path.realpath(library) or function.endswith("[PLT]"))


def instructions_a_pair(library: str, program: str) -> float:
    return (executed(library, program, 2 * PAIRS) - executed(library, program, PAIRS)) / PAIRS


def main(library: str, program: str) -> int:
    if shutil.which("valgrind") is None:
        print("pairs: no valgrind here (tools/packages/test.txt names it): skipped")
        return CANNOT_RUN
    found = instructions_a_pair(library, program)
    said = over("pair_instructions", found, "instructions of a malloc(64) and free")
    if found < 4:
        said.append(f"{found:g} instructions are no malloc and free: the library was not counted")
    print("\n".join(said) if said else f"pairs: {found:.2f} instructions each, PLT included; at most {bound('pair_instructions')}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
