#!/usr/bin/env python3
"""Makes the mistakes that hardened_malloc's own tests check, under HAKMEM_HARDENED=1, and compares each end with hardened_malloc.txt.

check_hardened_malloc.py --bench build/bench --libraries build [--mode hakmem-hardened]
If the library does not have the mode, the script only reads the table and exits with 77, so that the test is skipped.
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
THEIRS = 55  # number of their programs
CHANCES = 3  # tries, because an address that is chosen at random may be the old one
SKIPPED = 77


def rows():
    """Yields name, case and expectation of each line."""
    known = {kind.name: kind for kind in mistakes.kinds()}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, size, way, expected = line.split(None, 4)
            case = mistakes.Case(known[kind], int(size), way)
            if case not in known[kind].cases():
                raise SystemExit(f"{name}: {case} is no case of {mistakes.TABLE.name}")
            yield name, case, expected


def is_met(expected, seen):
    """Returns whether one of several alternatives is met, for example "absent or says TEXT"."""
    return any(comes(one, seen) for one in expected.split(" or "))


def comes(expected, seen):
    word, _, text = expected.partition(" ")
    if word == "says":
        return seen.word == "message" and seen.signal == signal.SIGABRT and re.search(f"^hakmem: .*({text})", seen.said, re.MULTILINE)
    if word == "faults":  # a handler may report the fault before it ends the program
        return seen.when == "step" and seen.signal == signal.SIGSEGV
    return seen.word == "absent" and word == "absent"


def problem(program, environment, case, expected):
    """Returns what is wrong with the last of several runs, or an empty string if one run was right."""
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
