#!/usr/bin/env python3
"""Measures what the start of a process costs, beside the C library's allocator.

python3 bench/starts.py [--runs 500] [--lib OTHER.so] [bash -c true]

Prints the medians of page faults and of processor time (user and system, as a ratio) without a library, with HAKMEM, and with a library without
code. The runs take turns, so that a busy machine slows all of them. The faults of each run are counted by the kernel. The child is made by vfork:
it has no page of this process.
"""
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parent.parent


def start(command: list[str], preload: str | None) -> tuple[int, float]:
    """The page faults of one run, and its seconds of processor time."""
    shell = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"} | ({"LD_PRELOAD": preload} if preload else {})
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], command, shell, file_actions=quiet)
    _, status, use = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command[0]} fails with {preload}")
    return use.ru_minflt, use.ru_utime + use.ru_stime


def compare(command: list[str], sides: dict[str, str | None], runs: int) -> None:
    seen: dict[str, list[tuple[int, float]]] = {side: [] for side in sides}
    for _ in range(runs):
        for side, preload in sides.items():
            seen[side].append(start(command, preload))
    medians = {side: [statistics.median(column) for column in zip(*rows)] for side, rows in seen.items()}
    base_faults, base_seconds = next(iter(medians.values()))
    print(f"{' '.join(command)}: {runs} runs each")
    for side, (faults, seconds) in medians.items():
        print(f"  {side:14} {faults:6.0f} page faults ({faults - base_faults:+.0f}), {seconds / base_seconds:.3f} of the processor time")


app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_interspersed_args": False})
def main(command: list[str] = typer.Argument(["/bin/true"]), lib: str = str(ROOT / "build/libhakmem.so"), runs: int = 500) -> None:
    """Measures what the start of a process costs, beside the C library's allocator."""
    program = shutil.which(command[0])
    if program is None:
        raise SystemExit(f"there is no {command[0]}")
    with tempfile.TemporaryDirectory() as folder:
        empty = f"{folder}/libempty.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", empty, "-x", "c", os.devnull], check=True)
        compare([program, *command[1:]], {"the C library": None, "HAKMEM": lib, "no code": empty}, runs)


if __name__ == "__main__":
    app()
