"""hakmem bench: runs benchmarks, or a program, on each allocator of this machine, in interleaved rounds, and compares them.

The benchmarks are those that are installed beside the library. A benchmark tells from which file its malloc came, and what an operation took.
Any other program must serve as a benchmark by itself: it ends alone, and does the same work each time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.text import Text

from hakmem import allocators
from hakmem.allocators import Allocator
from hakmem.contest import WIDE, Contest, Figure, Played, contest_table, show_refused, verdicts
from hakmem.figures import bytes_text, count_text
from hakmem.library import find_library, find_program
from hakmem.measuring import TIMEOUT_S, Launcher
from hakmem.record import beside
from hakmem.trouble import FAILED, USAGE, Trouble
from hakmem.tune import progress, rehearse

# Maps the name of each benchmark to its command line.
BENCHMARKS = {
    "random_mixed": "bench_random_mixed 5000000 400 1",
    "random_mixed_large": "bench_random_mixed 2000000 20000 1 16 32768",
    "larson": "larson 1 8 128 1024 100 12345 2",
    "string-builder": "bench_scenario string-builder 1000000",
    "json": "bench_scenario json 1000000",
    "mir": "bench_scenario mir 300000",
    "vm": "bench_scenario vm 20000",
    "mixed": "bench_scenario mixed 300000",
}
REST = (Figure("rss_bytes", "peak RSS", bytes_text, "Least memory"), Figure("faults", "faults", count_text))
OF_BENCHMARKS = (Figure("time", "CPU per operation", lambda value: f"{value:.2f} ns", "Least CPU time"), *REST)
OF_PROGRAMS = (Figure("time", "CPU", lambda value: f"{value:.3f} s", "Least CPU time"), *REST)
SEED = 7


@dataclass(frozen=True)
class Plan:
    command: list[str]  # a program and its arguments, or empty
    names: list[str]  # of benchmarks; empty means all
    allocators: list[str]
    rounds: int
    exit_code: int = 0
    html: Path | None = None
    output: Path | None = None


@dataclass(frozen=True)
class Work:
    """A command that is measured. It is one of the benchmarks, or the user's program."""

    name: str
    command: list[str]
    is_benchmark: bool = True
    exit_code: int = 0
    contest: Contest = field(default_factory=lambda: Contest([], ()))


def bench(plan: Plan, console: Console) -> None:
    check_outputs(plan)
    library = find_library()
    members = allocators.named(plan.allocators, library) if plan.allocators else default_members(library)
    works = works_of(plan, library, members)
    runs = len(works) * len(members) * (plan.rounds + 1)
    with progress(console, runs) as tell, tempfile.TemporaryDirectory(prefix="hakmem-bench-") as folder:
        for work in works:
            compete(work, library, plan.rounds, Path(folder), tell)
    for work in works:
        show(work, plan.rounds, console)
    if plan.output:
        write_json(plan, works)
    if plan.html:
        from hakmem import bench_page  # slow to import

        bench_page.write(plan.html, works, plan.rounds)
        console.print(f"wrote {plan.html}", soft_wrap=True)
    if not any(work.contest.runs for work in works):
        raise Trouble("nothing could be measured", FAILED)


def check_outputs(plan: Plan) -> None:
    """Finds out before the first run whether the results can be written."""
    for path in filter(None, (plan.output, plan.html)):
        path.open("a").close()
    if plan.html and not importlib.util.find_spec("plotly"):
        raise Trouble("--html needs the Python package plotly", FAILED)


def default_members(library: Path) -> list[Allocator]:
    """Returns glibc, HAKMEM with its defaults, and the other allocators of the machine. Profiles of HAKMEM are compared only if they are named."""
    return [Allocator(allocators.GLIBC, None), allocators.of_hakmem(library)[0], *allocators.installed()]


def works_of(plan: Plan, library: Path, members: list[Allocator]) -> list[Work]:
    if plan.command:
        if plan.names:
            raise Trouble("--only names benchmarks: leave it out, or the program", USAGE)
        command = [str(find_program(plan.command[0])), *plan.command[1:]]
        return [Work(Path(command[0]).name, command, False, plan.exit_code, Contest(members, OF_PROGRAMS))]
    unknown = [name for name in plan.names if name not in BENCHMARKS]
    if unknown:
        raise Trouble(f"--only {unknown[0]}: no such benchmark; there are {', '.join(BENCHMARKS)}", USAGE)
    lines = {name: line.split() for name, line in BENCHMARKS.items() if not plan.names or name in plan.names}
    return [
        Work(name, [str(beside(library, words[0])), *words[1:]], contest=Contest(members, OF_BENCHMARKS)) for name, words in lines.items()
    ]


def compete(work: Work, library: Path, rounds: int, folder: Path, tell) -> None:
    chance = random.Random(SEED)
    with Launcher(library, work.command) as launch:
        if not work.is_benchmark and rehearse(launch, str(folder), work.exit_code)[1]:
            raise Trouble("the program is linked with HAKMEM, and cannot run on another allocator")
        for number in range(rounds + 1):
            for allocator in chance.sample(work.contest.members, len(work.contest.members)):
                tell(f"{work.name} on {allocator.name}")
                if allocator.name not in work.contest.refused:
                    work.contest.add(allocator.name, *run(launch, work, allocator, folder / "output"), counted=number > 0)


def run(launch: Launcher, work: Work, allocator: Allocator, output: Path) -> tuple[Played, str]:
    """Returns the figures of a run, and why it is not a measurement, or an empty text if it is one."""
    where = str(output) if work.is_benchmark else os.devnull
    reply, said = launch.measure(work.command, allocator.environment(launch.inherited.get("LD_PRELOAD")), where)
    last = said.splitlines()[-1] if said else "no message"
    if reply.get("late"):
        return {}, f"it ran longer than {TIMEOUT_S:.0f} s"
    if "cannot be preloaded" in said:
        return {}, last
    if reply["code"] != work.exit_code:
        return {}, f"it ended with code {reply['code']}: {last[-300:]}"
    played = {"time": reply["cpu_s"], "rss_bytes": reply["rss_bytes"], "faults": reply["faults"]}
    return with_own_figures(played, output, allocator) if work.is_benchmark else (played, "")


def with_own_figures(played: Played, output: Path, allocator: Allocator) -> tuple[Played, str]:
    """Replaces the time of the process with the time per operation. The benchmark has printed this time."""
    lines = (line.partition(" ") for line in output.read_text(errors="replace").splitlines())
    printed = {name: value.strip() for name, _, value in lines}
    if not allocator.serves(printed.get("malloc_from", "")):
        return {}, f"malloc came from {printed.get('malloc_from', 'an unknown file')}"
    try:
        return played | {"time": float(printed["cpu_ns_per_op"])}, ""
    except (KeyError, ValueError):
        return {}, "it printed no time"


def show(work: Work, rounds: int, console: Console) -> None:
    contest = work.contest
    console.print(Text(f"\n{work.name}: {' '.join([Path(work.command[0]).name, *work.command[1:]])}", style="bold"), soft_wrap=True)
    show_refused(contest, console)
    if contest.base is None:
        return
    console.print(contest_table(contest, console.width >= WIDE))
    console.print(Text(f"Medians of {rounds} rounds; ratios to {contest.base} with 95 % intervals.", style="dim"))
    for sentence in verdicts(contest):
        console.print(Text(sentence, style="bold"))


def write_json(plan: Plan, works: list[Work]) -> None:
    assert plan.output
    rows = [{"name": work.name, "command": work.command, "runs": work.contest.runs, "refused": work.contest.refused,
             "medians": {name: {figure.key: median(work.contest.values(name, figure.key)) for figure in work.contest.figures}
                         for name in work.contest.able}} for work in works]
    plan.output.write_text(json.dumps({"format": "hakmem-bench/1", "rounds": plan.rounds, "rows": rows}, indent=1) + "\n")
