"""Writes a self-contained page with flame graphs of a profile, one of live and one of allocated bytes."""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import NamedTuple

from hakmem.figures import bytes_text, count_text
from hakmem.leaks import where
from hakmem.page import filled, table
from hakmem.plots import Plot, escaped, plot
from hakmem.profiles import MEASURES, Measure, Profile
from hakmem.sources import Sources, blame

LEAST_PART = 0.0005  # of the whole, because smaller frames would be narrower than a pixel
MOST_DEPTH = 128
ROW = 22  # pixels of a frame's height
NOTE = "A function stands below its caller, and is as wide as the bytes that it and the functions below it allocated. A click enlarges it."


class Line(NamedTuple):
    """A line of the program, and the bytes that its calls allocated."""

    function: str
    place: str
    live: float
    allocated: float


def lines(profile: Profile, sources: Sources) -> list[Line]:
    sums: dict[tuple[str, str], list[float]] = {}
    for one in profile.sums():
        frame = blame(sources.frames(one.stack))
        row = sums.setdefault((frame.function, where(frame)), [0.0, 0.0])
        row[0] += one.live_bytes
        row[1] += one.bytes
    return [Line(function, place, live, allocated) for (function, place), (live, allocated) in sums.items()]


def graph(profile: Profile, sources: Sources, measure: Measure) -> Plot | None:
    """Returns the graph of a measure, or None if there are no bytes. A node is a function and its place below the node of the caller."""
    nodes = {(-1, "all", ""): 0}
    sizes: dict[int, int] = defaultdict(int)
    deepest = 0
    for one in profile.sums():
        at, size = 0, round(measure(one))
        stack = list(reversed(sources.frames(one.stack)))[:MOST_DEPTH]
        deepest = max(deepest, len(stack))
        sizes[at] += size
        for frame in stack:
            at = nodes.setdefault((at, frame.function, where(frame)), len(nodes))
            sizes[at] += size
    shown = sorted((name, place, caller, at) for (caller, name, place), at in nodes.items() if sizes[at] > LEAST_PART * sizes[0])
    trace = {
        "type": "icicle",
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "leaf": {"opacity": 1},
        "ids": [str(at) for *_, at in shown],
        "parents": [str(caller) if at else "" for *_, caller, at in shown],
        "labels": [escaped(name) for name, *_ in shown],
        "values": [sizes[at] for *_, at in shown],
        "text": [f"{escaped(place)}<br>{bytes_text(sizes[at])}" for _, place, _, at in shown],
        "textinfo": "label",
        "hovertemplate": "%{label}<br>%{text}, %{percentRoot}<extra></extra>",
        "marker": {"colors": [f"hsl({zlib.crc32(name.encode()) % 50}, 65%, 65%)" for name, *_ in shown]},
    }
    return plot([trace], height=ROW * (deepest + 2) + 40, margin={"l": 0, "r": 0, "b": 10}) if shown else None


def page(profile: Profile, sources: Sources, title: str) -> str:
    tiles = {
        "live, allocated since": bytes_text(profile.live_bytes),
        "allocated": bytes_text(profile.bytes),
        "seconds": f"{profile.seconds:.1f}",
        "samples": count_text(profile.samples),
    }
    graphs = [(f"Bytes {name}", NOTE, graph(profile, sources, measure)) for name, measure in MEASURES.items()]
    largest = sorted(lines(profile, sources), key=lambda line: (line.live, line.allocated), reverse=True)
    rows = [(bytes_text(line.live), bytes_text(line.allocated), line.place, line.function) for line in largest]
    listed = table("Lines that allocate", ("live", "allocated", "line", "function"), rows, opened=True)
    return filled(title, tiles, [(head, note, drawn) for head, note, drawn in graphs if drawn], listed)
