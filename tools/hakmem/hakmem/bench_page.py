"""hakmem bench --html: draws the comparison of allocators on a self-contained page."""

from __future__ import annotations

from pathlib import Path

from hakmem import allocators
from hakmem.bench import Work
from hakmem.contest import Contest, Figure, ratio_text
from hakmem.page import Section, filled, table
from hakmem.plots import Plot, plot

OWN, OTHERS, LINE = "#2f7ed8", "#8a949e", "#b5bcc3"
PER_ROW = 26  # pixels


def write(path: Path, works: list[Work], rounds: int) -> None:
    measured = [work for work in works if work.contest.base]
    tiles = {"benchmarks": str(len(measured)), "rounds": str(rounds), "allocators": str(len(measured[0].contest.members) if measured else 0)}
    sections = [section for work in measured for section in sections_of(work)]
    path.write_text(filled("HAKMEM beside other allocators", tiles, sections, "\n".join(map(figures_table, measured))))


def sections_of(work: Work) -> list[Section]:
    note = f"Ratio to {work.contest.base} with its 95 % interval; less is better. {' '.join(work.command)}"
    shown = [figure for figure in work.contest.figures if figure.best]
    return [(f"{work.name}: {figure.title}", note, ratios(work.contest, figure)) for figure in shown]


def ratios(contest: Contest, figure: Figure) -> Plot:
    """Returns a plot with a dot and an interval for each allocator. The best one is at the top."""
    assert contest.base
    names = sorted(contest.able, key=lambda name: contest.middle(name, figure), reverse=True)
    found = {name: contest.ratio(name, contest.base, figure.key) for name in names}
    shown = {name: value for name, value in found.items() if value}
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [value.median for value in shown.values()],
        "y": list(shown),
        "marker": {"size": 11, "color": [OWN if name.startswith(allocators.HAKMEM) else OTHERS for name in shown]},
        "error_x": {
            "type": "data",
            "color": OTHERS,
            "symmetric": False,
            "array": [value.high - value.median for value in shown.values()],
            "arrayminus": [value.median - value.low for value in shown.values()],
        },
        "text": [f"{figure.shown(contest.middle(name, figure))}, {ratio_text(value)}" for name, value in shown.items()],
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    mark = {"type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dot", "color": LINE}}
    return plot(
        [dots],
        xaxis={"title": {"text": f"{figure.title}, × {contest.base}"}, "rangemode": "tozero"},
        yaxis={"type": "category", "automargin": True},
        shapes=[mark],
        height=110 + PER_ROW * len(shown),
        showlegend=False,
        margin={"l": 130},
    )


def figures_table(work: Work) -> str:
    contest = work.contest
    head = ["allocator", *(text for figure in contest.figures for text in (figure.title, "ratio"))]
    rows = []
    for name in contest.able:
        row = [name]
        for figure in contest.figures:
            row += [figure.shown(contest.middle(name, figure)), ratio_text(contest.ratio(name, contest.base or name, figure.key))]
        rows.append(row)
    return table(f"{work.name}: {' '.join(work.command)}", head, rows, opened=True)
