"""Combines the reports of many processes, one of each. Makes their sum, a row for each process, and rows by command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import RenderableType

from hakmem.figures import MISSING, as_number, bytes_text, count_text, cut, percent_text, time_text
from hakmem.plots import COLORS, MIB, OTHER_COLOR, Plot, bars, plot
from hakmem.reports import PARTS, Report
from hakmem.tables import plain_table

ROWS = 20
TITLE = 32  # most characters of a title
DRAWN = 40
SUMMED = ("served", "resident", "resident_statm", "resident_pss", "resident_parts", "virtual", "mapped", "idle", "counters", "threads")
KEYED = {"tiers": "tier", "classes": "size"}  # lists of rows; rows with the same value of this key are added
NOTE = "Pages that processes share count in the RSS of each of them, and once in the sum of PSS. A forked process begins with the counts of its parent."


def last_of_each(reports: Iterable[Report]) -> list[Report]:
    """Returns the latest report of each process, the largest process first."""
    latest: dict[float | None, Report] = {}
    for report in sorted(reports, key=lambda report: (report.seconds or 0, report.written)):
        latest[report.number("process")] = report
    return sorted(latest.values(), key=lambda report: -(report.resident or 0))


def added(one: object, other: object) -> object:
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: added(one.get(key), other.get(key)) for key in dict.fromkeys([*one, *other])}
    numbers = [x for x in map(as_number, (one, other)) if x is not None]
    return sum(numbers) if numbers else one if one is not None else other


def rows_added(reports: Sequence[Report], name: str, key: str) -> list[dict]:
    found: dict[object, dict] = {}
    for report in reports:
        for row in report.rows(name):
            kept = {field: value for field, value in row.items() if field != "hit_rate"}
            named = {name: kept[name] for name in ("tier",) if name in kept}
            found[row.get(key)] = {**added(found.get(row.get(key), {}), kept), key: row.get(key), **named}
    return sorted(found.values(), key=lambda row: row.get("size") or 0)


def total(reports: Sequence[Report]) -> Report:
    """Returns one report with the sums. Its key `processes` has a row for each process."""
    data: dict = {"version": reports[0].at("version"), "processes": [process_row(report) for report in reports]}
    for report in reports:
        data |= {name: added(data.get(name), report.at(name)) for name in SUMMED if report.at(name) is not None}
    data |= {name: rows_added(reports, name, key) for name, key in KEYED.items()}
    return Report(data)


def process_row(report: Report) -> dict:
    return {
        **{key: report.at(key) for key in ("process", "parent", "command", "title")},
        "time_ms": report.number("time_ms"),
        "malloc": report.number("served", "malloc"),
        "free": report.number("served", "free"),
        "hit_rate": report.hit_rate,
        "resident": report.resident,
        "pss": report.number("resident_pss") or None,
        "peak": report.number("resident_peak") or None,
        "mapped": report.number("mapped", "total"),
        "parts": report.parts,
        "live": live(report),
    }


def live(report: Report) -> float:
    return sum(report.numbers("mapped", "parts").get(name, 0) for name in ("live", "large_live"))


def processes(report: Report) -> list[dict]:
    """Returns the rows of the processes in a sum. The report of one process has none."""
    return report.listed("processes")


def title(report: Report) -> str:
    rows = processes(report)
    return f"{len(rows)} processes" if rows else f"process {report.at('process') or MISSING}"


HEAD = ("command", "process", "parent", "served", "hits", "PSS", "RSS", "peak RSS", "live", "time")


def name(row: dict) -> str:
    """Returns the title that the program has set, for example "nginx: worker process", or else the command. A title has a space."""
    title = str(row.get("title") or "").strip()
    return cut(title, TITLE) if " " in title else str(row.get("command") or MISSING)


def cells(row: dict) -> tuple[str, ...]:
    return (
        name(row),
        *(str(row.get(key) or MISSING) for key in ("process", "parent")),
        count_text(row.get("malloc")),
        percent_text(row.get("hit_rate")),
        *(bytes_text(row.get(key)) for key in ("pss", "resident", "peak", "live")),
        time_text(row["time_ms"] / 1000 if row.get("time_ms") is not None else None),
    )


def process_table(rows: list[dict]) -> RenderableType:
    more = len(rows) - ROWS
    return plain_table("Processes" + (f" ({more} smaller ones not shown)" if more > 0 else ""), *HEAD, rows=map(cells, rows[:ROWS]))


def commands(rows: list[dict]) -> list[tuple[str, ...]]:
    """Returns the command, processes, allocations, PSS, resident and live bytes of each command, the largest first."""
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(str(row.get("command") or MISSING), []).append(row)
    sums = [(name, len(mine), *(sum(row.get(key) or 0 for row in mine) for key in ("malloc", "pss", "resident", "live"))) for name, mine in groups.items()]
    ordered = sorted(sums, key=lambda group: -group[4])
    return [(name, count_text(n), count_text(served), *map(bytes_text, sizes)) for name, n, served, *sizes in ordered]


COMMAND_HEAD = ("command", "processes", "served", "PSS", "RSS", "live")


def memory_plot(rows: list[dict]) -> Plot:
    """Returns a plot with a bar for each process, which is stacked from its parts."""
    shown = rows[:DRAWN][::-1]
    labels = [f"{name(row)} {row.get('process')}" for row in shown]
    seen = {name for row in shown for name, size in (row.get("parts") or {}).items() if size}
    parts = [name for name in PARTS if name in seen] + sorted(seen - set(PARTS))
    traces = [
        bars(labels, [(row.get("parts") or {}).get(name, 0) / MIB for row in shown], COLORS.get(name, OTHER_COLOR),
             "%{y}: %{x:.1f} MiB", sideways=True, name=name)
        for name in parts
    ]
    return plot(
        traces,
        barmode="stack",
        xaxis={"title": {"text": "MiB"}},
        yaxis={"type": "category", "automargin": True},
        height=max(260, 26 * len(shown) + 130),
    )


def write_json(path: str, report: Report) -> None:
    text = json.dumps(report.data, indent=1) + "\n"
    if path == "-":
        print(text, end="")
    else:
        Path(path).write_text(text)
