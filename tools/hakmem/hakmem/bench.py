"""hakmem bench: runs benchmarks, or a program, on each allocator of this machine, in interleaved rounds, and compares them.

The benchmarks are those that are installed beside the library. A benchmark tells from which file its malloc came, and what an operation took.
Any other program must serve as a benchmark by itself: it ends alone, and does the same work each time.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hakmem import allocators
from hakmem.allocators import WIDE, Allocator, Contest, Figure, Played, cells_of, contest_table, last_line, ratio_text, show_refused, show_verdicts
from hakmem.figures import bytes_text, count_text
from hakmem.library import find_library, find_program
from hakmem.measuring import TIMEOUT_S, Launcher
from hakmem.page import Section, filled, table
from hakmem.plots import Plot, plot
from hakmem.run import beside
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
    # Profiles of HAKMEM are compared only if they are named.
    usual = [Allocator(allocators.GLIBC, None), Allocator(allocators.HAKMEM, library), *allocators.installed()]
    members = allocators.named(plan.allocators, library) if plan.allocators else usual
    works = works_of(plan, library, members)
    runs = len(works) * len(members) * (plan.rounds + 1)
    with progress(console, runs) as tell, tempfile.TemporaryDirectory(prefix="hakmem-bench-") as folder:
        for work in works:
            compete(work, library, plan.rounds, Path(folder), tell)
    for work in works:
        show(work, plan.rounds, console)
    if plan.output:
        document = {"format": "hakmem-bench/1", "rounds": plan.rounds, "rows": list(map(row_of, works))}
        plan.output.write_text(json.dumps(document, indent=1) + "\n")
    if plan.html:
        plan.html.write_text(page(works, plan.rounds))
        console.print(f"wrote {plan.html}", soft_wrap=True)
    if not any(work.contest.runs for work in works):
        raise Trouble("nothing could be measured", FAILED)


def check_outputs(plan: Plan) -> None:
    """Finds out before the first run whether the results can be written."""
    for path in filter(None, (plan.output, plan.html)):
        path.open("a").close()


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
    return [Work(name, [str(beside(library, words[0])), *words[1:]], contest=Contest(members, OF_BENCHMARKS)) for name, words in lines.items()]


def compete(work: Work, library: Path, rounds: int, folder: Path, tell) -> None:
    with Launcher(library, work.command) as launch:
        if not work.is_benchmark and rehearse(launch, str(folder), work.exit_code)[1]:
            raise Trouble("the program is linked with HAKMEM, and cannot run on another allocator")
        played = lambda allocator: run(launch, work, allocator, folder / "output")
        work.contest.play(rounds, played, lambda name: tell(f"{work.name} on {name}"))


def run(launch: Launcher, work: Work, allocator: Allocator, output: Path) -> tuple[Played, str]:
    """Returns the figures of a run, and why it is not a measurement, or an empty text if it is one."""
    where = str(output) if work.is_benchmark else os.devnull
    reply, said = launch.measure(work.command, allocator.environment(launch.inherited.get("LD_PRELOAD")), where)
    if reply.get("late"):
        return {}, f"it ran longer than {TIMEOUT_S:.0f} s"
    if "cannot be preloaded" in said:
        return {}, last_line(said)
    if reply["code"] != work.exit_code:
        return {}, f"it ended with code {reply['code']}: {last_line(said)}"
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
    show_verdicts(contest, console)


def row_of(work: Work) -> dict[str, object]:
    contest = work.contest
    medians = {name: {figure.key: contest.middle(name, figure) for figure in contest.figures} for name in contest.able}
    return {"name": work.name, "command": work.command, "runs": contest.runs, "refused": contest.refused, "medians": medians}


OWN, OTHERS, LINE = "#2f7ed8", "#8a949e", "#b5bcc3"
PER_ROW = 26  # pixels


def page(works: list[Work], rounds: int) -> str:
    measured = [work for work in works if work.contest.base]
    tiles = {"benchmarks": str(len(measured)), "rounds": str(rounds), "allocators": str(len(measured[0].contest.members) if measured else 0)}
    sections = [section for work in measured for section in sections_of(work)]
    return filled("HAKMEM beside other allocators", tiles, sections, "\n".join(map(figures_table, measured)))


def sections_of(work: Work) -> list[Section]:
    note = f"Ratio to {work.contest.base} with its 95 % interval; less is better. {' '.join(work.command)}"
    shown = [figure for figure in work.contest.figures if figure.best]
    return [(f"{work.name}: {figure.title}", note, ratios(work.contest, figure)) for figure in shown]


def ratios(contest: Contest, figure: Figure) -> Plot:
    """Returns a plot with a dot and an interval for each allocator. The best one is at the top."""
    assert contest.base
    names = sorted(contest.able, key=lambda name: contest.middle(name, figure), reverse=True)
    found = {name: contest.ratio(name, contest.base, figure.key) for name in names}
    shown = {name: value for name, value in found.items() if value}
    above, below = [value.high - value.median for value in shown.values()], [value.median - value.low for value in shown.values()]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [value.median for value in shown.values()],
        "y": list(shown),
        "marker": {"size": 11, "color": [OWN if name.startswith(allocators.HAKMEM) else OTHERS for name in shown]},
        "error_x": {"type": "data", "color": OTHERS, "symmetric": False, "array": above, "arrayminus": below},
        "text": [f"{figure.shown(contest.middle(name, figure))}, {ratio_text(value)}" for name, value in shown.items()],
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    mark = {"type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dot", "color": LINE}}
    return plot(
        [dots],
        xaxis={"title": {"text": f"{figure.title}, × {contest.base}"}, "rangemode": "tozero"},
        yaxis={"type": "category", "automargin": True},
        shapes=[mark],
        height=110 + PER_ROW * len(shown),
        showlegend=False,
        margin={"l": 130},
    )


def figures_table(work: Work) -> str:
    contest = work.contest
    head = ["allocator", *(text for figure in contest.figures for text in (figure.title, "ratio"))]
    rows = [cells_of(contest, name, wide=True) for name in contest.able]
    return table(f"{work.name}: {' '.join(work.command)}", head, rows, opened=True)
