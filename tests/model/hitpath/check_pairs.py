#!/usr/bin/env python3
"""Counts the instructions of a malloc(64) and a free, including the jumps through the PLT.    check_pairs.py LIBRARY PAIRS

callgrind counts exactly. The difference between N and 2N pairs removes the instructions of the start. The caller's own instructions (the loop and its
calls) are not counted.
"""
import sys

import callgrind
from locks import bound, over

CANNOT_RUN = 77
PAIRS = 20000


def executed(library: str, program: str, pairs: int) -> int:
    """Returns the instructions in the library and in jumps through a PLT, which callgrind marks by name."""
    found = callgrind.profile([program, str(pairs)], {"LD_PRELOAD": library}, "--skip-plt=no")
    return found.instructions(library) + found.in_plt()


def instructions_a_pair(library: str, program: str) -> float:
    return (executed(library, program, 2 * PAIRS) - executed(library, program, PAIRS)) / PAIRS


def main(library: str, program: str) -> int:
    if callgrind.VALGRIND is None:
        print(callgrind.MISSING)
        return CANNOT_RUN
    found = instructions_a_pair(library, program)
    said = over("pair_instructions", found, "instructions of a malloc(64) and free")
    if found < 4:
        said.append(f"{found:g} instructions are no malloc and free: the library was not counted")
    print("\n".join(said) if said else f"pairs: {found:.2f} instructions each, PLT included; at most {bound('pair_instructions')}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
