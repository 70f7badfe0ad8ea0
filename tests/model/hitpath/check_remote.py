#!/usr/bin/env python3
"""Counts the cost of a remote free, which must not depend on the order in which blocks of different owners are freed.
check_remote.py LIBRARY BENCH CLOCK

One thread frees the blocks of other threads in turn (bench_fanin). The script counts with callgrind the instructions after the hit path of free, and
measures the memory of the process before and after. While instructions are counted, no time passes (CLOCK), because otherwise an epoch would end in
some runs.
"""
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import callgrind
from check_loops import compiler
from locks import bound, over
from loops import steady

CANNOT_RUN = 77
OBJECTS = 40000
# Least number of blocks of each producer. The first 64 blocks of each of many threads are in slabs that the threads share (see registry.h), word by
# word.
EACH = 2000
MIB = 1024
# Sizes of the blocks of two producers: one class, neighboring classes, and classes 16 apart, at which owner n of one class collided with owner n + 1
# of the other class.
PAIRS = ("16", "16 32", "16 512", "16 576", "48 640", "64", "64 80", "64 768")
FANS = (2, 8, 64)
CROWD = 256  # some slabs of this many producers share an entry of the outbox, which has 512 entries
CROWDS = 3  # the least of three runs counts, because the addresses, which differ from run to run, decide which slabs share an entry
SIZES = (16, 64, 576, 4096)


@dataclass(frozen=True)
class Bench:
    library: str
    folder: str
    clock: str


def instructions(bench: Bench, producers: int, sizes: str) -> float:
    """Returns the instructions of one free after the hit path."""
    each = max(OBJECTS // producers, EACH)
    command = [f"{bench.folder}/bench_fanin", str(producers), str(each * producers), *sizes.split()]
    environment = {"LD_PRELOAD": f"{bench.library}:{bench.clock}", "HAKMEM_GOAL": "none"}
    found = callgrind.profile(command, environment, "--toggle-collect=hk_free_not_mine")
    return found.instructions(bench.library) / (each * producers)


def growth(bench: Bench, producers: int, size: int) -> float:
    """Returns the RSS after all blocks were freed, in percent of the RSS before."""
    objects = max(producers * 100, min(500_000, 256 * MIB * 1024 // size))
    command = [f"{bench.folder}/bench_fanin", "--json", str(producers), str(objects), str(size)]
    ended = subprocess.run(command, env={**os.environ, "LD_PRELOAD": bench.library}, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    return 100 * found["freed_rss_kib"] / found["built_rss_kib"]


def lock(name: str, bench: Bench) -> str:
    """Returns the name of the bound for the compiler of the library."""
    return name + ("_by_clang" if compiler(bench.library).startswith("clang") else "")


def pairs(bench: Bench) -> list[str]:
    found = {sizes: instructions(bench, 2, sizes) for sizes in PAIRS}
    print(", ".join(f"{sizes}: {cost:.1f}" for sizes, cost in found.items()))
    worst = max(found, key=found.__getitem__)
    said = over(lock("remote_free_instructions", bench), found[worst], f"instructions of a remote free, sizes {worst}")
    ratio = 100 * found[worst] / min(found.values())
    return said + over("remote_pairs_percent", ratio, f"sizes {worst}, percent of the best pair")


def fans(bench: Bench) -> list[str]:
    found = {producers: instructions(bench, producers, "64") for producers in FANS}
    print(", ".join(f"{producers} producers: {cost:.1f}" for producers, cost in found.items()))
    if min(found.values()) < 10:
        return ["fewer than 10 instructions are no free: the library was not counted"]
    crowd = min(instructions(bench, CROWD, "64") for _ in range(CROWDS))
    print(f"{CROWD} producers: {crowd:.1f}")
    worst = 100 * max(found.values()) / found[2]
    said = over("remote_fan_percent", worst, "instructions of a free, percent of those with two producers")
    return said + over(lock("remote_crowd_instructions", bench), crowd, f"instructions of a free with {CROWD} producers")


def memory(bench: Bench) -> list[str]:
    said = []
    for size in SIZES:
        found = {producers: growth(bench, producers, size) for producers in (*FANS, CROWD, 1024)}
        print(f"{size} B: " + ", ".join(f"{producers}: {percent:.0f} %" for producers, percent in found.items()))
        said += over("remote_memory_percent", max(found.values()), f"RSS when {size} B blocks are freed, percent of before")
    return said


def main(bench: Bench) -> int:
    if callgrind.VALGRIND is None:
        print(callgrind.MISSING)
        return CANNOT_RUN
    steady()
    said = pairs(bench) + fans(bench) + memory(bench)
    print("\n".join(said) if said else f"at most {bound(lock('remote_free_instructions', bench))} instructions")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(Bench(*sys.argv[1:4])))
