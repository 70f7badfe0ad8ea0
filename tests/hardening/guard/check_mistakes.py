#!/usr/bin/env python3
"""Checks that HAKMEM's modes still catch what they caught: expected/MODE.json lists the cases, and a case that is not caught any more fails.

check_mistakes.py --bench build/bench --libraries build              checks each mode that has a list
check_mistakes.py ... --update hakmem-strict                         writes a mode's list: the cases that are caught in ten of ten runs

bench/guard_peers.py has the modes. A mode is checked as soon as it has a list. The list of the default mode has only mistakes that the library
reports, and not mistakes that have no effect because of a lucky layout. Each program also runs in its correct form, for which no mode may complain.
"""
import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench"))
import guard_peers  # noqa: E402
import mistakes  # noqa: E402

LISTS = HERE / "expected"
DEFAULT = "hakmem"
TOLD = ("message", "ended")
TRIES = 10  # runs of each case in an update
CHANCES = 3  # runs of each case in a test, because the places of mappings are random
TRIED_AGAIN = 40


def forms(arguments):
    found, _ = guard_peers.find_modes(arguments.libraries, arguments.bench / "bench_idle")
    return {form.allocator.name: form.allocator for form in found}


def every_case():
    return [case for kind in mistakes.kinds() for case in kind.cases()]


def locked(listed):
    """Returns the cases of a list, and complaints about those that do not exist any more."""
    by_words = {str(case): case for case in every_case()}
    wanted = [f"{kind} {size} {way}" for kind, ways in listed.items() for way, sizes in ways.items() for size in sizes]
    return [by_words[words] for words in wanted if words in by_words], [f"{words}: no such case" for words in wanted if words not in by_words]


def lost(program, cases, environment):
    """Returns the cases that are not caught, each with its last outcome."""
    seen = mistakes.run_all(program, cases, environment)
    for _ in range(CHANCES - 1):
        again = [case for case, outcomes in seen.items() if not outcomes[-1].caught]
        seen.update(mistakes.run_all(program, again[:TRIED_AGAIN], environment))
    return [f"{case}: {outcomes[-1].word}" for case, outcomes in seen.items() if not outcomes[-1].caught]


def is_right_twin(case):
    """Returns whether the case has its own correct form. Other ways differ only in the wrong step, except for blocks that another thread frees."""
    return case.way == "once" or (case.way == "thread" and case.kind.family in ("free", "forms"))


def complaints_when_sound(program, environment):
    seen = mistakes.run_all(program, filter(is_right_twin, every_case()), environment, sound=True)
    for case, outcomes in seen.items():
        complaint = mistakes.complaint_when_sound(case.kind, outcomes[0])
        if complaint:
            yield f"{case}: without the mistake: {complaint}"


def check(arguments, name, allocator):
    program, environment = arguments.bench / "mistake", mistakes.environment(allocator.environment())
    cases, problems = locked(json.loads((LISTS / f"{name}.json").read_text()))
    problems += lost(program, cases, environment)
    problems += complaints_when_sound(program, environment)
    print(f"{name}: {len(cases)} cases are locked, {len(problems)} complaints")
    for problem in problems:
        print(f"  FAILED {problem}")
    return bool(problems) or not cases


def is_locked(name, case, outcomes):
    if name == DEFAULT and case.kind.family != "use":
        return all(outcome.word in TOLD for outcome in outcomes)
    return all(outcome.caught for outcome in outcomes)


def as_text(caught):
    """Returns the list as JSON, with one kind in each line."""
    rows = (f'  "{kind}": {json.dumps(ways)}' for kind, ways in caught.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def update(arguments, name, allocator):
    seen = mistakes.run_all(arguments.bench / "mistake", every_case(), mistakes.environment(allocator.environment()), TRIES)
    caught = {}
    for case, outcomes in seen.items():
        if is_locked(name, case, outcomes):
            caught.setdefault(case.kind.name, {}).setdefault(case.way, []).append(case.size)
    (LISTS / f"{name}.json").write_text(as_text(caught))
    print(f"{name}: {sum(len(sizes) for ways in caught.values() for sizes in ways.values())} of {len(seen)} cases are locked")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True, help="the folder of mistake and bench_idle")
    parser.add_argument("--libraries", type=Path, required=True, help="the folder of libhakmem.so")
    parser.add_argument("--update", action="append", default=[], metavar="MODE")
    arguments = parser.parse_args()
    known = forms(arguments)
    failed = False
    for name in arguments.update or sorted(path.stem for path in LISTS.glob("*.json")):
        if name not in known:
            print(f"FAILED: the libraries of {arguments.libraries} have no mode {name}")
            failed = True
        elif arguments.update:
            update(arguments, name, known[name])
        else:
            failed |= check(arguments, name, known[name])
    return failed


if __name__ == "__main__":
    sys.exit(main())
