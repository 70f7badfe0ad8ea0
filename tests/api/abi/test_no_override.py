"""Checks a library that is built with HK_OVERRIDE=0. It must export only the hak_ names: no malloc, and no other entry point.

Usage: test_no_override.py LIBRARY"""
import subprocess
import sys

said = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
names = {line.split()[-1] for line in said.splitlines()}
others = sorted(name for name in names if not name.startswith("hak_"))
# Leaves out version nodes, and symbols that a sanitizer adds.
others = [name for name in others if not name.startswith(("__asan", "__tsan", "__ubsan", "__odr_asan", "___asan", "_init", "_fini"))]
if others or "hak_malloc" not in names:
    sys.exit(f"FAILED: exported are {others}")
print(f"{len(names)} names, all hak_: all right")
