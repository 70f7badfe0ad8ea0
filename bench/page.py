"""Writes the result as one self-contained HTML page."""

from __future__ import annotations

import math
from pathlib import Path

import jinja2
from markupsafe import Markup

import plots
import tables
import verdicts
from confidence import Verdict
from results import Result
from verdicts import Line

HERE = Path(__file__).resolve().parent
FAR = 4.0  # times the best: the darkest
DARKEST = 0.7
TEXT_COLUMNS = ("row", "work", "unit", "best peer", "verdict", "goal")


def save(result: Result, path: Path) -> None:
    path.write_text(render(result))


def render(result: Result) -> str:
    loader = jinja2.FileSystemLoader(HERE)
    page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    lines = result.lines()
    charts = {group: plots.charts(result, group) for group in plots.CHARTS}
    return page.get_template("page.html").render(
        variables=Markup(plots.variables()),
        summary=summary(result),
        tally=tally(lines),
        how_to_read=tables.HOW_TO_READ.replace("*", "").replace("`", ""),
        families=families(lines, result),
        names=columns(result),
        exact=tables.exact(result),
        how_to_read_exact=f"{tables.HOW_TO_READ_EXACT} {tables.paging_text(result)}.".replace("*", ""),
        charts={group: svg and Markup(svg) for group, svg in charts.items()},
        ratios=tables.fragmentation(result),
        judged=tables.judged(lines),
        text_columns=TEXT_COLUMNS,
        costs=tables.costs(result),
        facts=tables.facts(result),
        notes=result.notes,
    )


def columns(result: Result) -> list[str]:
    """HAKMEM first, so that it is seen on a narrow screen, too."""
    return result.names("hakmem", "peer", "limit")


def summary(result: Result) -> str:
    peers, machine = len(result.names("peer")), result.machine
    begun = result.parts[0]["began"][:10]
    return (
        f"{begun} · {len(result.points)} rows, {peers} peers · "
        f"{machine.get('cpu', '?')}, {machine.get('processors', '?')} processors · "
        f"commit {result.hakmem.get('commit', 'unknown')[:10]}"
    )


def tally(lines: list[Line]) -> list[dict]:
    cards = (
        (Verdict.AHEAD, "ahead", "rows: ahead of every peer"),
        (Verdict.LEVEL, "level", "rows: level with one peer or more, no difference shown"),
        (Verdict.BEHIND, "behind", "rows: a peer is shown to be better"),
        (Verdict.UNKNOWN, "unknown", "rows: too few rounds to tell"),
    )
    found = [line.verdict() for line in lines]
    counted = [{"count": found.count(v), "kind": kind, "text": text} for v, kind, text in cards]
    return [card for card in counted if card["count"] or card["kind"] != "unknown"]


def families(lines: list[Line], result: Result) -> list[dict]:
    by_title: dict[str, list[Line]] = {}
    for line in lines:
        by_title.setdefault(family_of(line), []).append(line)
    return [family(title, members, result) for title, members in by_title.items()]


def family_of(line: Line) -> str:
    if line.point.work.exact:
        return "Real programs, counted"
    if line.is_memory:
        return "Memory, faults and system calls"
    if line.point.row.startswith("P16"):
        return "Real programs"
    return "Speed" if line.is_goal_row else "Patterns of many kinds"


def family(title: str, lines: list[Line], result: Result) -> dict:
    """Rows that belong together, and their pictures; none where HAKMEM did not run."""
    heat = [
        {"label": line.point.label, "row": line.point.row, "unit": f"{line.point.unit} {'↑' if line.point.higher else '↓'}",
         "cells": [heat_cell(line, name) for name in columns(result)]}
        for line in lines
    ]
    shown = [line for line in lines if line.versus]
    pictures = (Markup(plots.to_best(shown)), Markup(plots.to_each(shown, result.names("peer")))) if shown else (None, None)
    return {"title": title, "to_best": pictures[0], "to_each": pictures[1], "heat": heat}


def heat_cell(line: Line, name: str) -> dict:
    """The limit is no allocator: it has no place in the order. "much" says how dark the cell is."""
    value, own = line.medians.get(name), name == verdicts.OWN
    if value is None:
        return {"text": "–", "much": "0", "note": "not measured", "first": False, "own": own}
    worse = times_worse(line, value) if name != verdicts.LIMIT else 1.0
    much = DARKEST * min(1.0, math.log(worse) / math.log(FAR))
    note = f"{name}: {worse:.2f} × the best, spread {100 * line.spread[name]:.0f} %"
    first = name != verdicts.LIMIT and worse <= 1.0
    return {"text": tables.number(value), "much": f"{much:.2f}", "note": note, "first": first, "own": own}


def times_worse(line: Line, value: float) -> float:
    """Than the best of the row. Beside a best of 0 there is no measure."""
    ranked = [v for name, v in line.medians.items() if name != verdicts.LIMIT]
    best = max(ranked) if line.point.higher else min(ranked)
    over, under = (best, value) if line.point.higher else (value, best)
    return max(1.0, over / under) if under else 1.0
