"""Makes the plots of the page, as plain data in the form of plotly, of which page.html draws what is used here. plotly.js itself has 4.8 MB. The colors
suit both themes."""

from __future__ import annotations

from typing import Any

from hakmem.explain import Decision
from hakmem.figures import bytes_text
from hakmem.reports import Report, class_hit_rate

MIB = 1 << 20
COLORS = {
    "live": "#2f7ed8",
    "large_live": "#6aaaf0",
    "rounding": "#9fb8d6",
    "thread_caches": "#2aa876",
    "remote_pending": "#d1495b",
    "free_in_slabs": "#7cc49b",
    "slab_tails": "#b5a642",
    "large_cached": "#e09f3e",
    "heaps": "#c97b4a",
    "idle": "#f2cc8f",
    "metadata": "#8e6bbf",
    "metadata_spare": "#bda4de",
    "rest_of_process": "#9a9a9a",
}
ROOM_FOR_TEXT = 1.12
OTHER_COLOR = "#5f8f8f"
CLASS_PARTS = {
    "live": "live",
    "rounding": "rounding",
    "in_bins": "thread_caches",
    "remote": "remote_pending",
    "free_in_slabs": "free_in_slabs",
    "tails": "slab_tails",
}
WHO_COLORS = ("#d1495b", "#2f7ed8", "#2aa876", "#e09f3e", "#8e6bbf", "#5f8f8f")
CLASS_AXIS = {"type": "category", "title": {"text": "size class", "standoff": 12}, "automargin": True, "tickfont": {"size": 11}}

OUTSIDE = {"textposition": "outside", "cliponaxis": False}  # position of the text of a bar

Plot = dict[str, Any]


def memory_now(report: Report) -> Plot:
    parts = {name: size for name, size in report.parts.items() if size > 0}
    names = list(parts)[::-1]
    widest = max(parts.values(), default=MIB) / MIB  # the page leaves room for the text beside this bar
    texts, colors = [bytes_text(parts[name]) for name in names], [COLORS.get(name, OTHER_COLOR) for name in names]
    return plot(
        [bars(names, [parts[name] / MIB for name in names], colors, "%{y}: %{text}<extra></extra>", sideways=True, text=texts, **OUTSIDE)],
        xaxis={"title": {"text": "MiB"}, "range": [0, widest * ROOM_FOR_TEXT]},
        height=max(220, 44 * len(names) + 70),
        showlegend=False,
        margin={"l": 130},
        meta={"widest": widest},
    )


def bars(labels: list[str], values: list, color: object, hover: str, sideways: bool = False, **more: object) -> dict[str, Any]:
    """Returns a bar trace. `hover` is the text that is shown when the reader points at a bar."""
    along, across = ("y", "x") if sideways else ("x", "y")
    turned = {"orientation": "h"} if sideways else {}
    return {"type": "bar", **turned, along: labels, across: values, "marker": {"color": color}, "hovertemplate": hover, **more}


def moments(reports: list[Report]) -> list[float]:
    """Returns the time of each report, in seconds since the start of the program, or, if this is unknown, since the first report."""
    if all(report.seconds is not None for report in reports):
        return [report.seconds or 0.0 for report in reports]
    return [report.written - reports[0].written for report in reports]


def memory_over_time(reports: list[Report], decisions: list[Decision]) -> Plot:
    at = moments(reports)
    names = [name for name in dict.fromkeys(name for report in reports for name in report.parts) if any(report.parts.get(name) for report in reports)]
    curve = {"type": "scatter", "mode": "lines", "x": at, "hovertemplate": "%{y:.1f} MiB"}
    traces: list[dict] = []
    for name in names:
        sizes, color = [report.parts.get(name, 0) / MIB for report in reports], COLORS.get(name, OTHER_COLOR)
        look = {"stackgroup": "parts", "line": {"width": 0.5}, "fillcolor": color, "marker": {"color": color}}
        traces.append({**curve, "name": name, "y": sizes, **look})
    resident = [None if report.resident is None else report.resident / MIB for report in reports]
    traces.append({**curve, "name": "RSS (kernel)", "meta": "ink", "y": resident, "line": {"width": 2, "dash": "dot"}})
    mark = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dot", "color": WHO_COLORS[0]}}
    marks = [{**mark, "x0": moment, "x1": moment} for moment in sorted({d.seconds for d in decisions if d.about_all})]
    return plot(
        traces,
        xaxis={"title": {"text": "seconds"}},
        yaxis={"title": {"text": "MiB"}, "rangemode": "tozero"},
        hovermode="x unified",
        shapes=marks,
        height=420,
    )


def decision_line(decisions: list[Decision]) -> Plot:
    traces = []
    for index, who in enumerate(dict.fromkeys(decision.who for decision in decisions)):
        mine = [decision for decision in decisions if decision.who == who]
        text = [f"{escaped(d.what)}: {d.change}<br>{escaped(d.why)}<br><i>{d.seen_text}</i>" for d in mine]
        points = {"x": [d.seconds for d in mine], "y": [d.what for d in mine], "text": text, "hovertemplate": "%{x:.2f} s  %{text}<extra></extra>"}
        marker = {"size": 11, "color": WHO_COLORS[index % len(WHO_COLORS)]}
        traces.append({"type": "scatter", "mode": "markers", "name": who, **points, "marker": marker})
    height = max(240, 34 * len({decision.what for decision in decisions}) + 140)
    xaxis, yaxis = {"title": {"text": "seconds"}, "rangemode": "tozero"}, {"type": "category", "automargin": True}
    return plot(traces, xaxis=xaxis, yaxis=yaxis, height=height, showlegend=True)


def escaped(text: str) -> str:
    """Escapes the text, because the page interprets tags in the texts of plots."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def class_bars(rows: list[dict], values: list, part: str, hover: str, **more: object) -> dict[str, Any]:
    """Returns a bar trace with a bar for each size class, in the color of a part."""
    return bars([bytes_text(row.get("size")) for row in rows], values, COLORS[part], hover, **more)


def class_hits(report: Report) -> Plot | None:
    rows = [row for row in report.classes if class_hit_rate(row) is not None]
    if not rows:
        return None
    rates, served = [100 * (class_hit_rate(row) or 0) for row in rows], [row.get("served") for row in rows]
    trace = class_bars(rows, rates, "thread_caches", "%{x}: %{y:.3f} % of %{customdata:,} allocations<extra></extra>", customdata=served)
    return plot([trace], xaxis=CLASS_AXIS, yaxis={"title": {"text": "hits, %"}, "range": [0, 101]}, height=320, showlegend=False)


def class_served(report: Report) -> Plot:
    served = [row.get("served") for row in report.classes]
    trace = class_bars(report.classes, served, "live", "%{x}: %{y:,} allocations<extra></extra>")
    return plot([trace], xaxis=CLASS_AXIS, yaxis={"type": "log", "title": {"text": "allocations"}, "dtick": 1}, height=320, showlegend=False)


def class_memory(report: Report) -> Plot:
    sizes = {key: [(row.get(key) or 0) / MIB for row in report.classes] for key in CLASS_PARTS}
    traces = [class_bars(report.classes, sizes[key], part, "%{y:.2f} MiB", name=key) for key, part in CLASS_PARTS.items()]
    return plot(traces, barmode="stack", xaxis=CLASS_AXIS, yaxis={"title": {"text": "MiB"}}, hovermode="x unified", height=340)


def plot(traces: list[dict], **layout: object) -> Plot:
    margin = {"l": 70, "r": 20, "t": 10, "b": 60} | layout.pop("margin", {})  # type: ignore[operator]
    return {"data": traces, "layout": {"margin": margin, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"}, **layout}}
