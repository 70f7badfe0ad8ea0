"""hakmem diff: prints the difference on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.difference import Difference, Part, Side
from hakmem.figures import bytes_text, time_text
from hakmem.tables import plain_table

LEAST_SHARE = 200  # parts of less than 1/200 of the largest change are shown as one sum


def change_text(change: int) -> str:
    return "0" if change == 0 else f"{'+' if change > 0 else '-'}{bytes_text(abs(change))}"


def side_text(side: Side) -> str:
    at = f" at {time_text(side.seconds)}" if side.seconds is not None else ""
    process = f" (process {side.process}{at})" if side.process else ""
    return f"{side.path}{process}"


def head(difference: Difference) -> Text:
    what = "RSS" if difference.of == "RSS" else "live bytes"
    return Text.assemble(
        ("hakmem diff\n", "bold cyan"),
        f"  A  {side_text(difference.a)}\n  B  {side_text(difference.b)}\n  {what} ",
        (f"{bytes_text(difference.a.total)} → {bytes_text(difference.b.total)}", "bold"),
        f": {change_text(difference.change)}, {difference.change:+d} bytes\n",
    )


def shown(parts: tuple[Part, ...], most: int, least: int) -> tuple[list[Part], Part | None]:
    """Returns the largest parts, and the sum of the others, or None if there are no others."""
    large = [part for part in parts if abs(part.change) >= least][:most]
    left = parts[len(large) :]
    if not left:
        return large, None
    return large, Part(f"{len(left)} others", sum(part.a for part in left), sum(part.b for part in left))


def style(change: int) -> str:
    return "red" if change > 0 else "green" if change < 0 else "dim"


def term_table(difference: Difference, most: int) -> Table:
    table = plain_table("", "change", "A", "B", "where", words=0)
    table.title = None
    table.columns[3].justify, table.columns[3].no_wrap, table.columns[3].overflow = "left", False, "fold"
    least = max((abs(term.change) for term in difference.terms), default=0) // LEAST_SHARE
    for term in difference.terms:
        if not term.a and not term.b:
            continue
        where = Text.assemble((term.name, "bold"), (f"  {term.meaning}", "dim"))
        table.add_row(Text(change_text(term.change), style=f"bold {style(term.change)}"), bytes_text(term.a), bytes_text(term.b), where)
        if abs(term.change) <= least:
            continue
        large, others = shown(term.parts, most, least)
        for part in [*large, *([others] if others and others.change else [])]:
            cells = (change_text(part.change), bytes_text(part.a), bytes_text(part.b))
            table.add_row(*(Text(cell, style="dim") for cell in cells), Text(f"  {part.name}"))
    table.add_row(
        Text(f"= {change_text(difference.change)}", style="bold"),
        bytes_text(difference.a.total),
        bytes_text(difference.b.total),
        Text(difference.of, style="bold"),
    )
    return table


def show(difference: Difference, console: Console, most: int) -> None:
    console.print(head(difference))
    console.print(term_table(difference, most))
    if difference.settings:
        console.print(Text())
        console.print(plain_table("Settings that differ", "option", "A", "B", rows=difference.settings, words=3))
    for note in difference.notes:
        console.print(Text(f"\n{note}", style="dim"))
