"""hakmem report: prints reports on the terminal, and writes them as a self-contained page."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from hakmem import plots, tree
from hakmem.explain import Decision, grouped
from hakmem.figures import MISSING, bytes_text, count_text, percent_text, time_text
from hakmem.options import option_text
from hakmem.plots import Plot
from hakmem.reports import PARTS, Report, class_hit_rate
from hakmem.tables import CELLS, busiest, class_table, decision_table, group_cells, group_table, moment_text
from hakmem.tables import parts_table, parts_title, plain_table, policy_table, tier_table

DECISIONS = 1000
Section = tuple[str, str, Plot]  # title, caption and plot
SENTENCES = ("seen", "why", "meaning")


def page(reports: list[Report], decisions: list[Decision]) -> str:
    last = reports[-1]
    title = f"HAKMEM {last.at('version') or ''}: {tree.title(last)}"
    return filled(title, tiles(last, peak(reports)), sections(reports, decisions), tables(last, decisions))


def filled(title: str, tiles: dict[str, str], sections: list[Section], tables: str, before: str = "") -> str:
    """Returns the page of reports, or of a difference. `before` is HTML that is put before the first section."""
    figures = {f"plot{index}": plot for index, (_, _, plot) in enumerate(sections)}
    body = "\n".join(
        f'<section><h2>{html.escape(title)}</h2><p class="note">{html.escape(note)}</p><div class="plot" id="plot{index}"></div></section>'
        for index, (title, note, _) in enumerate(sections)
    )
    # "</" would end the script element that holds the data.
    return Template(resources.files("hakmem").joinpath("page.html").read_text()).substitute(
        title=html.escape(title),
        tiles=tile_row(tiles),
        plots=before + body,
        tables=tables,
        data=json.dumps(figures).replace("</", "<\\/"),
    )


def tile_row(tiles: dict[str, str]) -> str:
    return "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for name, value in tiles.items())


def peak(reports: list[Report]) -> float | None:
    """Returns the highest RSS. Reports of older libraries say only what was resident when they were written."""
    return max((size for one in reports for size in (one.number("resident_peak"), one.resident) if size), default=None)


def tiles(report: Report, peak_rss: float | None = None) -> dict[str, str]:
    more = {"PSS": report.number("resident_pss")} if tree.processes(report) else {"peak RSS": peak_rss}
    return {
        "allocations": count_text(report.number("served", "malloc")),
        "hits": percent_text(report.hit_rate, 3),
        "resident": bytes_text(report.resident),
        **{name: bytes_text(size) for name, size in more.items()},
        "mapped by HAKMEM": bytes_text(report.number("mapped", "total")),
        "live": bytes_text(tree.live(report)),
        "threads": count_text(report.number("threads")),
        **({} if tree.processes(report) else {"state": report.state or MISSING, "time": time_text(report.seconds)}),
    }


def sections(reports: list[Report], decisions: list[Decision]) -> list[Section]:
    """Returns the title, caption and plot of each section. Plots without data are omitted."""
    last = reports[-1]
    kind = "resident" if last.resident_known else "mapped"
    of_each = f"The parts of the {kind} memory of each process, the largest first. {tree.NOTE}"
    over_time = f"The parts of the {kind} memory, stacked; dotted: RSS by the kernel's count{', and the times of decisions' if decisions else ''}."
    found: list[tuple[str, str, Plot | None]] = [
        (f"Where the memory was{moment_text(last)}", f"The parts of the {kind} memory, which sum to all of it.", plots.memory_now(last)),
        ("Memory per process", of_each, tree.memory_plot(tree.processes(last)) if tree.processes(last) else None),
        ("Memory over time", over_time, plots.memory_over_time(reports, decisions) if len(reports) > 1 else None),
        ("Decisions", "Each point is a decision; hover over it for its inputs and reason.", plots.decision_line(decisions) if decisions else None),
        ("Hit rate per size class", "Allocations served by the thread's bin alone.", plots.class_hits(last)),
        ("Allocations per size class", "Blocks allocated in total, on a logarithmic scale.", plots.class_served(last)),
        ("Memory per size class", "The contents of each class's slabs.", plots.class_memory(last)),
    ]
    return [(title, note, plot) for title, note, plot in found if plot]


def tables(report: Report, decisions: list[Decision]) -> str:
    general = [decision for decision in decisions if decision.about_all][-DECISIONS:]
    told = [(time_text(d.seconds), d.who, d.what, d.change, d.seen_text, d.why) for d in general]
    groups = [(*group_cells(group), group.last.why) for group in grouped(decisions)]
    processes = tree.processes(report)
    parts = [(name, bytes_text(size), PARTS.get(name, "")) for name, size in report.parts.items()]
    counters = [(name, count_text(value)) for name, value in report.numbers("counters").items()]
    cells = CELLS | {"hits": lambda row: percent_text(class_hit_rate(row), 3)}
    columns = {name: name for name in ("class", "tier", "served", "hits", "live", "in bins")} | {"in slabs": "free in slabs", "slabs": "slabs"}
    classes = [[cells[name](row) for name in columns] for row in report.classes]
    group_head = ("class", "what", "decisions", "last at", "first → last", "why, the last time")
    found = [
        table("Decisions", ("at", "who", "what", "change", "seen", "why"), told, opened=True),
        table("Decisions about single size classes", group_head, groups),
        table("Processes", tree.HEAD, list(map(tree.cells, processes)), opened=True),
        table("By command", tree.COMMAND_HEAD, tree.commands(processes)),
        table("Policy", ("value", "now"), option_rows(report.policy)),
        table("Parts", ("part", "bytes", "meaning"), parts),
        table("Size classes", list(columns.values()), classes),
        table("Counters", ("counter", "value"), counters),
        table("Options in effect", ("option", "value"), option_rows(report.options)),
    ]
    return "\n".join(filter(None, found))


def option_rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, option_text(name, value)) for name, value in values.items()]


def cell(column: str, value: object) -> str:
    """Returns a cell of a table. Only sentences wrap, so in a narrow window, the table scrolls."""
    kind = ' class="text"' if column.startswith(SENTENCES) else ""
    return f"<td{kind}>{html.escape(str(value))}</td>"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], opened: bool = False) -> str:
    if not rows:
        return ""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(cell, head, row))}</tr>" for row in rows)
    return (
        f'<details{" open" if opened else ""}><summary>{html.escape(title)}</summary><div class="wide"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


CLASS_ROWS = 20
SHOWN_DECISIONS = 20
GROUPS = 10


def headline(report: Report) -> Text:
    said = [
        f"served {count_text(report.number('served', 'malloc'))} allocations and {count_text(report.number('served', 'free'))} frees",
        f"{percent_text(report.hit_rate, 3)} hits",
        f"{count_text(report.number('threads'))} threads",
        f"resident {bytes_text(report.resident)}",
    ]
    return Text.assemble(("HAKMEM ", "bold cyan"), str(report.at("version") or ""), f", {tree.title(report)}", *[f"\n  {line}" for line in said])


def series_table(reports: list[Report]) -> RenderableType:
    """Returns a table with the first, highest and last value of each figure."""
    table = plain_table(f"Over {len(reports)} reports", "", "first", "highest", "last")
    for title, path in (("resident", "resident"), ("mapped", "mapped total"), ("live", "mapped parts live"), ("idle", "mapped parts idle")):
        values = [report.number(*path.split()) for report in reports]
        highest = max((value for value in values if value is not None), default=None)
        table.add_row(title, *map(bytes_text, (values[0], highest, values[-1])))
    table.add_row("time", *(time_text(reports[at].seconds) if at is not None else "" for at in (0, None, -1)))
    return table


def counter_table(report: Report) -> RenderableType:
    rows = [(name, bytes_text(value) if "bytes" in name or name == "purged_in_slabs" else count_text(value))
            for name, value in report.numbers("counters").items() if value]
    return plain_table("Nonzero counters", "counter", "value", rows=rows)


def show(reports: list[Report], decisions: list[Decision], console: Console) -> None:
    last = reports[-1]
    shown = [headline(last), parts_table(last, parts_title(last, "was") + moment_text(last), explained=True), class_table(busiest(last, CLASS_ROWS))]
    if len(reports) > 1:
        shown.insert(1, series_table(reports))
    if rows := tree.processes(last):
        by_command = plain_table("By command", *tree.COMMAND_HEAD, rows=tree.commands(rows)[: tree.ROWS])
        shown[1:1] = [tree.process_table(rows), by_command, Text(tree.NOTE, style="dim")]
    if last.tiers:
        shown.append(tier_table(last))
    if last.state or last.policy:
        shown.append(policy_table(last))
    if decisions:
        general, single = [decision for decision in decisions if decision.about_all], grouped(decisions)
        left_out = len(general) - SHOWN_DECISIONS
        title = f"Decisions ({left_out} earlier ones not shown)" if left_out > 0 else "Decisions"
        shown.append(decision_table(general[-SHOWN_DECISIONS:], title))
        if single:
            shown.append(group_table(single, GROUPS))
    options = [plain_table("Options in effect", "option", "value", rows=option_rows(last.options))] if last.options else []
    console.print(Group(*[part for block in [*shown, counter_table(last), *options] for part in (block, "")]))
