"""hakmem diff --html: writes the difference as a self-contained page."""

from __future__ import annotations

import html
from itertools import accumulate
from pathlib import Path

from hakmem.difference import Difference, Part, Term
from hakmem.difference_text import change_text, side_text
from hakmem.figures import bytes_text, cut
from hakmem.page import Section, filled, table
from hakmem.plots import MIB, OUTSIDE, Plot, bars, escaped, plot

MORE, LESS, WHOLE = "#d1495b", "#2aa876", "#2f7ed8"
SITES = 12
NAME = 44  # most characters of a call site's name
ROOM_FOR_TEXT, ROOM_BESIDE = 1.25, 1.7


def write(path: Path, difference: Difference) -> None:
    path.write_text(page(difference))


def page(difference: Difference) -> str:
    change = f"{difference.of} {change_text(difference.change)}"
    tiles = {
        f"{difference.of} of A": bytes_text(difference.a.total),
        f"{difference.of} of B": bytes_text(difference.b.total),
        "change": change_text(difference.change),
    }
    sides = "".join(
        f'<p class="note">{name}: {html.escape(side_text(side))}</p>' for name, side in (("A", difference.a), ("B", difference.b))
    )
    return filled(f"HAKMEM: {change}", tiles, sections(difference), tables(difference), before=sides)


def sections(difference: Difference) -> list[Section]:
    found = [
        (
            f"From A to B: {change_text(difference.change)}",
            "Each bar begins where the one above it ends: the terms add up to the difference.",
            waterfall(difference),
        )
    ]
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
    more = {"customdata": [escaped(part.name) for part in rows], "text": [change_text(part.change) for part in rows], "width": 0.42}
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
    rows.append((f"= {difference.of}", change_text(difference.change), bytes_text(difference.a.total), bytes_text(difference.b.total), ""))
    found = [table("All terms", ("term", "change", "A", "B", "meaning"), rows, opened=True)]
    for term in difference.terms:
        found.append(table(f"{term.name}: {change_text(term.change)}", ("change", "A", "B", "meaning"), [row(part) for part in term.parts]))
    found.append(table("Settings that differ", ("option", "A", "B"), list(difference.settings)))
    found += [f'<p class="note">{html.escape(note)}</p>' for note in difference.notes]
    return "\n".join(part for part in found if part)


def numbers(of: Term | Part) -> tuple[str, str, str]:
    return change_text(of.change), bytes_text(of.a), bytes_text(of.b)


def row(part: Part) -> tuple[str, ...]:
    whole = " < ".join(frame.text for frame in part.frames)
    prefix = "pinned by " if part.frames and part.name.startswith("pinned by ") else ""
    return (*numbers(part), prefix + whole if whole else part.name)
