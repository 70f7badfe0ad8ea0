"""hakmem diff --html: a self-contained page."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from hakmem.difference import Difference, Part, Term
from hakmem.difference_text import change_text, side_text
from hakmem.figures import bytes_text
from hakmem.plots import MIB, Plot, plot
from hakmem.trouble import FAILED, Trouble

MORE, LESS, WHOLE = "#d1495b", "#2aa876", "#2f7ed8"
SITES = 12
NAME = 44  # characters of a call site beside its bar
ROOM_FOR_TEXT, ROOM_BESIDE = 1.25, 1.7


def write(path: Path, difference: Difference) -> None:
    try:
        path.write_text(page(difference))
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}", FAILED) from None


def page(difference: Difference) -> str:
    from plotly.offline import get_plotlyjs  # slow to import, and needed only here

    drawn = sections(difference)
    body = "\n".join(
        f'<section><h2>{html.escape(title)}</h2><p class="note">{html.escape(note)}</p>'
        f'<div class="plot" id="plot{index}"></div></section>'
        for index, (title, note, _) in enumerate(drawn)
    )
    sides = "".join(
        f'<p class="note">{name}: {html.escape(side_text(side))}</p>' for name, side in (("A", difference.a), ("B", difference.b))
    )
    figures = {f"plot{index}": drawing for index, (_, _, drawing) in enumerate(drawn)}
    template = Template(resources.files("hakmem").joinpath("page.html").read_text())
    # "</" would end the script element that holds the data.
    return template.substitute(
        title=html.escape(f"HAKMEM: {difference.of} {change_text(difference.change)}"),
        tiles=tiles(difference),
        plots=sides + body,
        tables=tables(difference),
        data=json.dumps(figures).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
    )


def tiles(difference: Difference) -> str:
    shown = {
        f"{difference.of} of A": bytes_text(difference.a.total),
        f"{difference.of} of B": bytes_text(difference.b.total),
        "change": change_text(difference.change),
    }
    return "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for name, value in shown.items())


def sections(difference: Difference) -> list[tuple[str, str, Plot]]:
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
    names = ["A", *[term.name for term in terms], "B"]
    values = [difference.a.total, *[term.change for term in terms], difference.b.total]
    texts = [bytes_text(values[0]), *[change_text(term.change) for term in terms], bytes_text(values[-1])]
    starts, ends = [0], [difference.a.total]
    for term in terms:
        starts.append(ends[-1])
        ends.append(ends[-1] + term.change)
    starts, ends = [*starts, 0], [*ends, difference.b.total]
    colors = [WHOLE, *[MORE if term.change > 0 else LESS for term in terms], WHOLE]
    widest = max(map(abs, ends), default=MIB) / MIB
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": names[::-1],
        "base": [start / MIB for start in starts][::-1],
        "x": [(end - start) / MIB for start, end in zip(starts, ends)][::-1],
        "text": texts[::-1],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{text}<extra></extra>",
        "marker": {"color": colors[::-1]},
    }
    least = min(0, *ends) / MIB
    return plot(
        [trace],
        yaxis={"showgrid": False},
        xaxis={"title": {"text": "MiB"}, "range": [least * ROOM_FOR_TEXT, widest * ROOM_FOR_TEXT]},
        height=max(240, 38 * len(names) + 70),
        showlegend=False,
        margin={"l": 130},
        meta={"widest": widest},
    )


def cut(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def changes(parts: list[Part]) -> Plot:
    """The names stand above the bars: beside them they would leave no room on a small screen."""
    rows = parts[::-1]
    widest = max(abs(part.change) for part in parts) / MIB
    names = [f"{at}" for at in range(len(rows))]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [part.change / MIB for part in rows],
        "text": [change_text(part.change) for part in rows],
        "customdata": [escaped(part.name) for part in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{customdata}: %{text}<extra></extra>",
        "width": 0.42,
        "marker": {"color": [MORE if part.change > 0 else LESS for part in rows]},
    }
    labels = [
        {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": at,
            "yref": "y",
            "yanchor": "bottom",
            "yshift": 9,
            "showarrow": False,
            "text": escaped(cut(part.name)),
        }
        for at, part in enumerate(rows)
    ]
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


def escaped(text: str) -> str:
    """plotly.js interprets tags in its texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


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


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], opened: bool = False) -> str:
    if not rows:
        return ""
    kind = {"meaning": ' class="text"'}
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td{kind.get(name, '')}>{html.escape(value)}</td>" for name, value in zip(head, cells)) + "</tr>"
        for cells in rows
    )
    return (
        f'<details{" open" if opened else ""}><summary>{html.escape(title)}</summary><div class="wide"><table><thead><tr>{top}'
        f"</tr></thead><tbody>{body}</tbody></table></div></details>"
    )
