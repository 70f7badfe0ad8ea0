#!/usr/bin/env python3
"""Runs misuse programs on HAKMEM and compares how they end with expected.txt.

Usage: run_misuse.py --library libhakmem.so --programs FOLDER [--prefix test_misuse_] [--safe-free 1|strict | --trace-remote] [--debug] NAME...
Each NAME must end by SIGABRT and print the one line that the table promises, about the address that the program printed. With
HAKMEM_SAFE_FREE, HAKMEM must find each mistake before a flush. With 1, the call must have no effect, and the program must continue. With
HAKMEM_TRACE_REMOTE=1, the line also names the place where a free block was freed, and the stack of a free by another thread precedes it. With both
options, the stack of the wrong call follows the line, unless another stack precedes it.
"""
import argparse
import os
import re
import signal
import subprocess
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.txt")
CALLS = {"free": r"free\(\)", "flush": r"free\(\), found later", "delete": r"operator delete(?:\[\])?\(\)", "realloc": r"realloc\(\)",
         "usable_size": r"malloc_usable_size\(\)", "free_sized": r"free_sized\(\)", "delete_sized": r"sized operator delete\(\)"}
# The debug build always tracks remote frees.
TRACKED = r"(?:, (?:at home|in an outbox|among the remote frees of its slab)(?:, freed by thread \d+(?: at 0x[^:]+)?)?)?"
LINE = (r"hakmem: (?:{call}): (?:{what})" + TRACKED + r": address (0x[0-9a-f]+), class (?:\d+|-) bytes, owner (?:\d+|-)"
        r"(?:; HAKMEM_[A-Z_]+=\w+ [\w ]+)?\n")


def read_table(debug):
    """Reads expected.txt. The debug build finds mistakes with blocks of other threads at the call, not at a flush."""
    rows = {}
    with open(TABLE, encoding="ascii") as table:
        for line in table:
            if line.strip() and not line.startswith("#"):
                promise, _, settings = line.partition("@")
                name, call, what = promise.split(None, 2)
                calls = call.split("|") + (["free"] if debug else [])
                pattern = re.compile(LINE.format(call="|".join(CALLS[each] for each in calls), what=what.strip()))
                rows[name] = pattern, dict(setting.split("=") for setting in settings.split())
    return rows


# Matches a block that a thread of remote.h has freed.
PLACE = r", freed by thread \d+ at 0x[0-9a-f]+ free_elsewhere\+0x[0-9a-f]+ \(/.*\+0x[0-9a-f]+\): address"
STACK = re.compile(r"hakmem: remote free:\n  freed by thread \d+:\n(    #\d+ 0x[0-9a-f]+.*\n){2,}hakmem: `hakmem symbolize` .*\n")
CALL_STACK = re.compile(r"  found in a call of thread \d+:\n(    #\d+ 0x[0-9a-f]+.*\n){2,}hakmem: `hakmem symbolize` .*\n\Z")
AT_THE_CALL = re.compile(LINE.format(call="|".join(text for call, text in CALLS.items() if call != "flush"), what="[a-z0-9: ]+"))


def without_the_stack(errors, name, trace_remote):
    """Returns the line without the stack before or after it, and a complaint if a stack is missing, or None."""
    stack = STACK.match(errors) if trace_remote else None
    line = errors[stack.end():] if stack else errors
    placed = re.search(PLACE, line) and stack and " free_elsewhere+" in stack[0] and " free_and_stay+" in stack[0]
    if trace_remote and name.startswith("remote_") and not placed:
        return line, f"no place of the first free: {errors!r}"
    call = CALL_STACK.search(line)
    return line[:call.start()] if call else line, None if stack or call else f"no stack of the call: {errors!r}"


def complaints(program, library, safe_free, trace_remote, expected, settings):
    """Runs one program. Yields a sentence for each wrong result."""
    environment = {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": library, **settings}
    if safe_free:
        environment["HAKMEM_SAFE_FREE"] = safe_free
        expected = AT_THE_CALL
    if trace_remote:
        environment["HAKMEM_TRACE_REMOTE"] = "1"
        expected = AT_THE_CALL
    try:
        run = subprocess.run([program], env=environment, capture_output=True, timeout=500, check=False)
    except subprocess.TimeoutExpired:
        yield "did not end"
        return
    errors = run.stderr.decode(errors="replace")
    if trace_remote or safe_free:
        errors, missing = without_the_stack(errors, os.path.basename(program).removeprefix("test_misuse_"), trace_remote)
        if missing:
            yield missing
    goes_on = safe_free == "1"
    if (run.returncode < 0) if goes_on else (run.returncode != -signal.SIGABRT):
        yield f"ended with {run.returncode}"
    match = expected.fullmatch(errors)
    if not match:
        yield f"stderr is {errors!r}, expected {expected.pattern!r}"
        return
    stated = re.findall(r"^bad (0x[0-9a-f]+)$", run.stdout.decode(), re.MULTILINE)
    if stated != [match.group(1)]:
        yield f"the line names {match.group(1)}, the mistake was about {stated}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--prefix", default="test_misuse_")
    parser.add_argument("--safe-free", choices=("1", "strict"))
    parser.add_argument("--trace-remote", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    table = read_table(arguments.debug)
    failed = 0
    for name in arguments.names:
        if name not in table:
            found = ["is not in expected.txt"]
        else:
            program = os.path.join(arguments.programs, arguments.prefix + name)
            found = list(complaints(program, os.path.abspath(arguments.library), arguments.safe_free, arguments.trace_remote, *table[name]))
        print(f"{'FAILED' if found else 'ok':6} {name}")
        for complaint in found:
            print(f"       {complaint}")
        failed += bool(found)
    for name in sorted(set(table) - set(arguments.names)) if len(arguments.names) > 1 and not (arguments.safe_free or arguments.trace_remote) else []:
        print(f"FAILED {name} is in expected.txt and was not run")
        failed += 1
    print(f"misuse: {len(arguments.names)} programs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
