"""hakmem report --html: writes reports as a self-contained page."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from hakmem import plots, tree
from hakmem.explain import Decision, grouped
from hakmem.figures import MISSING, bytes_text, count_text, percent_text, time_text
from hakmem.options import option_text
from hakmem.plots import Plot
from hakmem.reports import PARTS, Report, class_hit_rate
from hakmem.tables import CELLS, group_cells, moment_text

DECISIONS = 1000
Section = tuple[str, str, Plot]  # title, caption and plot
SENTENCES = ("seen", "why", "meaning")


def write(path: Path, reports: list[Report], decisions: list[Decision]) -> None:
    path.write_text(page(reports, decisions))


def page(reports: list[Report], decisions: list[Decision]) -> str:
    last = reports[-1]
    title = f"HAKMEM {last.at('version') or ''}: {tree.title(last)}"
    return filled(title, tiles(last), sections(reports, decisions), tables(last, decisions))


def filled(title: str, tiles: dict[str, str], sections: list[Section], tables: str, before: str = "") -> str:
    """Returns the page of reports, or of a difference. `before` is HTML that is put before the first section."""
    from plotly.offline import get_plotlyjs  # slow to import, and needed only here

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
        plotly=get_plotlyjs(),
    )


def tile_row(tiles: dict[str, str]) -> str:
    return "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for name, value in tiles.items())


def tiles(report: Report) -> dict[str, str]:
    return {
        "allocations": count_text(report.number("served", "malloc")),
        "hits": percent_text(report.hit_rate, 3),
        "resident": bytes_text(report.resident),
        "mapped by HAKMEM": bytes_text(report.number("mapped", "total")),
        "live": bytes_text(tree.live(report)),
        "threads": count_text(report.number("threads")),
        **({} if tree.processes(report) else {"state": report.state or MISSING, "time": time_text(report.seconds)}),
    }


def sections(reports: list[Report], decisions: list[Decision]) -> list[Section]:
    """Returns the title, caption and plot of each section. Plots without data are omitted."""
    last = reports[-1]
    kind = "resident" if last.resident_known else "mapped"
    found: list[tuple[str, str, Plot | None]] = [
        (
            f"Where the memory was{moment_text(last)}",
            f"The parts of the {kind} memory, which sum to all of it.",
            plots.memory_now(last),
        ),
        (
            "Memory per process",
            f"The parts of the {kind} memory of each process, the largest first. {tree.NOTE}",
            tree.memory_plot(tree.processes(last)) if tree.processes(last) else None,
        ),
        (
            "Memory over time",
            f"The parts of the {kind} memory, stacked; dotted: RSS by the kernel's count"
            + (", and the times of decisions." if decisions else "."),
            plots.memory_over_time(reports, decisions) if len(reports) > 1 else None,
        ),
        (
            "Decisions",
            "Each point is a decision; hover over it for its inputs and reason.",
            plots.decision_line(decisions) if decisions else None,
        ),
        (
            "Hit rate per size class",
            "Allocations served by the thread's bin alone.",
            plots.class_hits(last),
        ),
        ("Allocations per size class", "Blocks allocated in total, on a logarithmic scale.", plots.class_served(last)),
        ("Memory per size class", "The contents of each class's slabs.", plots.class_memory(last)),
    ]
    return [(title, note, plot) for title, note, plot in found if plot]


def tables(report: Report, decisions: list[Decision]) -> str:
    parts = [(name, bytes_text(size), PARTS.get(name, "")) for name, size in report.parts.items()]
    counters = [(name, count_text(value)) for name, value in report.numbers("counters").items()]
    found = [
        *decision_tables(decisions),
        table("Processes", tree.HEAD, list(map(tree.cells, tree.processes(report))), opened=True),
        table("By command", tree.COMMAND_HEAD, tree.commands(tree.processes(report))),
        table("Policy", ("value", "now"), [(name, option_text(name, value)) for name, value in report.policy.items()]),
        table("Parts", ("part", "bytes", "meaning"), parts),
        class_table(report),
        table("Counters", ("counter", "value"), counters),
        table("Options in effect", ("option", "value"), [(name, option_text(name, value)) for name, value in report.options.items()]),
    ]
    return "\n".join(part for part in found if part)


def decision_tables(decisions: list[Decision]) -> tuple[str, str]:
    general = [decision for decision in decisions if decision.about_all]
    return (
        table(
            "Decisions",
            ("at", "who", "what", "change", "seen", "why"),
            [(time_text(d.seconds), d.who, d.what, d.change, d.seen_text, d.why) for d in general[-DECISIONS:]],
            opened=True,
        ),
        table(
            "Decisions about single size classes",
            ("class", "what", "decisions", "last at", "first → last", "why, the last time"),
            [(*group_cells(group), group.last.why) for group in grouped(decisions)],
        ),
    )


def class_table(report: Report) -> str:
    columns = ("class", "tier", "served", "hits", "live", "in bins", "in slabs", "slabs")
    cells = CELLS | {"hits": lambda row: percent_text(class_hit_rate(row), 3)}
    rows = [tuple(cells[name](row) for name in columns) for row in report.classes]
    return table("Size classes", ["free in slabs" if name == "in slabs" else name for name in columns], rows)


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
