"""hakmem diff: prints the difference on the terminal, and writes it as a self-contained page."""

from __future__ import annotations

import html
from itertools import accumulate

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.difference import Difference, Part, Side, Term, both_sums
from hakmem.figures import bytes_text, cut, time_text
from hakmem.page import Section, filled, table
from hakmem.plots import MIB, OUTSIDE, Plot, bars, escaped, plot
from hakmem.tables import plain_table

MORE, LESS, WHOLE = "#d1495b", "#2aa876", "#2f7ed8"
SITES = 12
NAME = 44  # most characters of a call site's name
ROOM_FOR_TEXT, ROOM_BESIDE = 1.25, 1.7


def page(difference: Difference) -> str:
    change, of_a, of_b = numbers(whole_of(difference))
    tiles = {f"{difference.of} of A": of_a, f"{difference.of} of B": of_b, "change": change}
    sides = "".join(f'<p class="note">{name}: {html.escape(side_text(side))}</p>' for name, side in (("A", difference.a), ("B", difference.b)))
    return filled(f"HAKMEM: {difference.of} {change}", tiles, sections(difference), tables(difference), before=sides)


def whole_of(difference: Difference) -> Part:
    """Returns the sum of all terms."""
    return Part(difference.of, difference.a.total, difference.b.total)


def sections(difference: Difference) -> list[Section]:
    note = "Each bar begins where the one above it ends: the terms add up to the difference."
    found = [(f"From A to B: {change_text(difference.change)}", note, waterfall(difference))]
    for name, title, note in (
        ("live", "Live bytes by call site", "The largest changes; an estimate from samples."),
        ("free in slabs", "Free blocks of slabs", "By the call site whose blocks pin them, and by size class; the largest changes."),
    ):
        term = next((term for term in difference.terms if term.name == name), None)
        parts = [part for part in term.parts if part.change][:SITES] if term else []
        if parts:
            found.append((title if any(part.frames for part in parts) else f"Changes of: {name}", note, changes(parts)))
    return found


def waterfall(difference: Difference) -> Plot:
    terms = [term for term in difference.terms if term.change]
    values = [difference.a.total, *[term.change for term in terms]]
    ends = [*accumulate(values), difference.b.total]
    trace = {
        "type": "waterfall",
        "orientation": "h",
        "measure": ["absolute", *["relative"] * len(terms), "total"],
        "y": ["A", *[term.name for term in terms], "B"],
        "x": [value / MIB for value in (*values, difference.b.total)],
        "text": [bytes_text(values[0]), *[change_text(term.change) for term in terms], bytes_text(difference.b.total)],
        "hovertemplate": "%{y}: %{text}<extra></extra>",
        **{kind: {"marker": {"color": color}} for kind, color in (("increasing", MORE), ("decreasing", LESS), ("totals", WHOLE))},
        **OUTSIDE,
    }
    widest = max(map(abs, ends)) / MIB
    return plot(
        [trace],
        yaxis={"showgrid": False, "autorange": "reversed"},
        xaxis={"title": {"text": "MiB"}, "range": [min(0, *ends) / MIB * ROOM_FOR_TEXT, widest * ROOM_FOR_TEXT]},
        height=max(240, 38 * len(ends) + 70),
        showlegend=False,
        margin={"l": 130},
        meta={"widest": widest},
    )


def changes(parts: list[Part]) -> Plot:
    """Returns a plot of the changes. The names are above the bars, because on a small screen there is no room beside them."""
    rows = parts[::-1]
    widest = max(abs(part.change) for part in parts) / MIB
    names = [f"{at}" for at in range(len(rows))]
    more = {"customdata": [escaped(part.name) for part in rows], "text": [numbers(part)[0] for part in rows], "width": 0.42}
    colors = [MORE if part.change > 0 else LESS for part in rows]
    text = "%{customdata}: %{text}<extra></extra>"
    trace = bars(names, [part.change / MIB for part in rows], colors, text, sideways=True, **more, **OUTSIDE)
    label = {"x": 0, "xref": "paper", "xanchor": "left", "yref": "y", "yanchor": "bottom", "yshift": 9, "showarrow": False}
    labels = [{**label, "y": at, "text": escaped(cut(part.name, NAME))} for at, part in enumerate(rows)]
    bounds = [-widest * ROOM_BESIDE if any(part.change < 0 for part in parts) else 0, widest * ROOM_BESIDE]
    return plot(
        [trace],
        xaxis={"title": {"text": "MiB"}, "range": bounds, "zeroline": True},
        yaxis={"showticklabels": False, "type": "category", "showgrid": False},
        annotations=labels,
        height=max(180, 46 * len(rows) + 80),
        showlegend=False,
        margin={"l": 20},
    )


def tables(difference: Difference) -> str:
    rows = [(term.name, *numbers(term), term.meaning) for term in difference.terms]
    rows.append((f"= {difference.of}", *numbers(whole_of(difference)), ""))
    found = [table("All terms", ("term", "change", "A", "B", "meaning"), rows, opened=True)]
    for term in difference.terms:
        found.append(table(f"{term.name}: {change_text(term.change)}", ("change", "A", "B", "meaning"), [row(part) for part in term.parts]))
    found.append(table("Settings that differ", ("option", "A", "B"), list(difference.settings)))
    found += [f'<p class="note">{html.escape(note)}</p>' for note in difference.notes]
    return "\n".join(part for part in found if part)


def numbers(of: Term | Part) -> tuple[str, str, str]:
    error = getattr(of, "error", 0)
    return change_text(of.change) + (f" ± {bytes_text(error)}" if error else ""), bytes_text(of.a), bytes_text(of.b)


def row(part: Part) -> tuple[str, ...]:
    whole = " < ".join(frame.text for frame in part.frames)
    prefix = "pinned by " if part.frames and part.name.startswith("pinned by ") else ""
    return (*numbers(part), prefix + whole if whole else part.name)


LEAST_SHARE = 200  # parts of less than 1/200 of the largest change are shown as one sum


def change_text(change: int) -> str:
    return "0" if change == 0 else f"{'+' if change > 0 else '-'}{bytes_text(abs(change))}"


def side_text(side: Side) -> str:
    at = f" at {time_text(side.seconds)}" if side.seconds is not None else ""
    process = f" (process {side.process}{at})" if side.process else ""
    return f"{side.path}{process}"


def head(difference: Difference) -> Text:
    what = "RSS" if difference.of == "RSS" else "live bytes"
    change, a, b = numbers(whole_of(difference))
    sides = f"  A  {side_text(difference.a)}\n  B  {side_text(difference.b)}\n  {what} "
    return Text.assemble(("hakmem diff\n", "bold cyan"), sides, (f"{a} → {b}", "bold"), f": {change}, {difference.change:+d} bytes\n")


def shown(parts: tuple[Part, ...], most: int, least: int) -> tuple[list[Part], Part | None]:
    """Returns the largest parts, and the sum of the others, or None if there are no others."""
    large = [part for part in parts if abs(part.change) >= least][:most]
    left = parts[len(large) :]
    return large, Part(f"{len(left)} others", *both_sums(left)) if left else None


def term_table(difference: Difference, most: int) -> Table:
    table = plain_table("", "change", "A", "B", "where", words=0)
    table.title = None
    table.columns[3].justify, table.columns[3].no_wrap, table.columns[3].overflow = "left", False, "fold"
    least = max((abs(term.change) for term in difference.terms), default=0) // LEAST_SHARE
    for term in difference.terms:
        if not term.a and not term.b:
            continue
        where = Text.assemble((term.name, "bold"), (f"  {term.meaning}", "dim"))
        change, a, b = numbers(term)
        color = "red" if term.change > 0 else "green" if term.change < 0 else "dim"
        table.add_row(Text(change, style=f"bold {color}"), a, b, where)
        if abs(term.change) <= least:
            continue
        large, others = shown(term.parts, most, least)
        for part in [*large, *([others] if others and others.change else [])]:
            table.add_row(*(Text(cell, style="dim") for cell in numbers(part)), Text(f"  {part.name}"))
    change, a, b = numbers(whole_of(difference))
    table.add_row(Text(f"= {change}", style="bold"), a, b, Text(difference.of, style="bold"))
    return table


def show(difference: Difference, console: Console, most: int) -> None:
    console.print(head(difference))
    console.print(term_table(difference, most))
    if difference.settings:
        console.print(Text())
        console.print(plain_table("Settings that differ", "option", "A", "B", rows=difference.settings, words=3))
    for note in difference.notes:
        console.print(Text(f"\n{note}", style="dim"))
