"""Prints a result as text: the verdict on each row, and the figures behind it."""
import contextlib
import math
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import verdicts
from point import Goal
from results import Measured, Result, Unfit
from verdicts import Interval, Line, Met, Verdict

Rows = list[list[str]]  # the first is the header

HOW_TO_READ = (
    "HAKMEM beside the best peer: medians of the rounds, and the median of the rounds' ratios, above 1 where HAKMEM is better, with its 95 % "
    "interval (bootstrap over rounds). *ahead*: of each single peer, and each interval lies above 1. *level with*: intervals that hold 1, no "
    "difference was shown. *behind*: intervals below 1. Goals: `yes` and `NO` where the interval lies on one side of the bound, `yes?` and "
    "`no?` where it holds it."
)
HOW_TO_READ_EXACT = (
    "Real programs, counted and not timed: instructions and misses under cachegrind with caches of its own (the same on every machine), the rest of "
    "ordinary runs. A star: the least. *TLB misses*: of 2048 pages, as far as the memory stood on huge pages those of huge ones. *Paging*: what the "
    "faults and the misses of the TLB take at this machine's price, measured in the same run:"
)
COSTS = (
    ("processor time, s", lambda run: run["user_s"] + run["system_s"]),
    ("of it in the program, s", lambda run: run["user_s"]),
    ("of it in the system, s", lambda run: run["system_s"]),
    ("wall time, s", lambda run: run["wall_s"]),
    ("peak RSS, MiB", lambda run: run["max_rss_mib"]),
    ("page faults", lambda run: run["minor_faults"]),
    ("system calls", lambda run: run["syscalls"]),
)
HUGE_MIB = 2
HUGE_COLUMN = "huge, %"
EXACT = {
    "instructions, M": "instructions_m",
    "I1 misses, M": "i1_misses_m",
    "D1 misses, M": "d1_misses_m",
    "L2 misses, M": "l2_misses_m",
    "TLB misses, k": "tlb_misses_k",
    "page faults": "page_faults",
    "system calls": "system_calls",
    "peak RSS, MiB": "peak_mib",
    "mean": "mean_mib",
    HUGE_COLUMN: "huge_percent",
    "paging, ms": "paging_ms",
}
WHOLE = ("page_faults", "system_calls", "huge_percent")


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0 or isinstance(value, int):
        return f"{value:.0f}"
    if math.isinf(value):
        return "∞"
    if abs(value) < 0.01:
        return f"{value:.1e}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def interval_text(interval: Interval | None) -> str:
    return f"{number(interval.low)} – {number(interval.high)}" if interval else "-"


def goal_text(goal: Goal) -> str:
    bounds = {"≥ {:.2f} × best": goal.ratio, "≥ {:.2f} × limit": goal.limit, "≤ {:g}": goal.value}
    return ", ".join(text.format(bound) for text, bound in bounds.items() if bound is not None)


def met_text(met: Met | None) -> str:
    return met.value if met else "-"


def verdict_text(line: Line) -> str:
    verdict = line.verdict()
    if verdict in (None, Verdict.AHEAD, Verdict.UNKNOWN):
        return verdict.value if verdict else "-"
    word = "behind" if verdict is Verdict.BEHIND else "level with"
    return f"{word} {', '.join(line.peers_judged(verdict))}"


# ---- the tables -------------------------------------------------------------

def judged(lines: list[Line]) -> Rows:
    """HAKMEM beside the best peer, row by row."""
    rows = ["row,work,unit,HAKMEM,best peer,its,paired ratio,95 %,verdict,floor,goal,met".split(",")]
    for line in lines:
        point, best = line.point, line.to_best
        its = [line.best_peer or "-", number(line.medians.get(line.best_peer or "")), number(best.ratio) if best else "-"]
        rows.append([*work_of(line), number(line.medians.get(verdicts.OWN)), *its, interval_text(best.interval if best else None), verdict_text(line),
                     met_text(line.meets(point.floor)), goal_text(point.goal), met_text(line.meets(point.goal))])
    return rows


def medians(lines: list[Line], names: list[str]) -> Rows:
    """Each allocator's median and spread; the best peer has a star."""

    def cell(line: Line, name: str) -> str:
        if name not in line.medians:
            return "-"
        star = "*" if name == line.best_peer else ""
        return f"{number(line.medians[name])}{star} ±{50 * line.spread[name]:.0f}%"

    return [["row", "work", "unit", *names], *([*work_of(line), *(cell(line, name) for name in names)] for line in lines)]


def work_of(line: Line) -> list[str]:
    return [line.point.row, line.point.label, line.point.unit]


def tails(lines: list[Line], names: list[str]) -> Rows:
    """The 95th percentile over the rounds of costs, and the 5th of throughput."""
    rows = [["row", "work", "unit", *names]]
    for line in lines:
        seen = {name: np.percentile(values, 5 if line.point.higher else 95) for name, values in line.samples.items()}
        rows.append([*work_of(line), *(number(seen.get(name)) for name in names)])
    return rows


def fragmentation(result: Result) -> Rows | None:
    """M7: each allocator's peak memory to its peak live bytes, and what is said of all traces together: of those alone that it ran."""
    lines = [line for line in result.lines() if line.point.row.startswith("M7.")]
    if not lines:
        return None
    names = result.names("hakmem", "peer")
    rows = [["trace", "work", *names]]
    rows += [[line.point.row.partition(".")[2], line.point.label, *(number(line.medians.get(name)) for name in names)] for line in lines]
    for title, among in (("median", statistics.median), ("worst", max)):
        seen = [[line.medians[n] for line in lines if n in line.medians] for n in names]
        rows.append([title, "of the traces", *(number(among(s)) if s else "-" for s in seen)])
    return rows


def exact(result: Result) -> list[tuple[str, Rows]]:
    """What whole programs cost, counted: a table a program."""
    tables = []
    for work, measured in result.works.items():
        if work.exact and measured.samples:
            rows = [["allocator", *EXACT]]
            for name in result.names("hakmem", "peer"):
                sample = middle(measured, name)
                sample |= {"huge_percent": 100 * sample["huge_share"]} if "huge_share" in sample else {}
                sample |= {key: round(sample[key]) for key in WHOLE if key in sample} | {"paging_ms": paging_ms(result, sample)}
                rows.append([name, *(number(sample.get(key)) for key in EXACT.values())])
            title = f"{work.program} ({work.amount(result.quick)})" if work.n > 1 else work.program
            tables.append((title, starred(rows)))
    return tables


def middle(measured: Measured, name: str) -> dict[str, float]:
    """Medians of its ordinary runs."""
    runs = [] if name in measured.refused else measured.samples.get(name, [])
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]} if runs else {}


def paging_ms(result: Result, sample: dict[str, float]) -> float | None:
    """Faults, those on huge pages apart, and misses of the TLB, at this machine's price."""
    small, huge, miss = map(result.paging, ("fault_ns", "huge_fault_ns", "tlb_miss_ns"))
    if "tlb_misses_k" not in sample:
        return None
    huge_faults = sample["huge_mib"] / HUGE_MIB
    if small is None or (huge is None and huge_faults):
        return None
    faults = (sample["page_faults"] - huge_faults) * small + huge_faults * (huge or 0)
    return (faults + 1e3 * sample["tlb_misses_k"] * (miss or 0)) / 1e6


def starred(rows: Rows) -> Rows:
    """The least of each column."""
    for at in range(1, len(rows[0])):
        seen = [float(row[at]) for row in rows[1:] if row[at] != "-"]
        if rows[0][at] != HUGE_COLUMN and seen:
            for row in rows[1:]:
                if row[at] != "-" and float(row[at]) == min(seen):
                    row[at] += "*"
    return rows


def costs(result: Result) -> list[tuple[str, Rows]]:
    """What whole runs took; the system calls are those of the warm-up run."""
    tables = []
    for title, figure in COSTS:
        rows = [["run", *result.names()]]
        for work, measured in result.works.items():
            cells = [number(cost(measured, name, figure)) for name in result.names()]
            if any(cell != "-" for cell in cells):
                rows.append([result.title(work), *cells])
        tables.append((title, rows))
    return tables


def cost(measured: Measured, name: str, figure) -> float | None:
    """The median over the rounds; a single figure stands as it is."""
    runs = [] if name in measured.refused else measured.samples.get(name, [])
    once = [measured.whole[name]] if name in measured.whole else []
    for source in (runs, once):
        with contextlib.suppress(KeyError, statistics.StatisticsError):
            return statistics.median_high([figure(run) for run in source])
    return None


# ---- as text ----------------------------------------------------------------

def as_markdown(rows: Rows) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def paste_tables(path: Path, mark: str, names: Iterable[str], make: Callable[[str], str]) -> None:
    """Puts tables between their marks in a document. A table that is made empty stays as it is."""

    def filled(place: re.Match) -> str:
        begin, name, end = place.groups()
        if name not in names:
            raise Unfit(f"{path}: no table is called {name}; there are {', '.join(names)}")
        made = make(name)
        return f"{begin}{made}{end}" if made else place[0]

    marked = re.compile(rf"(<!-- {mark}:(\w+) -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    text, count = marked.subn(filled, path.read_text())
    if not count:
        raise Unfit(f"{path} has no place for a table, such as <!-- {mark}:{next(iter(names))} --><!-- /{mark} -->")
    path.write_text(text)


def facts(result: Result) -> list[tuple[str, str]]:
    """The machine, the subject and the method."""
    own = {f"HAKMEM's {key}": value for key, value in result.hakmem.items()}
    share = result.processor_share()
    versions = [f"{a['name']} {a['version']}".strip() for a in result.allocators]
    return [
        *result.machine.items(),
        *own.items(),
        ("allocators", ", ".join(versions)),
        ("rounds", rounds_text(result)),
        ("paging", paging_text(result)),
        ("clock", "wall time" if result.clock == "wall" else "processor time on one-thread rows"),
        ("work", "a tenth of a full run's (--quick)" if result.quick else "in full"),
        ("measured", ", ".join(str(part["began"]) for part in result.parts)),
        ("load before", ", ".join(str(part["load"]) for part in result.parts)),
        ("processor share", "unknown" if share is None else f"{share:.0%} of wall time, runs of one thread"),
        ("stolen by the host", ", ".join(f"{part['stolen']:.1%}" for part in result.parts)),
    ]


def rounds_text(result: Result) -> str:
    timed = [m for work, m in result.works.items() if not work.exact]
    rounds = {len(runs) for m in timed for runs in m.samples.values()} or {0}
    least, most = min(rounds), max(rounds)
    return str(most) if least == most else f"{least} to {most}"


def sections(result: Result) -> list[tuple[str, str, Rows]]:
    """The title, the note and the rows of each table."""
    lines = result.lines()
    found = [(f"Exact cost of real programs: {title}", "", rows) for title, rows in exact(result)]
    if found:
        found[0] = (found[0][0], f"{HOW_TO_READ_EXACT} {paging_text(result)}.", found[0][2])
    found.append(("Goals", HOW_TO_READ, judged(lines)))
    found.append(("All allocators", "Medians, half the spread between the rounds; * best peer.", medians(lines, result.names())))
    found.append(("All allocators: 19 of 20 rounds", "The 95th percentile of costs, and the 5th of throughput.", tails(lines, result.names())))
    ratios = fragmentation(result)
    if ratios:
        found.append(("Traces: peak RSS to peak live bytes (M7)", "", ratios))
    return found + [(f"Whole runs: {title}", "", rows) for title, rows in costs(result)]


def markdown(result: Result) -> str:
    parts = [(f"{note}\n\n" if note else "") + f"**{title}**\n\n{as_markdown(rows)}" for title, note, rows in sections(result)]
    parts += ["\n".join(f"- {key}: {value}" for key, value in facts(result)), "\n".join(f"- {note}" for note in result.notes)]
    return "\n".join(filter(None, parts)) + "\n"


def paging_text(result: Result) -> str:
    names = {"fault_ns": "a fault on a page of 4 KiB", "huge_fault_ns": "on one of 2 MiB", "tlb_miss_ns": "a miss of the TLB"}
    seen = ((text, result.paging(what)) for what, text in names.items())
    return ", ".join(f"{text} {'unknown' if ns is None else f'{ns:,.0f} ns'}" for text, ns in seen)


def save(result: Result, path: Path) -> None:
    path.write_text(markdown(result))
