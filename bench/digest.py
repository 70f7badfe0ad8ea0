"""The few tables of the documents. `run.py page` makes the complete ones from the JSON."""
from collections.abc import Callable
from pathlib import Path

import tables
import verdicts
from point import Workload
from results import Result
from tables import Rows, as_markdown, number
from verdicts import Line

GLIBC = "glibc"
LEFT_OUT = ("P16", "M7", "M9", "M11")  # of the tables row by row: these have a table of their own, or are mostly zeros

# Rows of the README: gains and losses, in words that need no other page.
README = {
    "P1 64 B at once": "malloc and free of 64 B, ns a pair",
    "P5 random_mixed ws 8192": "random sizes to 1 KiB, 8192 slots, M ops/s",
    "P6 random_mixed ws 200 000": "the same, 200 000 slots",
    "P7 ws 20 000, 16 B - 32 KiB": "random sizes to 32 KiB, 20 000 slots, M ops/s",
    "P8 8-32 KiB, 2 threads": "8 to 32 KiB, two threads, M ops/s",
    "P19 1M x 64 B random": "1 M blocks of 64 B, freed in random order, ns a pair",
    "P19 100k x 200 B random": "100 000 blocks of 200 B, the same",
    "P18 3 M x 100 B, growth alone": "a heap that only grows, ns a block",
    "P12 1 to 1, 16-512 B": "one thread allocates, another frees, M blocks/s",
    "P12 ring of 2, 16-512 B": "two threads in a ring, each frees the other's, M blocks/s",
    "P13b larson 64 KiB - 1 MiB, 4 threads": "threads that come and go, 64 KiB to 1 MiB, M ops/s",
    "M3 RSS on P6": "peak memory, 200 000 slots, MiB",
    "M3 RSS on P7": "peak memory, random sizes to 32 KiB, MiB",
}

COUNTED = {"instructions, M": "instructions_m", "L2 misses, M": "l2_misses_m", "page faults": "page_faults", "peak MiB": "peak_mib"}
MACHINE = ("cpu", "processors", "memory", "kernel", "huge pages")


# ---- timed ------------------------------------------------------------------

def readme(result: Result) -> str:
    lines = {line.point.name: line for line in result.lines()}
    return as_markdown(judged([(said, lines[name]) for name, said in README.items() if name in lines]))


def speed(result: Result) -> str:
    return as_markdown(judged([(title(line), line) for line in row_by_row(result) if not line.is_memory]))


def memory(result: Result) -> str:
    """All allocators, because a reader looks for the one that the program uses now."""
    names = result.names("hakmem", "peer")
    lines = [line for line in row_by_row(result) if line.is_memory]
    rows = [[title(line), *(number(line.medians[name]) if name in line.medians else "-" for name in names)] for line in lines]
    return as_markdown([["work", *names], *rows]) + f"\n{facts(result)}"


def row_by_row(result: Result) -> list[Line]:
    shown = [line for line in result.lines() if line.is_goal_row]
    return [line for line in shown if line.point.row.partition(".")[0] not in LEFT_OUT]


def title(line: Line) -> str:
    return f"{line.point.name}, {line.point.unit}"


def judged(rows: list[tuple[str, Line]]) -> Rows:
    """HAKMEM beside glibc and the best other; the quotient is that of the two figures shown."""
    head = ["work", "glibc", "best other", "HAKMEM", "to best", "95 %, paired rounds"]
    return [head, *([said, *beside(line), interval_text(line)] for said, line in rows)]


def beside(line: Line, scale: int = 1) -> list[str]:
    def shown(name: str) -> str:
        return number(scale * line.medians[name]) if name in line.medians else "-"

    best = line.best_peer
    return [shown(GLIBC), f"{shown(best)} {best}" if best else "-", shown(verdicts.OWN), number(line.quotient)]


def interval_text(line: Line) -> str:
    """An interval, or how many rounds were too few for one."""
    best = line.to_best
    if best and best.interval:
        return tables.interval_text(best.interval)
    rounds = len(line.samples.get(verdicts.OWN, []))
    return f"{rounds} round{'s' * (rounds != 1)}" if rounds else "-"


def programs(result: Result) -> str:
    """Row P16: a program's time and memory in one line."""
    found: dict[str, dict[bool, Line]] = {}
    for line in result.lines():
        if line.point.row.startswith("P16."):
            found.setdefault(line.point.row.partition(".")[2], {})[line.is_memory] = line
    head = ["program"] + [f"{what} {who}" for what in ("CPU ms:", "peak MiB:") for who in ("glibc", "best other", "HAKMEM", "to best")]
    rows = [[name, *beside(seen[False], 1000), *beside(seen[True])] for name, seen in found.items() if len(seen) == 2]
    return as_markdown([head, *rows])


def traces(result: Result) -> str:
    """Without the allocators that ran none."""
    rows = tables.fragmentation(result) or []
    ran = [at for at in range(len(rows[0]) if rows else 0) if any(row[at] != "-" for row in rows[1:])]
    return as_markdown([[row[at] for at in ran] for row in rows])


# ---- counted ----------------------------------------------------------------

def exact(result: Result) -> str:
    """HAKMEM beside the least of the others, a program a line."""
    head = ["program"] + [f"{what}{who}" for what in COUNTED for who in (": HAKMEM", ": least other")]
    works = [work for work, measured in result.works.items() if work.exact and measured.samples]
    return as_markdown([head, *([work.program, *counted(result, work)] for work in works)]) + f"\n{facts(result)}"


def counted(result: Result, work: Workload) -> list[str]:
    medians = {name: tables.middle(result.works[work], name) for name in result.names("hakmem", "peer")}
    cells = []
    for figure in COUNTED.values():
        seen = {name: sample[figure] for name, sample in medians.items() if figure in sample}
        own = seen.pop(verdicts.OWN, None)
        least = min(seen, key=seen.__getitem__, default=None)
        cells += [number(own), f"{number(seen[least])} {least}" if least else "-"]
    return cells


# ---- in documents -----------------------------------------------------------

def facts(result: Result) -> str:
    """Where the figures come from, in a paragraph."""
    versions = [f"{a['name']} {a['version']}" for a in result.allocators if a["role"] == "peer"]
    machine = ", ".join(f"{key}: {result.machine[key]}" for key in MACHINE if key in result.machine)
    commit = result.hakmem.get("commit", "unknown")[:10]
    return f"Measured {result.parts[0]['began'][:10]}. Machine: {machine}. HAKMEM: commit {commit}. Others: {', '.join(versions)}.\n"


PLACES: dict[str, Callable[[Result], str]] = {
    "readme": readme,
    "speed": speed,
    "memory": memory,
    "programs": programs,
    "traces": traces,
    "facts": facts,
    "exact": exact,
}


def has(result: Result, place: str) -> bool:
    if place == "exact":
        return bool(tables.exact(result))
    rows = {line.point.row.partition(".")[0] for line in result.lines() if not line.point.work.exact}
    wanted = {"programs": "P16", "traces": "M7", "memory": "M13"}.get(place)
    return wanted in rows if wanted else any(row.startswith("P") for row in rows)


def paste(result: Result, path: Path) -> None:
    tables.paste_tables(path, "bench", PLACES, lambda place: PLACES[place](result) if has(result, place) else "")
