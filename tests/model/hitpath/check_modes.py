#!/usr/bin/env python3
"""Checks the costs in each kernel mode of huge pages: little memory if the kernel gives huge pages unasked, and no costs if it gives none.

check_modes.py LIBRARY BENCH_FOLDER     sets each mode for some seconds and restores the machine's mode; prints a line and skips the test if it may
                                        not set a mode
"""
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from loops import huge_pages, steady

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import thp  # noqa: E402

CANNOT_RUN = 77
# The faults of 300 threads differ by up to 2.4 % between runs. A median of three would exceed the bound of 1 % once in some hundred checks.
TRIES = 15
# The peak that the kernel reports may be up to 64 pages too low for each thread.
SPARE_KIB = 300
FAULTS_MORE, SPARE_FAULTS = 1.01, 4


@dataclass(frozen=True)
class Case:
    name: str
    command: str
    always: float  # largest allowed factor compared with the memory in mode madvise


CASES = [
    Case("idle", "bench_idle", 1.15),
    Case("small heap", "bench_random_mixed 1M 400 1", 1.15),
    Case("heap of 2 MiB", "bench_random_mixed 500k 8192 1", 1.15),
    Case("heap of 32 MiB", "bench_growth 300k 100", 1.15),
    Case("300 threads", "bench_threads idle 300", 1.15),
    Case("8 to 32 KiB", "bench_mid_large_mt 2 300k 256", 1.15),
]


@dataclass(frozen=True)
class Took:
    kib: int
    faults: int


def took(library: str, folder: Path, case: Case) -> Took:
    line = [folder / "launch", "--env", f"LD_PRELOAD={library}", "--env", "HAKMEM_GOAL=none", "--"]
    runs = []
    for _ in range(TRIES):
        outcome = subprocess.run([*line, *f"{folder}/{case.command}".split()], check=True, capture_output=True, text=True,
                                 timeout=500, env={})
        said = json.loads(outcome.stdout.splitlines()[-1])
        if said["status"] != 0 or said["signal"] or "cannot be preloaded" in outcome.stderr:
            raise SystemExit(f"modes: {case.name} failed: {outcome.stderr}")
        runs.append(said)
    return Took(*(median_low(run[what] for run in runs) for what in ("max_rss_kib", "minor_faults")))


def measured(library: str, folder: Path) -> "dict[str, dict[str, Took]] | None":
    """Returns the costs by mode, and the costs of programs that get no huge pages. Returns None if a mode cannot be set."""
    found = {}
    for mode in thp.MODES:
        with thp.mode(mode) as problem:
            if problem:
                print(problem)
                return None
            found[mode] = {case.name: took(library, folder, case) for case in CASES}
    huge_pages(False)
    found["refused"] = {case.name: took(library, folder, case) for case in CASES}
    return found


def judged(case: Case, by_mode: dict[str, Took]) -> list[str]:
    usual, said = by_mode["madvise"], []
    for mode, times in (("always", case.always), ("never", 1.05)):
        most = usual.kib * times + SPARE_KIB
        if by_mode[mode].kib > most:
            said.append(f"{case.name}: {by_mode[mode].kib} KiB with {mode}, {usual.kib} with madvise: {most:.0f} at most")
    most = by_mode["refused"].faults * FAULTS_MORE + SPARE_FAULTS
    if by_mode["never"].faults > most:
        said.append(f"{case.name}: {by_mode['never'].faults} faults with never, {most:.0f} at most, as without huge pages")
    return said


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if thp.current() is None:
        print("modes: this kernel has no huge pages: skipped")
        return CANNOT_RUN
    steady()
    huge_pages(True)
    found = measured(sys.argv[1], Path(sys.argv[2]))
    if found is None:
        return CANNOT_RUN
    said = []
    for case in CASES:
        by_mode = {mode: taken[case.name] for mode, taken in found.items()}
        print(f"{case.name}: " + ", ".join(f"{mode} {t.kib} KiB, {t.faults} faults" for mode, t in by_mode.items()))
        said += judged(case, by_mode)
    print("\n".join(said) or f"huge pages: the mode is {thp.current()} again")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
