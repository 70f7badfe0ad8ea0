#!/usr/bin/env python3
"""Tests the harness with controls. It must report a broken allocator as broken, a correct one as correct, and an idle one as idle.

    negative.py BROKEN_ALLOC.so      the library built from broken_alloc.c
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLE = ("--only", "lua,perl", "--groups", "all,mro/basic_0,base/")
EXPECTED = (  # fault, more arguments, exit code, statuses of which one must be in the summary
    ("none", (), 0, ("same",)),
    ("none", ("--need-report",), 1, ("not served",)),
    ("fail", (), 1, ("differs",)),
    ("corrupt", (), 1, ("differs",)),
    ("overlap", (), 1, ("differs",)),
)


def judge(library, fault, more):
    """Runs the sample with the fault. Returns the exit code, the statuses of the programs that could run, and the output."""
    with tempfile.TemporaryDirectory(prefix="hakmem-negative-") as folder:
        summary = Path(folder) / "summary.json"
        done = subprocess.run([sys.executable, HERE / "run.py", "--lib", library, "--json", summary, "--logs", folder,
                               *SAMPLE, *more], env={**os.environ, "BROKEN_ALLOC": fault}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not summary.exists():
            sys.exit(f"no summary:\n{done.stdout}")
        programs = json.loads(summary.read_text())["programs"]
    return done.returncode, [p["status"] for p in programs if p["status"] != "skipped"], done.stdout


def main():
    wrong = 0
    for fault, more, code, statuses in EXPECTED:
        got, found, printed = judge(sys.argv[1], fault, more)
        if not found:
            print("no program of the sample can run here")
            return 77
        right = got == code and any(s in found for s in statuses)
        wrong += not right
        print(f"{'ok  ' if right else 'FAIL'} {fault} {' '.join(more)}: exit {got}, {', '.join(found)}", flush=True)
        if not right:
            print(printed)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
