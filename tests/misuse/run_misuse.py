#!/usr/bin/env python3
"""Runs misuse programs on HAKMEM and compares how they end with expected.txt.

Usage: run_misuse.py --library libhakmem.so --programs FOLDER [--prefix test_misuse_] NAME...
Each NAME must end by SIGABRT with the one line that the table promises, about the address that the program printed.
"""
import argparse
import os
import re
import signal
import subprocess
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.txt")
CALLS = {"free": r"free\(\)", "flush": r"free\(\), found at a flush", "delete": r"operator delete\(\)", "realloc": r"realloc\(\)",
         "usable_size": r"malloc_usable_size\(\)"}
LINE = r"hakmem: (?:{call}): (?:{what}): address (0x[0-9a-f]+), class (?:\d+|-) bytes, owner (?:\d+|-)\n"


def read_table():
    rows = {}
    with open(TABLE, encoding="ascii") as table:
        for line in table:
            if line.strip() and not line.startswith("#"):
                name, call, what = line.split(None, 2)
                rows[name] = re.compile(LINE.format(call="|".join(CALLS[each] for each in call.split("|")), what=what.strip()))
    return rows


def complaints(program, library, expected):
    """Runs one program; yields a sentence for each thing that is not as it must be."""
    environment = {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": library}
    try:
        run = subprocess.run([program], env=environment, capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        yield "did not end"
        return
    errors = run.stderr.decode(errors="replace")
    if run.returncode != -signal.SIGABRT:
        yield f"ended with {run.returncode}, not by SIGABRT"
    match = expected.fullmatch(errors)
    if not match:
        yield f"stderr is {errors!r}, expected {expected.pattern!r}"
        return
    stated = re.findall(r"^bad (0x[0-9a-f]+)$", run.stdout.decode(), re.MULTILINE)
    if stated != [match.group(1)]:
        yield f"the line names {match.group(1)}, the mistake was about {stated}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--prefix", default="test_misuse_")
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    table = read_table()
    failed = 0
    for name in arguments.names:
        if name not in table:
            found = ["is not in expected.txt"]
        else:
            program = os.path.join(arguments.programs, arguments.prefix + name)
            found = list(complaints(program, os.path.abspath(arguments.library), table[name]))
        print(f"{'FAILED' if found else 'ok':6} {name}")
        for complaint in found:
            print(f"       {complaint}")
        failed += bool(found)
    for name in sorted(set(table) - set(arguments.names)) if len(arguments.names) > 1 else []:
        print(f"FAILED {name} is in expected.txt and was not run")
        failed += 1
    print(f"misuse: {len(arguments.names)} programs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
