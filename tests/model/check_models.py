#!/usr/bin/env python3
"""Runs the models of HAKMEM's cross-thread protocols through spin, exhaustively.

check_models.py [--sound|--changed|--record] [--jobs N] [--depth N] [MODEL.pml ...]
  without a MODEL: all beside this script; --sound: without their faults
  --changed: only the models that proved.txt does not list with their present text
  --record: checks what --changed checks, and lists in proved.txt what passed

A model begins with a comment. The script reads from it
  Threads  N                         the number of its threads
  Fault N, assertion|end: the fault  spin must find it with -DFAULT=N, by an assertion, or as a state
                                     without a successor
With FAULT=0, a model must pass, with all its states searched and all its steps reached. Each fault
must be found in the way that the comment says, else the model could not see it. A model has at
least three faults.
"""
import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROVED = HERE / "proved.txt"
CANNOT_RUN = 77
LEAST_FAULTS, MOST_THREADS = 3, 3
MEMORY_MB, SECONDS = 4000, 300
FAULT = re.compile(r"^ \* Fault (\d+), (assertion|end): (.+?)(?: \*/)?$", re.MULTILINE)
THREADS = re.compile(r"^ \* Threads\s+(\d+)$", re.MULTILINE)
FOUND = {"assertion": "pan:1: assertion violated", "end": "pan:1: invalid end state"}
CUT_SHORT = ("max search depth too small", "out of memory", "memory limit", "Search not completed")
PROCESS = re.compile(r"^(?:unreached in )?(?:proctype (\w+)|init)", re.MULTILINE)
UNREACHED = re.compile(r'^\t\S*?([\w-]+\.pml:\d+), state (\d+), "(?!-end-)', re.MULTILINE)
STEP = re.compile(r"^\tstate +(\d+) .* \S*?([\w-]+\.pml:\d+) => ", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    number: int
    kind: str  # how it is found
    what: str


SOUND = Fault(0, "", "as it stands")


@dataclass(frozen=True)
class Model:
    path: Path
    threads: int
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Run:
    model: Model
    fault: Fault
    states: int
    seconds: float
    trouble: str


def read_model(path: Path) -> Model:
    text = path.read_text()
    threads = THREADS.search(text)
    faults = tuple(Fault(int(number), kind, what) for number, kind, what in FAULT.findall(text))
    numbers = [fault.number for fault in faults]
    if threads is None or not 1 <= int(threads[1]) <= MOST_THREADS:
        sys.exit(f"{path.name}: does not say how many threads it has, 1 to {MOST_THREADS}")
    if numbers != list(range(1, len(faults) + 1)) or len(faults) < LEAST_FAULTS:
        sys.exit(f"{path.name}: its faults are not numbered 1 to {LEAST_FAULTS} or more")
    if set(re.findall(r"FAULT [!=]= (\d+)", text)) != {str(number) for number in numbers}:
        sys.exit(f"{path.name}: the faults in its comment are not those in its code")
    return Model(path, int(threads[1]), faults)


def fingerprint(model: Model) -> str:
    """Identifies all that a verdict depends on: the model, what it includes, and how this script checks it."""
    texts = (model.path, HERE / "common.pml", Path(__file__))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in texts)).hexdigest()


def proved(path: Path = PROVED) -> dict[str, str]:
    """The fingerprint of each model at the time of its last proof."""
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    return {name: mark for name, mark in rows}


def record(models: list[Model], path: Path = PROVED) -> None:
    """Lists models as proved. Drops models that exist no more."""
    marks = {name: mark for name, mark in proved(path).items() if (HERE / f"{name}.pml").exists()}
    marks.update({model.name: fingerprint(model) for model in models})
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    path.write_text("\n".join(head + [f"{name} {mark}" for name, mark in sorted(marks.items())]) + "\n")


def by_process(text: str) -> list[tuple[str, str]]:
    """Each process with its part of the output."""
    heads = list(PROCESS.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [(head[1] or "init", text[head.end():end]) for head, end in zip(heads, ends)]


def places_of(steps: str) -> dict[str, set[tuple[str, str]]]:
    """The states of each line: one line may occur in several processes."""
    places: dict[str, set[tuple[str, str]]] = {}
    for process, part in by_process(steps):
        for state, line in STEP.findall(part):
            places.setdefault(line, set()).add((process, state))
    return places


def never_reached(said: str, steps: str) -> list[str]:
    """Lines that are reached in none of their places."""
    missed = {(process, state) for process, part in by_process(said)
              for _, state in UNREACHED.findall(part)}
    return sorted(line for line, places in places_of(steps).items() if places <= missed)


def judge_sound(said: str, steps: str) -> str:
    if "errors: 0" not in said:
        return next((line for line in said.splitlines() if line.startswith("pan:1:")), "no verdict")
    for sign in CUT_SHORT:
        if sign in said:
            return f"the search was cut short: {sign}"
    if "Full statespace search" not in said or states_of(said) == 0:
        return "nothing was searched"
    missed = never_reached(said, steps)
    return f"never reached: {missed[0]}" if missed else ""


def judge(said: str, steps: str, fault: Fault) -> str:
    """The error in the checker's output for a model with these steps; "" if there is none."""
    if fault == SOUND:
        return judge_sound(said, steps)
    if FOUND[fault.kind] in said:
        return ""
    others = [sign for sign in FOUND.values() if sign in said]
    return f"found, but as: {others[0]}" if others else "the fault was not found"


def states_of(said: str) -> int:
    found = re.search(r"([\d.e+]+) states, stored", said)
    return int(float(found[1])) if found else 0


def call(command: list[str], folder: Path) -> str:
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"not done in {SECONDS} s"
    return ended.stdout + ended.stderr


def build(model: Model, fault: Fault, folder: Path) -> str:
    """The checker of one model with one fault: pan. What is wrong, if it cannot be built."""
    said = call(["spin", f"-DFAULT={fault.number}", "-a", str(model.path)], folder)
    if said.strip():
        return said.strip().splitlines()[0]
    said = call(["cc", "-w", "-DSAFETY", "-DVECTORSZ=2048", f"-DMEMLIM={MEMORY_MB}", "-o", "pan",
                 "pan.c"], folder)
    return "" if (folder / "pan").exists() else said.strip() or "the checker does not compile"


def run(model: Model, fault: Fault, depth: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="hakmem-model-") as name:
        folder = Path(name)
        trouble = build(model, fault, folder)
        if trouble:
            return Run(model, fault, 0, 0.0, trouble)
        begun = time.monotonic()
        said = call(["./pan", f"-m{depth}", "-w20"], folder)
        seconds = time.monotonic() - begun
        trouble = judge(said, call(["./pan", "-d"], folder), fault)
        return Run(model, fault, states_of(said), seconds, trouble)


def progress(one: Run, at: int, count: int) -> None:
    what = one.fault.what if one.fault == SOUND else f"fault {one.fault.number}"
    verdict = "sound" if one.fault == SOUND else f"found, {one.fault.kind}"
    if one.trouble:
        verdict = f"WRONG: {one.trouble}"
    print(f"[{at:3}/{count}] {one.model.name:<10} {what:<12} {one.states:>9} states "
          f"{one.seconds:6.1f} s  {verdict}", flush=True)


def run_all(models: list[Model], with_faults: bool, jobs: int, depth: int) -> list[Run]:
    wanted = [(model, fault) for model in models
              for fault in (SOUND, *(model.faults if with_faults else ()))]
    ended: list[Run] = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run, *one, depth) for one in wanted]):
            ended.append(future.result())
            progress(ended[-1], len(ended), len(wanted))
    return ended


def table(models: list[Model], runs: list[Run], with_faults: bool) -> str:
    lines = ["| model | threads | states | seconds | faults found |", "|---|---|---|---|---|"]
    for model in models:
        sound = next(one for one in runs if one.model == model and one.fault == SOUND)
        tried = [one for one in runs if one.model == model and one.fault != SOUND]
        found = sum(not one.trouble for one in tried)
        faults = f"{found} of {len(tried)}" if with_faults else "not tried"
        lines.append(f"| {model.name} | {model.threads} | {sound.states:,} | {sound.seconds:.1f} "
                     f"| {faults} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--sound", action="store_true")
    how.add_argument("--changed", action="store_true")
    how.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--depth", type=int, default=1000000)  # deeper searches are cut short
    options = parser.parse_args()
    paths = options.models or [path for path in sorted(HERE.glob("*.pml")) if path.stem != "common"]
    models = [read_model(path.resolve()) for path in paths]
    if options.changed or options.record:
        known = proved()
        models = [model for model in models if known.get(model.name) != fingerprint(model)]
        print(f"{len(paths) - len(models)} of {len(paths)} models have not changed since they were proved")
        if not models:
            return 0
    if shutil.which("spin") is None:
        print("spin is missing: apt-get install spin")
        return CANNOT_RUN
    runs = run_all(models, not options.sound, options.jobs, options.depth)
    print(f"\n{table(models, runs, not options.sound)}\n")
    wrong = [one for one in runs if one.trouble]
    for one in wrong:
        print(f"{one.model.path.name}, fault {one.fault.number} ({one.fault.what}): {one.trouble}")
    if options.record:
        record([model for model in models if model not in [one.model for one in wrong]])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
