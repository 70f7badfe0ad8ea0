#!/usr/bin/env python3
"""Every benchmark on HAKMEM and its peers: interleaved rounds, one table.

python3 bench/run.py                        the default rows, 7 rounds
python3 bench/run.py --rows P1,P4 --quick   a first look
python3 bench/run.py --lib none             the peers alone
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import tables
from measure import BadRun, Runner, Sample
from peers import Allocator, find_peers
from progress import Bar
from rows import Point, Workload, select

ROOT = Path(__file__).resolve().parent.parent
DIFFERENCE_ROUNDS = 3  # counts of system calls and faults hardly vary


@dataclass
class Results:
    samples: dict[tuple[Workload, str], list[Sample]] = field(
        default_factory=lambda: defaultdict(list)
    )
    problems: dict[tuple[Workload, str], str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--lib", default=str(ROOT / "build/libhakmem.so"), help='"none": peers only'
    )
    parser.add_argument("--bench-dir", type=Path, default=ROOT / "build/bench")
    parser.add_argument("--rows", help='such as P1,P4; "all"; default: the short rows')
    parser.add_argument("--peers", help="such as glibc,mimalloc; default: all")
    parser.add_argument("--rounds", type=positive, help="default 7; with --quick 2")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the work: a look, no proof"
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time for one-thread rows, on a busy machine",
    )
    parser.add_argument(
        "--env",
        action="append",
        type=assignment,
        default=[],
        metavar="HAKMEM_NAME=VALUE",
        help="option for HAKMEM's runs",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--markdown", type=Path, metavar="OUT")
    parser.add_argument("--check", action="store_true", help="exit 1 if a floor is not held")
    args = parser.parse_args()
    args.rounds = args.rounds or (2 if args.quick else 7)
    return args


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name, value


def find_allocators(args: argparse.Namespace) -> tuple[list[Allocator], list[str]]:
    names = args.peers.split(",") if args.peers else None
    allocators, missing = find_peers(names)
    null = args.bench_dir / "libnull.so"
    if null.exists():
        allocators.append(Allocator("limit", null.resolve(), "limit"))
    if args.lib != "none":
        library = Path(args.lib).resolve()
        if not library.exists():
            raise SystemExit(f"bench: {library} is not there: run make, or give --lib")
        allocators.append(Allocator("hakmem", library, "hakmem"))
    return allocators, missing


def plan_round(
    points: list[Point], allocators: list[Allocator], order: random.Random, number: int
) -> list[tuple[Workload, Allocator]]:
    """All runs of one round: workloads shuffled, and allocators within each, so
    that those to be compared run close to each other in time."""
    limited = {p.work for p in points if p.with_limit}
    works = list(dict.fromkeys(p.work for p in points))
    if number > DIFFERENCE_ROUNDS:
        works = [w for w in works if not w.difference]
    order.shuffle(works)
    runs = []
    for work in works:
        able = [a for a in allocators if a.role != "limit" or work in limited]
        runs += [(work, a) for a in order.sample(able, len(able))]
    return runs


def measure(args: argparse.Namespace, points: list[Point], allocators: list[Allocator]) -> Results:
    """Round 0 warms the machine up and is thrown away."""
    runner = Runner(args.bench_dir.resolve(), args.quick, args.clock == "cpu", dict(args.env))
    order = random.Random(args.seed)
    rounds = [plan_round(points, allocators, order, i) for i in range(args.rounds + 1)]
    results = Results()
    with Bar(sum(len(r) for r in rounds)) as bar:
        try:
            for number, runs in enumerate(rounds):
                run_round(runner, number, runs, results, bar)
        except KeyboardInterrupt:
            results.warned.append("interrupted: fewer rounds than asked for")
    return results


def run_round(
    runner: Runner, number: int, runs: list[tuple[Workload, Allocator]], results: Results, bar: Bar
) -> None:
    name = f"round {number}" if number else "warm-up"
    for work, allocator in runs:
        key = (work, allocator.name)
        command = " ".join(work.argv(runner.quick))
        bar.step(f"{name}: {allocator.name}: {command}")
        if key not in results.problems:
            try:
                sample = runner.sample(work, allocator)
                if number:
                    results.samples[key].append(sample)
            except BadRun as problem:
                results.problems[key] = str(problem)
                bar.note(f"bench: {allocator.name}: {command}: REFUSED: {problem}")
        bar.advance()


def evaluate(
    points: list[Point], allocators: list[Allocator], results: Results
) -> list[tables.Line]:
    lines = []
    for point in points:
        values: tables.Values = {}
        for allocator in allocators:
            key = (point.work, allocator.name)
            if allocator.role == "limit" and not point.with_limit:
                continue
            if key not in results.problems:
                values[allocator.name] = [s[point.metric] for s in results.samples.get(key, [])]
        lines.append(tables.evaluate(point, values, allocators))
    return lines


def machine() -> dict[str, str]:
    def first_line(path: str) -> str:
        try:
            return Path(path).read_text().splitlines()[0]
        except (OSError, IndexError):
            return "?"

    model = "?"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": f"{model}, {os.cpu_count()} processors",
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "huge pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load": first_line("/proc/loadavg"),
    }


def show(lines: list[tables.Line], names: list[str]) -> None:
    """On a terminal in colour, if rich is there; the same text otherwise."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(tables.plain(lines, names))
        return
    if not sys.stdout.isatty():
        print(tables.plain(lines, names))
        return
    table = Table(*tables.header(names))
    colours = {"yes": "[green]yes[/]", "NO": "[red]NO[/]"}
    for line in lines:
        table.add_row(*(colours.get(cell, cell) for cell in tables.cells(line, names)))
    Console().print(table)


def describe(args: argparse.Namespace, results: Results) -> list[str]:
    clock = "wall time" if args.clock == "wall" else "processor time on one-thread rows"
    notes = [
        f"medians of {args.rounds} interleaved rounds, {clock}; * best peer; "
        "ratios above 1: HAKMEM is better"
    ]
    if args.quick:
        notes.append("--quick: a tenth of the work and few rounds; not a result")
    notes += results.warned
    for (work, name), why in results.problems.items():
        notes.append(f"REFUSED {name}: {' '.join(work.argv(args.quick))}: {why}")
    return notes


def save(
    args: argparse.Namespace, lines: list[tables.Line], names: list[str], notes: list[str]
) -> None:
    if args.markdown:
        text = "\n".join(f"- {note}" for note in notes)
        args.markdown.write_text(f"{tables.markdown(lines, names)}\n{text}\n")
    if args.json:
        document = {
            "machine": machine(),
            "rounds": args.rounds,
            "quick": args.quick,
            "clock": args.clock,
            "allocators": names,
            "notes": notes,
            "lines": tables.as_json(lines),
        }
        args.json.write_text(json.dumps(document, indent=1) + "\n")


def exit_code(args: argparse.Namespace, lines: list[tables.Line], results: Results) -> int:
    refused = any(name == "hakmem" for _, name in results.problems)
    missed = args.check and any(line.meets(line.point.floor) is not True for line in lines)
    return 1 if refused or missed else 0


def main() -> int:
    args = parse_args()
    points = select(args.rows)
    if not (args.bench_dir / "launch").exists():
        raise SystemExit(f"bench: no programs in {args.bench_dir}: run make, or give --bench-dir")
    allocators, missing = find_allocators(args)
    for key, value in machine().items():
        print(f"{key}: {value}")
    results = measure(args, points, allocators)
    results.warned += [f"skipped peer {text}" for text in missing]
    lines = evaluate(points, allocators, results)
    names = [a.name for a in allocators]
    notes = describe(args, results)
    show(lines, names)
    print("\n".join(notes))
    save(args, lines, names, notes)
    return exit_code(args, lines, results)


if __name__ == "__main__":
    sys.exit(main())
