#!/usr/bin/env python3
"""Runs what hardened_malloc's own tests check, under HAKMEM_HARDENED=1, and compares each end with hardened_malloc.txt.

check_hardened_malloc.py --bench build/bench --libraries build [--mode hakmem-hardened]
A library without that mode: the table is read, and the test is skipped (77).
"""
import argparse
import re
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench"))
import guard_peers  # noqa: E402
import mistakes  # noqa: E402

TABLE = HERE / "hardened_malloc.txt"
THEIRS = 55  # programs
CHANCES = 3  # a place that is chosen at random may be the old one
SKIPPED = 77


def rows():
    """Name, case and expectation of each line."""
    known = {kind.name: kind for kind in mistakes.kinds()}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, size, way, expected = line.split(None, 4)
            case = mistakes.Case(known[kind], int(size), way)
            if case not in known[kind].cases():
                raise SystemExit(f"{name}: {case} is no case of {mistakes.TABLE.name}")
            yield name, case, expected


def is_met(expected, seen):
    """By one of several: "absent or says TEXT"."""
    return any(comes(one, seen) for one in expected.split(" or "))


def comes(expected, seen):
    word, _, text = expected.partition(" ")
    if word == "says":
        return seen.word == "message" and seen.signal == signal.SIGABRT and re.search(f"^hakmem: .*({text})", seen.said, re.MULTILINE)
    if word == "faults":  # a handler may say where first
        return seen.when == "step" and seen.signal == signal.SIGSEGV
    return seen.word == "absent" and word == "absent"


def problem(program, environment, case, expected):
    """What is wrong with the last of some runs; empty: one was as it must be."""
    for _ in range(CHANCES):
        seen = mistakes.run(program, case, environment, sound=expected == "right")
        if expected == "right":
            wrong = mistakes.complaint_when_sound(case.kind, seen)
        else:
            wrong = "" if is_met(expected, seen) else f"{seen.word} {seen.said}"
        if not wrong:
            break
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--libraries", type=Path, required=True)
    parser.add_argument("--mode", default="hakmem-hardened")
    arguments = parser.parse_args()
    table = list(rows())
    if len({name for name, *_ in table}) != THEIRS:
        raise SystemExit(f"{TABLE.name} has {len(table)} programs, not {THEIRS}")
    found, unknown = guard_peers.find_modes(arguments.libraries, arguments.bench / "bench_idle")
    mode = next((form.allocator for form in found if form.allocator.name == arguments.mode), None)
    if mode is None:
        print("\n".join(unknown))
        return SKIPPED
    failed = 0
    for name, case, expected in table:
        wrong = problem(arguments.bench / "mistake", mistakes.environment(mode.environment()), case, expected)
        if wrong:
            failed += 1
            print(f"FAILED {name} ({case}): expected {expected}, seen: {wrong}")
    print(f"hardened_malloc's {len(table)} programs under {arguments.mode}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
