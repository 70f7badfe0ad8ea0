"""Draws a result as SVG that follows the reader's light or dark theme.

Matplotlib draws with stand-in colors; in the SVG each becomes a CSS variable, and PALETTE holds its values on a light and on a dark ground.
Color-blind readers can tell the colors apart (after Okabe and Ito), and no color stands alone: each allocator has its own dash, too. Blue is
HAKMEM's in all pictures.
"""
import io
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

import verdicts
from point import Workload
from results import Result, Trace
from tables import number
from verdicts import Line, Verdict, Versus

#           stand-in   light      dark
PALETTE = {
    "ink": ("#010101", "#1c2430", "#e6e9ee"),
    "soft": ("#020202", "#5b6675", "#9aa5b4"),
    "grid": ("#030303", "#d9dee5", "#333c49"),
    "better": ("#040404", "#eaf2fb", "#17263a"),
    "ground": ("#050505", "#ffffff", "#10151c"),
    "hakmem": ("#060606", "#0b5fc0", "#5cabff"),
    "glibc": ("#070707", "#6b7280", "#a3acb9"),
    "mimalloc": ("#080808", "#c97b00", "#f0a830"),
    "jemalloc": ("#090909", "#00845f", "#35c99b"),
    "snmalloc": ("#0a0a0a", "#b0477f", "#ea8fbd"),
    "rpmalloc": ("#0b0b0b", "#c24a00", "#ff8650"),
    "tcmalloc": ("#0c0c0c", "#857300", "#d8c53a"),
    "gperftools": ("#0d0d0d", "#7a4fb5", "#b697e8"),
    "onetbb": ("#0e0e0e", "#7d5a3c", "#c9a27e"),
    "other": ("#0f0f0f", "#444b55", "#c3cad4"),
}
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
LEAST, MOST = 0.25, 16.0  # ratios beyond are drawn at the edge, as an arrow
TICKS = (1, 2, 0.5, 4, 0.25, 8, 16, 1.5, 0.7, 1.25, 0.8, 3, 1.1, 0.9)  # the first matter most
APART = 0.12  # of the axis, between two of them
WIDTH, ROW_HEIGHT = 8.4, 0.27  # inches
DOT = 7  # points
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.titlecolor", "ytick.color"), PALETTE["ink"][0]),
    **dict.fromkeys(("axes.labelcolor", "xtick.color"), PALETTE["soft"][0]),
    "axes.edgecolor": PALETTE["grid"][0],
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
    "legend.frameon": False,
    "legend.fontsize": 9.5,
}


Look = dict[str, Any]  # of a line in a chart: its color, linestyle and linewidth


def colour(name: str) -> str:
    return PALETTE[name][0]


def looks(names: list[str]) -> dict[str, Look]:
    """By allocator. Versions of one have its colour, and differ by the dash."""
    found = {}
    for at, name in enumerate(n for n in names if n != verdicts.OWN):
        family = next((f for f in PALETTE if name.startswith(f)), "other")
        found[name] = {"color": colour(family), "linestyle": DASHES[at % len(DASHES)], "linewidth": 1.2}
    return found | {verdicts.OWN: {"color": colour("hakmem"), "linestyle": "-", "linewidth": 2.4}}


# ---- ratios -----------------------------------------------------------------

def to_best(lines: list[Line], title: str = "", below: str = "", quotients: bool = False) -> str:
    """HAKMEM beside the best peer of each row. A hollow dot: no difference shown. The dot is the median of the rounds'
    ratios, or the quotient of the two medians: that is what stands in tables beside the picture."""
    seen = [line.to_best and replace(line.to_best, ratio=line.quotient) if quotients else line.to_best for line in lines]
    with mpl.rc_context(STYLE):
        figure, axes = ratio_axes(lines, seen, 1.4 if title else 0.6)
        for at, (line, versus) in enumerate(zip(lines, seen)):
            if versus:
                shown = versus.verdict in (Verdict.AHEAD, Verdict.BEHIND)
                draw_ratio(axes, at, versus, hollow=not shown)
                note = f"{number(versus.ratio)} × {line.best_peer}"
                axes.text(1.01, at, note, transform=axes.get_yaxis_transform(), va="center")
        if title:
            figure.suptitle(title, x=0.01, ha="left", size=14, weight="bold")
            figure.supxlabel(below, x=0.01, ha="left", size=8.5, color=colour("soft"))
        return as_svg(figure)


def ratio_axes(lines: list[Line], seen: list[Versus | None], margin: float) -> tuple[Figure, Axes]:
    """With the line of equality, the rows' names and a scale over all ratios seen."""
    height = margin + ROW_HEIGHT * (len(lines) + 0.8)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08)
    axes = figure.add_subplot()
    low, high = reach([v for v in seen if v])
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.axvspan(1, high, color=colour("better"), zorder=0, linewidth=0)
    axes.axvline(1, color=colour("hakmem"), linewidth=1.4, zorder=1)
    for at in range(len(lines) - 1):
        axes.axhline(at + 0.5, color=colour("grid"), linewidth=0.5, zorder=1)
    axes.set_yticks(range(len(lines)), [f"{line.point.label} · {line.point.row.partition('.')[0]}" for line in lines])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(FixedLocator(ticks(low, high)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g} ×"))
    axes.xaxis.tick_top()
    axes.spines["bottom"].set_visible(False)
    axes.set_ylim(len(lines) + 0.2, -0.6)
    # At the foot of the line; to its left only if there is room.
    room = math.log(1 / low) / math.log(high / low)
    for text, away, side in (("HAKMEM better →", 6, "left"), ("← peer better", -6, "right"))[: 2 if room > 0.2 else 1]:
        axes.annotate(text, (1, 0), (away, 3), axes.get_xaxis_transform(), "offset points", ha=side, size=8.5, color=colour("soft"))
    return figure, axes


def ticks(low: float, high: float) -> list[float]:
    """As many as there is room for."""
    chosen: list[float] = []
    room = APART * math.log(high / low)
    for tick in TICKS:
        near = any(abs(math.log(tick / other)) < room for other in chosen)
        if low <= tick <= high and not near:
            chosen.append(tick)
    return chosen


def reach(seen: list[Versus]) -> tuple[float, float]:
    """Of the axis: all intervals, with some room, within LEAST and MOST."""
    ends = [v.ratio for v in seen]
    ends += [end for v in seen for end in v.interval or ()]
    ends = [end for end in ends if math.isfinite(end) and end > 0]
    low, high = min([0.9, *ends]) / 1.04, max([1.1, *ends]) * 1.04
    return max(low, LEAST), min(high, MOST)


def draw_ratio(axes: Axes, y: float, versus: Versus, hollow: bool) -> None:
    (low, high), tint = axes.get_xlim(), colour("hakmem")
    if versus.ratio >= high or versus.ratio <= low:
        end, arrow = (high / 1.01, ">") if versus.ratio >= high else (low * 1.01, "<")
        axes.plot(end, y, marker=arrow, color=tint, markersize=DOT, clip_on=False)
        return
    if versus.interval:
        ends = max(versus.interval.low, low), min(versus.interval.high, high)
        axes.plot(ends, (y, y), color=tint, linewidth=DOT / 4, solid_capstyle="butt", zorder=2)
    axes.plot(versus.ratio, y, marker="o", color=tint, markersize=DOT, mfc=colour("ground") if hollow else tint, zorder=3)


# ---- memory over time -------------------------------------------------------

# Whose memory a group of charts shows: of workloads that the launcher watched, of real programs whose cost was counted, and of
# programs that report their own live bytes.
CHARTS: dict[str, Callable[[Workload], bool]] = {
    "memory": lambda work: not (work.series or work.exact),
    "programs": lambda work: work.exact,
    "fragmentation": lambda work: bool(work.series),
}


# Rows whose memory over time says most: after a spike, while sizes drift, after large blocks were freed, and while children are forked.
PICTURED = ("M5", "M13", "M14", "M15")


def charts(result: Result, group: str, only: tuple[str, ...] = ()) -> str | None:
    """One small chart a workload, HAKMEM in front. Only workloads of these rows, if any are given."""
    named = {point.work for point in result.points if point.row in only or not only}
    works = [work for work, measured in result.works.items() if measured.traces and CHARTS[group](work) and work in named]
    if not works:
        return None
    names = result.names("peer", "hakmem")
    look, rows = looks(names), math.ceil(len(works) / 2)
    with mpl.rc_context(STYLE | {"axes.spines.left": True}):
        figure = Figure(figsize=(WIDTH, 0.7 + 2.3 * rows), layout="constrained")
        for at, work in enumerate(works):
            axes = figure.add_subplot(rows, 2, at + 1)
            axes.set_title(result.title(work), fontsize=10, loc="left")
            draw_traces(axes, work, result.works[work].traces, look)
        handles = [Line2D([], [], label="HAKMEM" if name == verdicts.OWN else name, **look[name]) for name in names]
        figure.legend(handles=handles, loc="outside upper left", ncols=5, handlelength=2.4)
        return as_svg(figure)


def draw_traces(axes: Axes, work: Workload, traces: dict[str, Trace], look: dict[str, Look]) -> None:
    by_count = work.series == "operations"
    unit = 1e6 if by_count else 1e3
    for name in sorted(traces, key=lambda n: n == verdicts.OWN):
        trace = traces[name]
        if work.exact:  # without the moments in which the process has gone already
            trace = trace[: 1 + max((at for at, moment in enumerate(trace) if moment[-1]), default=0)]
        own_unit = (trace[-1][0] / 100 or 1) if work.exact else unit
        places, kib = [moment[0] / own_unit for moment in trace], [moment[-1] / 1024 for moment in trace]
        axes.plot(places, kib, zorder=2 + (name == verdicts.OWN), **look[name])
    if work.series:  # live bytes are the ground on which all of them stand
        series = traces.get(verdicts.OWN) or next(iter(traces.values()))
        places, live_mib = [moment[0] / unit for moment in series], [moment[1] / 1024 for moment in series]
        axes.fill_between(places, live_mib, color=colour("grid"), linewidth=0, zorder=1)
    axes.grid(axis="y", color=colour("grid"), linewidth=0.6)
    axes.set(ylim=(0, None), xlim=(0, None), ylabel="MiB not shared" if "prefork" in work.command else "MiB resident", xlabel="M operations" if by_count else "% of the run" if work.exact else "s")


# ---- SVG --------------------------------------------------------------------

def as_svg(figure: Figure) -> str:
    """For a page that sets the variables: no header, and as wide as its place."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": "hakmem"}):
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    for name, (stand_in, _, _) in PALETTE.items():
        svg = svg.replace(stand_in, f"var(--{name})")
    return svg.replace("'DejaVu Sans'", "var(--font)")


def variables(indent: str = "  ") -> str:
    """The palette as CSS, for both themes."""

    def block(selector: str, which: int) -> str:
        pairs = "".join(f" --{name}: {tints[which]};" for name, tints in PALETTE.items())
        return f"{indent}{selector} {{{pairs} }}"

    dark = block(":root", 2).strip()
    return f"{block(':root', 1)}\n{indent}@media (prefers-color-scheme: dark) {{ {dark} }}"


def standalone(svg: str) -> str:
    """As a file of its own: the theme, a ground and a font come with it."""
    rules = f"{variables()}\n  :root {{ --font: system-ui, 'DejaVu Sans', sans-serif; }}"
    ground = '<rect width="100%" height="100%" rx="6" fill="var(--ground)"/>'
    head, rest = svg.split(">", 1)
    return f"{head}>\n<style>\n{rules}\n</style>\n{ground}{rest}"


def save_picture(result: Result, path: Path) -> None:
    """Beside the best peer on the goals' rows of speed: the one for the README. Memory over time if no row of speed was measured."""
    lines = [line for line in result.lines() if line.is_goal_row and not line.is_memory and line.to_best]
    over_time = charts(result, "fragmentation", PICTURED)
    if not lines and over_time is not None:
        path.write_text(standalone(over_time))
        return
    lines.sort(key=lambda line: int(re.match(r"[PM](\d+)", line.point.row)[1]))  # 4 of P4, and 16 of P16.lua
    below = (
        "Dot: quotient of the two medians. Line: 95 % interval of the paired rounds' ratios. Hollow: no difference shown, or too few rounds.\n"
        f"Peers: {', '.join(result.names('peer'))}.\n"
        f"{result.machine['cpu']}, {result.machine['processors']} processors, {result.parts[0]['began'][:10]}."
    )
    path.write_text(standalone(to_best(lines, "HAKMEM's speed to the best peer's, row by row", below, quotients=True)))
