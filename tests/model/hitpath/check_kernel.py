#!/usr/bin/env python3
"""Counts what a program in a steady state costs in the kernel: page faults compared with glibc, without huge pages, and the system calls of N and of
2N steps. check_kernel.py LIBRARY BENCH_FOLDER CLOCK
  CLOCK is a preloaded library in which each look at the clock takes 1 ms, so that the time does not depend on the machine
"""
import json
import subprocess
import sys
from pathlib import Path

from locks import over
from loops import steady

STEPS, BLOCKS, SEED = 1000000, 400, 1
TRIES = 3  # page faults may be more if the page cache was just emptied, so the least of three counts is used


def launched(folder: Path, steps: int, library: str = "", *more: str) -> dict:
    preload = ["--env", f"LD_PRELOAD={library}"] if library else []
    command = [folder / "launch", *more, *preload, "--", folder / "bench_random_mixed", str(steps), str(BLOCKS), str(SEED)]
    outcome = subprocess.run(command, check=True, capture_output=True, text=True, timeout=500)
    said = json.loads(outcome.stdout.splitlines()[-1])
    if said["status"] != 0 or "cannot be preloaded" in outcome.stderr:
        raise SystemExit(f"kernel: {command} failed: {outcome.stderr}")
    return said


def measured(folder: Path, library: str, clock: str) -> dict:
    def faults(preload: str = "") -> int:
        return min(launched(folder, STEPS, preload)["minor_faults"] for _ in range(TRIES))

    def calls(steps: int) -> int:
        return launched(folder, steps, f"{library}:{clock}", "--env", "CLOCK_STEP_MS=1", "--syscalls")["syscalls"]
    return {"faults": faults(library), "glibc": faults(), "calls": calls(STEPS), "calls of twice the steps": calls(2 * STEPS)}


def judged(found: dict) -> list[str]:
    more_faults = found["faults"] - found["glibc"]
    more_calls = found["calls of twice the steps"] - found["calls"]
    said = (over("faults", found["faults"], "page faults") + over("faults_over_glibc", more_faults, "page faults beyond glibc's")
            + over("more_calls_for_more_steps", more_calls, f"more system calls for {STEPS} more steps"))
    return said + ["no system call was counted"] * (found["calls"] == 0)


def main(library: str, folder: str, clock: str) -> int:
    steady()
    found = measured(Path(folder), library, clock)
    said = judged(found)
    print("kernel:", ", ".join(f"{what} {number}" for what, number in found.items()))
    print("\n".join(said) if said else "kernel: within the bounds of locks.json")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
