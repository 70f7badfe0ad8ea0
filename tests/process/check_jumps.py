#!/usr/bin/env python3
"""Checks tail calls. The function that is called last must see the caller's return address.

Usage: check_jumps.py LIBRARY FUNCTION...
Each FUNCTION's only indirect branch must be a jump, not a call. (If its stack frame were still there, it would crash.) The control is a
similar function that is compiled without sibling calls, and there the script must find a call.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONTROL = "void *control(void *(*f)(const char *, int), const char *a, int b) { return f(a, b); }\n"


def branches(library, function):
    """Returns the indirect calls and jumps in the disassembly of one function."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", library], check=True,
                          capture_output=True, text=True).stdout
    if f"<{function}>:" not in text:
        sys.exit(f"jumps: no code of {function} in {library}")
    return re.findall(r"^\s+[0-9a-f]+:\s+(?:bnd |notrack )*(call|jmp)q?\s+\*(?!.*dlsym)", text, re.MULTILINE)


def control():
    """Returns the branches of a function whose last call is not a jump."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "control.c"), Path(folder, "control.so")
        source.write_text(CONTROL)
        subprocess.run(["cc", "-O2", "-fno-optimize-sibling-calls", "-shared", "-fPIC", source, "-o", library], check=True)
        return branches(library, "control")


def main():
    library, functions = sys.argv[1], sys.argv[2:]
    if control() != ["call"]:
        sys.exit("jumps: the control's call was not found")
    failed = [f"{name}: {found}" for name in functions if (found := branches(library, name)) != ["jmp"]]
    print("\n".join(failed) or f"jumps: {len(functions)} functions end with one")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
