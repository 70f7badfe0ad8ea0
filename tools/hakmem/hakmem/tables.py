"""The tables shared by `hakmem top` and `hakmem report`, in rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem.explain import Decision
from hakmem.figures import MISSING, bytes_text, count_text, percent_text, time_text, unit_text
from hakmem.reports import PARTS, Report, class_hit_rate

BAR = 24


def plain_table(title: str, *columns: str, words: int = 1) -> Table:
    """The first `words` columns hold text, the others numbers."""
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
        show_edge=False,
    )
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < words else "right", no_wrap=True)
    return table


def bar(share: float) -> Text:
    full = round(max(0.0, min(1.0, share)) * BAR)
    return Text("█" * full, style="cyan") + Text("·" * (BAR - full), style="dim")


def parts_table(report: Report, explained: bool = True) -> Table:
    """explained=False: for small screens; omits the meanings and the empty parts."""
    resident = report.resident_known
    total = report.resident if resident else report.number("mapped", "total")
    table = Table(
        title="Where the resident memory is" if resident else "Where the mapped memory is",
        title_style="bold",
        title_justify="left",
        box=None,
        padding=(0, 1),
        pad_edge=False,
        show_header=False,
    )
    for justify in ("left", "right", "left", *(["left"] if explained else [])):
        table.add_column(justify=justify, no_wrap=True)
    parts = {name: size for name, size in report.parts.items() if size or explained}
    for name, size in parts.items():
        meaning = [Text(PARTS.get(name, ""), style="dim")] if explained else []
        table.add_row(name, bytes_text(size), bar(size / total if total else 0), *meaning)
    table.add_row("= resident" if resident else "= mapped", bytes_text(total), style="bold")
    return table


def class_table(rows: Sequence[dict], rates: Sequence[str] | None = None) -> Table:
    """rates: allocations per second of each row, shown in place of the total."""
    served = rates or [count_text(row.get("served")) for row in rows]
    columns = ("class", "tier", "allocs/s" if rates else "served", "hits", "live", "in bins", "in slabs")
    table = plain_table("Size classes", *columns, words=0)
    for row, count in zip(rows, served):
        table.add_row(
            bytes_text(row.get("size")),
            str(row.get("tier", MISSING)),
            count,
            percent_text(class_hit_rate(row)),
            bytes_text(row.get("live")),
            bytes_text(row.get("in_bins")),
            bytes_text(row.get("free_in_slabs")),
        )
    if not rows:
        table.add_row(*[MISSING] * len(columns))
    return table


def tier_table(report: Report) -> Table:
    table = plain_table("Tiers", "tier", "served", "hits", "live", "rounding", "in bins", "in slabs")
    for row in report.tiers:
        table.add_row(
            str(row.get("tier", MISSING)),
            count_text(row.get("served")),
            percent_text(class_hit_rate(row) if row.get("served") else None),
            bytes_text(row.get("live")),
            bytes_text(row.get("rounding")),
            bytes_text(row.get("in_bins")),
            bytes_text(row.get("free_in_slabs")),
        )
    return table


def busiest(report: Report, count: int) -> list[dict]:
    return sorted(report.classes, key=lambda row: -(row.get("served") or 0))[:count]


def policy_table(report: Report) -> Table:
    table = plain_table("Policy", "value", "now")
    table.add_row("state", Text(report.state or MISSING, style="bold magenta"))
    for name, value in report.policy.items():
        table.add_row(name, unit_text(value, ""))
    return table


def decision_table(decisions: Iterable[Decision], title: str = "Last decisions", wrap: bool = False) -> Table:
    table = plain_table(title)
    for name, least in (("at", 6), ("who", 8), ("what", 11), ("change", 18), ("why", 10)):
        table.add_column(
            name, justify="right" if name == "at" else "left", no_wrap=not wrap or name != "why", min_width=least
        )
    for decision in decisions:
        table.add_row(
            time_text(decision.seconds), decision.who, decision.what, decision.change, Text(decision.why, style="dim")
        )
    if not table.row_count:
        table.add_row(MISSING, MISSING, MISSING, MISSING, MISSING)
    return table
