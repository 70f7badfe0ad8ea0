"""What a protection costs: real programs and loops on an allocator with it, beside the same allocator without it.

Counted: instructions under cachegrind without its caches, page faults and peak RSS of ordinary runs (the median of three).
Timed: processor time in interleaved rounds, judged by the intervals of the rounds' ratios.
"""
import statistics
from collections import Counter
from pathlib import Path

import programs
from exact import ORDINARY_RUNS, Exact, Laboratory
from guard_peers import Form
from measure import Runner, Sample
from point import Goal, Point
from programs import Program
from results import Measured
from session import Session
from tables import middle

LOOKS = ("instructions", *("memory",) * ORDINARY_RUNS)
# Real programs and the amount of work to count: under cachegrind a program runs fifty times as long.
COUNTED = {"python-json": 2, "python-dicts": 1, "perl": 1, "lua": 1, "service": 2}
LOOPS = {
    "loop-64": ("bench_tiny_hot 64 {n} 100", 3_000),
    "loop-mixed": ("bench_random_mixed {n} 8192 1", 300_000),
    "loop-large": ("bench_mid_large_mt 1 {n} 256", 60_000),
    "loop-remote": ("bench_remote 1to1 1 {n} 16 512", 300_000),
}
TIMES_MORE = 10  # work of a loop that is timed
FIGURES = ("instructions_m", "page_faults", "peak_mib")

Costs = dict[str, dict[str, Sample]]  # by program, by form


def know_loops(bench_dir: Path) -> None:
    """As programs: they are run, and looked at, in the same way."""
    for name, (command, n) in LOOPS.items():
        programs.NAMED[name] = Program(name, f"{bench_dir}/{command}", n, n // 10, warm_mib=16, threads=True)


def playable(names: list[str]) -> list[str]:
    return [name for name in names if programs.NAMED[name].executable()]


def count(bench_dir: Path, forms: list[Form], quick: bool) -> tuple[Costs, list[str]]:
    know_loops(bench_dir)
    amounts = COUNTED | {name: n for name, (_, n) in LOOPS.items()}
    points = [Point("guard", name, programs.NAMED[name].workload(amounts[name], exact=True), "instructions_m", "M", False)
              for name in playable(list(amounts))]
    exact = Exact(Laboratory(bench_dir, quick, allocators=[form.allocator for form in forms]), points, looks=LOOKS)
    exact.measure()
    costs = {work.program: {name: figures(measured, name) for name in measured.samples} for work, measured in exact.works.items()}
    refused = Counter(f"{name}: {why}" for measured in exact.works.values() for name, why in measured.refused.items())
    return costs, [*exact.warned, *(f"not counted: {why} ({count} programs)" for why, count in refused.items())]


def figures(measured: Measured, name: str) -> Sample:
    return {key: round(value, 3) for key, value in middle(measured, name).items() if key in FIGURES}


def time(bench_dir: Path, forms: list[Form], rounds: int, quick: bool) -> tuple[dict, list[str]]:
    """Processor seconds of each round, by program and form."""
    know_loops(bench_dir)
    loops = {name: n * TIMES_MORE for name, (_, n) in LOOPS.items()}
    amounts = {name: programs.NAMED[name].n for name in COUNTED} | loops
    points = [Point("guard", name, programs.NAMED[name].workload(amounts[name]), "cpu_s", "s", False, Goal(), Goal())
              for name in playable(list(amounts))]
    session = Session(Runner(bench_dir, quick), points, [form.allocator for form in forms], rounds, 1, None, rounds)
    session.measure()
    seen = {w.program: {form.allocator.name: measured.values(form.allocator.name, "cpu_s") for form in forms}
            for w, measured in session.works.items()}
    return seen, [*session.warned, *session.refusals()]


def geometric_mean(ratios: list[float]) -> float | None:
    return statistics.geometric_mean(ratios) if ratios else None


def relative(costs: Costs, form: str, base: str, figure: str, names: list[str]) -> float | None:
    """The mean ratio to the form without protection; None where one of the two lacks all."""
    return geometric_mean([seen[form][figure] / seen[base][figure] for name, seen in costs.items()
                           if name in names and figure in seen.get(form, {}) and seen.get(base, {}).get(figure)])
