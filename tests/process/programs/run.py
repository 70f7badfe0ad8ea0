#!/usr/bin/env python3
"""Runs real programs on glibc's malloc and on a preloaded one and compares the outcome of every check.

    run.py                       runs every program, on build/libhakmem.so (make programs)
    run.py --set medium          runs those that take minutes and need few packages
    run.py --set medium --part 1/3    runs a third of them (make test runs one third for each commit)
    run.py --set quick           runs the few that are cheap (make check)
    run.py --only perl,git       runs only these
    run.py --lib SOME.so         tests another allocator, or the harness's own negative control

The exit code is 0 if all outcomes are the same, 1 if something fails that does not fail on glibc (or the test itself
is broken), and 77 if nothing could run here.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from harness.case import HERE, load_cases
from harness.compare import Comparison, Verdict
from harness.kit import Kit, default_cache
from harness.load import sweep
from harness.show import progress, show_verdict
from harness.side import Side

SKIPPED = 77
WITHIN = {"quick": ("quick",), "medium": ("quick", "medium"), "full": ("quick", "medium", "full")}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default=HERE.parents[2] / "build" / "libhakmem.so", help="what is preloaded")
    parser.add_argument("--set", choices=("quick", "medium", "full"), default="full")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts that take about the same time")
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--groups", default="", help="only groups whose name contains one of these, with commas")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="run so many programs beside each other")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer programs than this can run, unless a package server does not answer")
    parser.add_argument("--json", default="", help="where the summary goes")
    parser.add_argument("--logs", default="", help="where the outputs of differing checks go")
    parser.add_argument("--cache", default=default_cache(), help="sources and builds (default %(default)s)")
    parser.add_argument("--need-report", action="store_true", help="fail where no process reports served calls")
    parser.add_argument("--prepare", action="store_true", help="only fetch and build what the programs need")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folders")
    parser.add_argument("--list", action="store_true", help="name the programs and end")
    return parser.parse_args()


def private_copy(library, folder):
    """Makes a copy that other accounts can read, and that a build at the same time cannot replace."""
    folder.chmod(0o755)
    copy = folder / Path(library).name
    shutil.copyfile(library, copy)
    copy.chmod(0o755)
    return copy


def loaded(library):
    """Returns whether the loader accepts the library. With a bad one, every program would run on glibc, and be 'the same'."""
    maps = subprocess.run(["cat", "/proc/self/maps"], env={**os.environ, "LD_PRELOAD": str(library)},
                          capture_output=True, text=True, check=False)
    return str(library) in maps.stdout


class Options:
    """The options that a comparison needs."""

    def __init__(self, given, library):
        self.library, self.size, self.keep = library, given.set, given.keep
        self.quick = self.size == "quick"
        self.logs = given.logs or tempfile.mkdtemp(prefix="hakmem-program-logs-")
        self.need_report = given.need_report or b"hak_version" in Path(library).read_bytes()
        own = ("HAKMEM_", "BROKEN_ALLOC", "MIMALLOC_", "MALLOC_CONF")
        self.inherited = {k: v for k, v in os.environ.items() if k.startswith(own) and k != "HAKMEM_REPORT"}


def smallest_set(case):
    """Returns the smallest set that has the case."""
    if case.quick:
        return "quick"
    return "medium" if case.medium else "full"


def chosen_cases(given):
    cases = load_cases()
    names = [n for n in given.only.split(",") if n]
    unknown = set(names) - {c.name for c in cases}
    if unknown:
        sys.exit(f"run.py: no program called {', '.join(sorted(unknown))}")
    if names:
        return [c for c in cases if c.name in names]
    part, parts = (int(word) for word in given.part.split("/"))
    return shared_out([c for c in cases if smallest_set(c) in WITHIN[given.set]], given.set, parts)[part - 1]


def shared_out(cases, size, parts):
    """Divides the cases into parts that take about the same time, with the longest case first in each."""
    def seconds(case):
        return case.quick if size == "quick" else case.medium

    shares = [[] for _ in range(parts)]
    for case in sorted(cases, key=seconds, reverse=True):
        min(shares, key=lambda share: sum(map(seconds, share))).append(case)
    return shares


def limit_groups(case, words):
    """Restricts a case to some of its groups, to reproduce a failure."""
    every = case.groups
    case.groups = lambda quick: [g for g in every(quick) if any(w in g for w in words)]
    case.least, case.health = 1, 0.0


def summary(given, verdicts, seconds):
    programs = []
    for verdict in verdicts:
        row = asdict(verdict)
        for difference, shown in zip(verdict.differences, row["differences"]):
            shown["verdict"] = difference.verdict
        programs.append(row)
    ran = [v for v in verdicts if v.status != "skipped"]
    return {"library": str(given.lib), "set": given.set, "seconds": round(seconds, 1), "programs": programs,
            "unreachable": sum(v.unreachable for v in verdicts), "ran": len(ran), "checks": sum(v.checks for v in ran), "skipped": len(verdicts) - len(ran),
            "failed": [v.name for v in verdicts if v.failed], "served": sum(v.served for v in ran)}


def judge_all(cases, options, kit, out, at_once):
    def judge(case):
        try:
            verdict = Comparison(case, options, out).judge(kit)
        except OSError as trouble:
            verdict = Verdict(case.name, "unhealthy", f"the harness failed: {trouble}")
        show_verdict(out, verdict)
        return verdict

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(judge, cases))


def prepare_all(cases, size, kit, out):
    """Fetches and builds in advance, so that a later run with a time limit only has to run."""
    for case in cases:
        try:
            case.size = size
            kit.packages(case.packages)
            case.prepare(kit)
            out.line(f"{case.name:12} ready", "green")
        except Exception as reason:
            out.line(f"{case.name:12} cannot be had: {reason}", "yellow")


def abandon(number, _frame):
    """Handles a request to end: also ends the started processes, which have sessions of their own."""
    for process in list(Side.live.values()):
        Side.kill_session(process)
    os._exit(128 + number)


def main():
    given = arguments()
    cases = chosen_cases(given)
    if given.list:
        for case in cases:
            print(f"{case.name:12} {smallest_set(case):6} {(case.__doc__ or '').strip().splitlines()[0]}")
        return 0
    if given.groups:
        for case in cases:
            limit_groups(case, given.groups.split(","))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, abandon)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.pop("LD_PRELOAD", None)
    sweep()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hakmem-lib-") as folder, progress() as out:
        kit = Kit(given.cache, out.say)
        if given.prepare:
            prepare_all(cases, given.set, kit, out)
            return 0
        library = private_copy(given.lib, Path(folder))
        if not loaded(library):
            sys.exit(f"run.py: {given.lib} cannot be preloaded")
        options = Options(given, library)
        verdicts = judge_all(cases, options, kit, out, given.at_once)
        result = summary(given, verdicts, time.monotonic() - begun)
        failed = ", ".join(result["failed"])
        out.line(f"{result['ran']} programs, {result['checks']:,} checks, {result['skipped']} skipped, "
                 f"{result['seconds']:.0f} s: {'FAILED: ' + failed if failed else 'no difference that the library makes'}",
                 "red" if failed else "green")
    if given.json:
        Path(given.json).write_text(json.dumps(result, indent=1) + "\n")
    if failed:
        return 1
    if result["ran"] + result["unreachable"] < given.least:
        print(f"only {result['ran']} programs could run, {given.least} are asked for")
        return 1
    if result["unreachable"]:
        print(f"notice: {result['unreachable']} programs were left out, because a package server does not answer")
    return 0 if result["ran"] else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
