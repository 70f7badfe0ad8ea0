#!/usr/bin/env python3
"""Checks that HAKMEM's own copies bypass the checks: no code of the library may call the memcpy, memmove and memset that the library exports.

Usage: check_own_copies.py LIBRARY
As a control, it also checks that the library calls the functions that replace these three.
"""
import re
import subprocess
import sys
from collections import Counter

PLAIN, CHECKED = ("hk_plain_move", "hk_plain_set"), ("memcpy", "memmove", "memset")


def main():
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    calls = Counter(re.findall(r"\b(?:call|jmp)q?\s+[0-9a-f]+ <(\w+)(?:@plt)?>", text))
    said = [f"{calls[name]} calls of {name}" for name in CHECKED if calls[name]] + [f"no call of {name}" for name in PLAIN if not calls[name]]
    print("\n".join(said) or f"checked: {sum(calls[name] for name in PLAIN)} copies of HAKMEM's own, none of them checked")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
