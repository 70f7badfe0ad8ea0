#!/usr/bin/env python3
"""Measures what the start of a process costs, beside the C library's allocator.

python3 bench/starts.py                            /bin/true, 500 runs
python3 bench/starts.py --runs 41 bash -c true     another program
python3 bench/starts.py --lib OTHER.so             another library

Prints the medians of page faults and of processor time (user and system, as a
ratio) without a library, with HAKMEM, and with a library without code. The runs
take turns, so that a busy machine slows all of them. The faults of each run are
counted by the kernel. The child is made by vfork: it has no page of this process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start(command: list[str], preload: str | None) -> tuple[int, float]:
    """The page faults of one run, and its seconds of processor time."""
    shell = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    if preload is not None:
        shell["LD_PRELOAD"] = preload
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], command, shell, file_actions=quiet)
    _, status, use = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command[0]} fails with {preload}")
    return use.ru_minflt, use.ru_utime + use.ru_stime


def empty_library(folder: str) -> str:
    library = f"{folder}/libempty.so"
    source = ["-x", "c", os.devnull]
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, *source], check=True)
    return library


def measure(command: list[str], sides: dict[str, str | None], runs: int) -> None:
    seen: dict[str, list[tuple[int, float]]] = {side: [] for side in sides}
    for _ in range(runs):
        for side, preload in sides.items():
            seen[side].append(start(command, preload))
    faults = {side: statistics.median(f for f, _ in rows) for side, rows in seen.items()}
    seconds = {side: statistics.median(s for _, s in rows) for side, rows in seen.items()}
    base = next(iter(sides))
    print(f"{' '.join(command)}: {runs} runs each")
    for side in sides:
        more, ratio = faults[side] - faults[base], seconds[side] / seconds[base]
        print(f"  {side:14} {faults[side]:6.0f} page faults ({more:+.0f}), {ratio:.3f} of the processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default=str(ROOT / "build/libhakmem.so"))
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    command = asked.command or ["/bin/true"]
    program = shutil.which(command[0])
    if program is None:
        raise SystemExit(f"there is no {command[0]}")
    with tempfile.TemporaryDirectory() as folder:
        sides = {"the C library": None, "HAKMEM": asked.lib, "no code": empty_library(folder)}
        measure([program, *command[1:]], sides, asked.runs)


if __name__ == "__main__":
    main()
