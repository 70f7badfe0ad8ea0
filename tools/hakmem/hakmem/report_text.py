"""hakmem report: prints reports on the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from hakmem import tree
from hakmem.explain import Decision, grouped
from hakmem.figures import bytes_text, count_text, percent_text, time_text
from hakmem.options import option_text
from hakmem.reports import Report
from hakmem.tables import (
    busiest,
    class_table,
    decision_table,
    group_table,
    moment_text,
    parts_table,
    parts_title,
    plain_table,
    policy_table,
    tier_table,
)

CLASS_ROWS = 20
DECISIONS = 20
GROUPS = 10


def headline(report: Report) -> Text:
    said = [
        f"served {count_text(report.number('served', 'malloc'))} allocations and {count_text(report.number('served', 'free'))} frees",
        f"{percent_text(report.hit_rate, 3)} hits",
        f"{count_text(report.number('threads'))} threads",
        f"resident {bytes_text(report.resident)}",
    ]
    return Text.assemble(
        ("HAKMEM ", "bold cyan"), str(report.at("version") or ""), f", {tree.title(report)}", *[f"\n  {line}" for line in said]
    )


def series_table(reports: list[Report]) -> RenderableType:
    """Returns a table with the first, highest and last value of each figure."""
    table = plain_table(f"Over {len(reports)} reports", "", "first", "highest", "last")
    for title, path in (
        ("resident", ("resident",)),
        ("mapped", ("mapped", "total")),
        ("live", ("mapped", "parts", "live")),
        ("idle", ("mapped", "parts", "idle")),
    ):
        values = [report.number(*path) for report in reports]
        known = [value for value in values if value is not None]
        table.add_row(title, bytes_text(values[0]), bytes_text(max(known) if known else None), bytes_text(values[-1]))
    table.add_row("time", *(time_text(reports[at].seconds) if at is not None else "" for at in (0, None, -1)))
    return table


def counter_table(report: Report) -> RenderableType:
    counters = {name: value for name, value in report.numbers("counters").items() if value}
    shown = {name: bytes_text if "bytes" in name or name == "purged_in_slabs" else count_text for name in counters}
    return plain_table("Nonzero counters", "counter", "value", rows=[(name, shown[name](value)) for name, value in counters.items()])


def option_table(report: Report) -> RenderableType:
    rows = [(name, option_text(name, value)) for name, value in report.options.items()]
    return plain_table("Options in effect", "option", "value", rows=rows)


def show(reports: list[Report], decisions: list[Decision], console: Console) -> None:
    last = reports[-1]
    shown = [headline(last), parts_table(last, parts_title(last, "was") + moment_text(last), explained=True), class_table(busiest(last, CLASS_ROWS))]
    if len(reports) > 1:
        shown.insert(1, series_table(reports))
    if rows := tree.processes(last):
        shown[1:1] = [tree.process_table(rows), plain_table("By command", *tree.COMMAND_HEAD, rows=tree.commands(rows)[: tree.ROWS]), Text(tree.NOTE, style="dim")]
    if last.tiers:
        shown.append(tier_table(last))
    if last.state or last.policy:
        shown.append(policy_table(last))
    if decisions:
        general, single = [decision for decision in decisions if decision.about_all], grouped(decisions)
        left_out = len(general) - DECISIONS
        title = f"Decisions ({left_out} earlier ones not shown)" if left_out > 0 else "Decisions"
        shown.append(decision_table(general[-DECISIONS:], title))
        if single:
            shown.append(group_table(single, GROUPS))
    options = [option_table(last)] if last.options else []
    console.print(Group(*[part for block in [*shown, counter_table(last), *options] for part in (block, "")]))
