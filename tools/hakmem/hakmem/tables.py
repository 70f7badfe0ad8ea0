"""Makes the tables that `hakmem top` and `hakmem report` share, with the library rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from hakmem.explain import Decision, Group
from hakmem.figures import MISSING, bytes_text, count_text, percent_text, time_text
from hakmem.options import option_text
from hakmem.reports import PARTS, Report, class_hit_rate

BAR = 24
LEAST_REASON = 20  # a reason in fewer columns is useless
# Maps each column to the text of its cell for a size class or a tier.
CELLS: dict[str, Callable[[dict], str]] = {
    "class": lambda row: bytes_text(row.get("size")),
    "tier": lambda row: str(row.get("tier", MISSING)),
    "served": lambda row: count_text(row.get("served")),
    "hits": lambda row: percent_text(class_hit_rate(row)),
    "live": lambda row: bytes_text(row.get("live")),
    "rounding": lambda row: bytes_text(row.get("rounding")),
    "in bins": lambda row: bytes_text(row.get("in_bins")),
    "in slabs": lambda row: bytes_text(row.get("free_in_slabs")),
    "slabs": lambda row: count_text(row.get("slabs")),
}
DECISION_COLUMNS = ("at", "who", "what", "change", "why")


def plain_table(title: str, *columns: str, rows: Iterable[Iterable[str | Text]] = (), words: int = 1, dense: bool = False) -> Table:
    """The first `words` columns hold text, the others numbers. dense: for small screens, without title and rules."""
    table = Table(
        title=None if dense else title,
        title_style="bold",
        title_justify="left",
        box=None if dense else box.SIMPLE_HEAD,
        header_style="dim" if dense else "bold",
        padding=(0, 1, 0, 0) if dense else (0, 1),
        pad_edge=False,
        show_edge=False,
    )
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def bar(share: float, width: int = BAR) -> Text:
    full = round(max(0.0, min(1.0, share)) * width)
    return Text("█" * full, style="cyan") + Text("·" * (width - full), style="dim")


def parts_title(report: Report, verb: str) -> str:
    return f"Where the {'resident' if report.resident_known else 'mapped'} memory {verb}"


def moment_text(report: Report) -> str:
    return f" at {time_text(report.seconds)}" if report.seconds is not None else ""


def summed(parts: dict[str, float], most: int | None) -> dict[str, float]:
    """Returns at most `most` parts. The smallest ones are shown as one sum."""
    if most is None or len(parts) <= most:
        return parts
    kept = sorted(parts, key=lambda name: -parts[name])[: max(0, most - 1)]
    others = {f"{len(parts) - len(kept)} others": sum(size for name, size in parts.items() if name not in kept)}
    return {name: size for name, size in parts.items() if name in kept} | others


def parts_table(report: Report, title: str = "", bar_width: int = BAR, explained: bool = False, most: int | None = None) -> Table:
    """explained: with the meanings and the empty parts. most: rows, of which the last is the sum of all parts."""
    table = plain_table(title)
    table.title, table.box, table.padding, table.show_header = title or None, None, (0, 1, 0, 0), False
    for justify in ("left", "right", *(["left"] if bar_width > 0 else []), *(["left"] if explained else [])):
        table.add_column(justify=justify, no_wrap=True)
    total = report.resident if report.resident_known else report.number("mapped", "total")
    parts = {name: size for name, size in report.parts.items() if size or explained}
    for name, size in summed(parts, most - 1 if most is not None else None).items():
        if size or explained:
            drawn = [bar(size / total if total else 0, bar_width)] if bar_width > 0 else []
            meaning = [Text(PARTS.get(name, ""), style="dim")] if explained else []
            table.add_row(name, bytes_text(size), *drawn, *meaning)
    table.add_row("= resident" if report.resident_known else "= mapped", bytes_text(total), style="bold")
    return table


def class_table(
    rows: Sequence[dict], rates: Sequence[str] | None = None, dense: bool = False, tiers: bool = True, heading: Callable[[str], str] = str
) -> Table:
    """Returns the table of size classes. If `rates` is given, it shows these allocations per second in place of the totals. `heading` returns the
    heading of a column."""
    columns = ["class", *(["tier"] if tiers else []), "served", "hits", "live", "in bins", "in slabs"]
    heads = [heading("allocs/s" if rates and name == "served" else name) for name in columns]
    cells = [[rates[at] if rates and name == "served" else CELLS[name](row) for name in columns] for at, row in enumerate(rows)]
    return plain_table("Size classes", *heads, rows=cells or [[MISSING] * len(columns)], words=0, dense=dense)


def tier_table(report: Report) -> Table:
    columns = ("tier", "served", "hits", "live", "rounding", "in bins", "in slabs")
    rows = [[CELLS[name](row) if name != "hits" or row.get("served") else MISSING for name in columns] for row in report.tiers]
    return plain_table("Tiers", *columns, rows=rows)


def busiest(report: Report, count: int) -> list[dict]:
    return sorted(report.classes, key=lambda row: -(row.get("served") or 0))[:count]


def policy_table(report: Report, dense: bool = False, most: int | None = None) -> Table:
    knobs = [(name, option_text(name, value)) for name, value in report.policy.items()]
    rows = [("state", Text(report.state or MISSING, style="bold magenta")), *(knobs if most is None else knobs[: max(0, most - 1)])]
    table = plain_table("Policy", "value", "now", rows=rows, dense=dense)
    table.show_header = not dense
    return table


def decision_table(decisions: Iterable[Decision], title: str = "Last decisions", width: int = 0, dense: bool = False) -> Table:
    """width: of the screen, where each decision has one line: the reason alone is cut, or left out where no room is.
    Without it, the reason wraps."""
    rows = [(time_text(one.seconds), one.who, one.what, one.change, one.why) for one in decisions] or [(MISSING,) * 5]
    table = plain_table(title, dense=dense)
    gap = 1 if dense else 3
    least = [max(map(cell_len, column)) for column in zip(DECISION_COLUMNS, *rows)]
    left = width - sum(least[:4]) - 4 * gap - 1
    shown = 5 if not width or left >= LEAST_REASON else 4
    for name, size in list(zip(DECISION_COLUMNS, least))[:shown]:
        if name == "why":
            table.add_column(name, no_wrap=bool(width), max_width=left if width else None, style="dim")
        else:
            table.add_column(name, justify="right" if name == "at" else "left", no_wrap=True, min_width=size)
    for row in rows:
        table.add_row(*map(Text, row[:shown]))
    return table


def group_table(groups: Sequence[Group], most: int) -> Table:
    """Returns the table of decisions about single bins, with one row for each class."""
    more = len(groups) - most
    title = "Decisions about single size classes" + (f" ({more} classes not shown)" if more > 0 else "")
    return plain_table(title, "class", "what", "decisions", "last at", "first → last", rows=map(group_cells, groups[:most]), words=2)


def group_cells(group: Group) -> tuple[str, str, str, str, str]:
    return bytes_text(group.size), group.what, count_text(group.count), time_text(group.last.seconds), group.change
