#!/usr/bin/env python3
"""Runs a program that makes mistakes on libhakmem-hardened.so, and checks how each mistake ends.

Usage: check_mistakes.py LIBRARY PROGRAM LEAST
For each mistake, the program writes to stderr: "case NAME", then the output of the child that made the mistake, then "end SIGNAL EXPECTED".
EXPECTED is one of three forms. A line means that the child must print this line and end with SIGABRT. "any of PREFIX" means that it must print one
one line with this prefix and end with SIGABRT, or end with SIGSEGV if nothing is mapped there. "nothing" means no output and no signal.
LEAST is the smallest number of mistakes that the program must make.
"""
import os
import re
import signal
import subprocess
import sys
from collections import Counter

CASE = re.compile(r"case (.*)\n((?:.*\n)*?)end (\d+) (.*)\n")


def complaint(said, number, expected):
    """Returns a sentence that says what is wrong, or None if the child ended as expected."""
    prefix = expected.partition("any of ")[2]
    if expected == "nothing":
        good = number == 0 and not said
    elif prefix:
        good = (number == signal.SIGABRT and said.startswith(prefix) and said.count("\n") == 1) or (number == signal.SIGSEGV and not said)
    else:
        good = number == signal.SIGABRT and said == expected + "\n"
    return None if good else f"ended with signal {number}, said {said!r}, expected {expected!r}"


def main():
    library, program, least = sys.argv[1], sys.argv[2], int(sys.argv[3])
    environment = {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": library, "HAKMEM_HARDENED": "0"}
    run = subprocess.run([program], env=environment, stderr=subprocess.PIPE, timeout=500, check=False)
    text = run.stderr.decode(errors="replace")
    found, failed = CASE.findall(text), 0
    for name, said, number, expected in found:
        why = complaint(said, int(number), expected)
        if why:
            failed += 1
            print(f"FAILED {name}: {why}")
    left = CASE.sub("", text)
    if left or run.returncode != 0:
        failed += 1
        print(f"FAILED the program ended with {run.returncode} and said {left[:400]!r}")
    if len(found) < least:
        failed += 1
        print(f"FAILED {len(found)} mistakes were made, at least {least} are meant")
    ends = Counter(signal.Signals(int(number)).name if number != "0" else "no signal" for _, _, number, _ in found)
    print(f"checked: {len(found)} mistakes, {dict(ends)}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
