#!/usr/bin/env python3
"""Writes docs/PROGRAMS.md from the cases and from bench/results/programs.json, which holds the counts of each program's last run.

    table.py RUN.json...     takes over the numbers of these runs (which run.py --json wrote), then writes both files
    table.py                 writes the document again, after a case was added or removed
    table.py --check         reports whether the document is up to date
"""

import argparse
import json
import sys
from datetime import date
from pathlib import Path

from harness.case import load_cases
from run import smallest_set

ROOT = Path(__file__).resolve().parents[3]
FIGURES, DOCUMENT = ROOT / "bench/results/programs.json", ROOT / "docs/PROGRAMS.md"
KEPT = ("status", "checks", "processes", "served")
HEAD = """# Real programs

HAKMEM is tested with programs from Debian and from the Python package index, most of them with their own tests. Each program runs twice at the same time on the same
machine, once with HAKMEM preloaded and once on glibc. The two runs have separate scratch folders and ports. Each result with HAKMEM is compared with the result on glibc. If a
result differs, the case runs twice more on both. If the results on glibc are then equal, the difference counts as a mistake of HAKMEM. `tests/process/programs/run.py` runs the cases, which
are the files of `tests/process/programs/cases/`. `tests/process/programs/negative.py` shows that the harness detects a broken allocator.

```sh
make check                  # the set "quick" (among other tests)
make test                   # quick, and half of medium, chosen by the commit
make programs               # all of them: downloads some 5 GB, then hours
make programs ONLY=r,vim    # these
```

If a program is not available on the machine, it is skipped, and the reason is printed. `make programs` fails if fewer than 36 programs run. No run is bound to a processor. Both runs
share all processors. Servers listen on unused ports of the loopback interface. The harness ends each server by its process id.

The figures are those of the last full run of each program, kept in [programs.json](../bench/results/programs.json) by
`tests/process/programs/table.py`, which writes this page from them. *Served* is the number of calls in the reports of these processes. The report of a forked child includes
the calls of its parent before the fork. The number leaves out a child that outlives its parent's report, and the program's own heaps (those of SBCL, GHC and the browsers).

"""
SAYINGS = {"same": "same", "flaky": "same, except for checks that are flaky on glibc", "differs": "**differs**", "skipped": "skipped"}


def taken_over(figures, runs):
    """Returns the numbers, updated by these runs. A program that was skipped keeps its last ones."""
    for run in runs:
        for row in json.loads(Path(run).read_text())["programs"]:
            if row["status"] != "skipped":
                figures[row["name"]] = {**{key: row[key] for key in KEPT}, "flaky": len(row["differences"]),
                                        "date": date.fromtimestamp(Path(run).stat().st_mtime).isoformat()}
    return figures


def written(figures):
    """Returns the text of the document. It leaves out numbers of programs that no longer exist."""
    rows, checks, served, ran = [], 0, 0, 0
    for case in sorted(load_cases(), key=lambda c: c.name):
        last = figures.get(case.name)
        what = (case.__doc__ or "").strip().splitlines()[0].rstrip(".")
        what = what.partition(": ")[2] or what
        if last is None:
            rows.append(f"| {case.name} | {what} | {smallest_set(case)} | | | not run yet |")
            continue
        ran, checks, served = ran + 1, checks + last["checks"], served + last["served"]
        rows.append(f"| {case.name} | {what} | {smallest_set(case)} | {last['checks']:,} | {last['served']:,} | "
                    f"{SAYINGS.get(last['status'], last['status'])} ({last['date']}) |")
    table = ["| program | what it does | set | checks | served | beside glibc |", "|---|---|---|---:|---:|---|", *rows,
             f"| **{ran} programs** | | | **{checks:,}** | **{served:,}** | |"]
    return HEAD + "\n".join(table) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="summaries of run.py")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if given.check:
        if DOCUMENT.read_text() == written(figures):
            return 0
        print(f"{DOCUMENT.name} is not what the cases and {FIGURES.name} make: run tests/process/programs/table.py")
        return 1
    taken_over(figures, given.runs)
    FIGURES.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")
    DOCUMENT.write_text(written(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
