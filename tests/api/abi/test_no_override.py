"""test_no_override.py LIBRARY: a library that is built with HK_OVERRIDE=0 exports the hak_ names alone: no malloc, and no entry point beside malloc."""
import subprocess
import sys

said = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
names = {line.split()[-1] for line in said.splitlines()}
others = sorted(name for name in names if not name.startswith("hak_"))
# Version nodes, and what a sanitizer adds.
others = [name for name in others if not name.startswith(("__asan", "__tsan", "__ubsan", "__odr_asan", "___asan", "_init", "_fini"))]
if others or "hak_malloc" not in names:
    sys.exit(f"FAILED: exported are {others}")
print(f"{len(names)} names, all hak_: all right")
