"""Compares the costs of 1000 heaps with those of the process's heap. It counts the instructions of the whole program for the same work of
8 threads (work.c). CLOCK is a preloaded library that stops the time. Valgrind lets the threads run in turn (fair-sched), because otherwise the
count depends on what else the machine does, by 0.5 %. Without valgrind the exit code is 77.

Usage: check_costs.py WORK CLOCK"""
import re
import shutil
import subprocess
import sys

WORK, CLOCK = sys.argv[1:3]
REQUESTS = 48  # of each thread for each heap
BARS = {"known": 1.15, "plain": 1.15}  # known calls hak_heap_free, plain calls free


def instructions(*words: object) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes",
               "--soname-synonyms=somalloc=nouserintercepts", "--log-fd=2", WORK, *(str(word) for word in words)]
    ended = subprocess.run(command, capture_output=True, text=True, env={"LD_PRELOAD": CLOCK, "PATH": "/usr/bin:/bin"})
    found = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode != 0 or found is None:
        sys.exit(f"{command} ended with {ended.returncode}\n{ended.stderr}")
    return int(found[1])


def main() -> int:
    if shutil.which("valgrind") is None:
        print("no valgrind here (tools/packages/test.txt names it): skipped")
        return 77
    alone = instructions(0, 8, REQUESTS, "plain")
    failed = False
    for how, bar in BARS.items():
        ratio = instructions(1000, 8, REQUESTS, how) / alone
        failed |= ratio > bar
        print(f"{'MORE' if ratio > bar else 'as promised'}: 1000 heaps, 8 threads, {how}: {ratio:.3f} times the process's heap, at most {bar}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
