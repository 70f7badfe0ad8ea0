"""Writes a self-contained page with a flame graph of a profile."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

from hakmem.figures import bytes_text, count_text
from hakmem.leaks import where
from hakmem.page import tile_row
from hakmem.profiles import Profile
from hakmem.sources import Frame, Sources, blame

TEMPLATE = Path(__file__).with_name("flame.html")
LEAST_PART = 0.0005  # of the whole, because smaller frames would be narrower than a pixel
MOST_DEPTH = 128


@dataclass
class Node:
    name: str
    place: str = ""
    live: float = 0.0
    allocated: float = 0.0
    inner: dict[tuple[str, str], Node] = field(default_factory=dict)

    def add(self, live: float, allocated: float) -> None:
        self.live += live
        self.allocated += allocated

    def step(self, frame: Frame) -> Node:
        return self.inner.setdefault((frame.function, where(frame)), Node(frame.function, where(frame)))

    def data(self, least: tuple[float, float]) -> list:
        shown = [node for node in self.inner.values() if node.live > least[0] or node.allocated > least[1]]
        shown.sort(key=lambda node: node.name)
        return [self.name, self.place, round(self.live), round(self.allocated), [node.data(least) for node in shown]]


def tree(profile: Profile, sources: Sources) -> Node:
    root = Node("all")
    for one in profile.sums():
        node = root
        node.add(one.live_bytes, one.bytes)
        for frame in list(reversed(sources.frames(one.stack)))[:MOST_DEPTH]:
            node = node.step(frame)
            node.add(one.live_bytes, one.bytes)
    return root


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


def script(data: str) -> str:
    """Escapes the data so that it can be part of a script element."""
    return data.replace("</", "<\\/")


def page(profile: Profile, sources: Sources, title: str) -> str:
    root = tree(profile, sources)
    data = json.dumps(root.data((root.live * LEAST_PART, root.allocated * LEAST_PART)), separators=(",", ":"))
    own = json.dumps([[line.function, line.place, round(line.live), round(line.allocated)] for line in lines(profile, sources)])
    tiles = {
        "live, allocated since": bytes_text(profile.live_bytes),
        "allocated": bytes_text(profile.bytes),
        "seconds": f"{profile.seconds:.1f}",
        "samples": count_text(profile.samples),
    }
    return Template(TEMPLATE.read_text()).substitute(title=html.escape(title), tiles=tile_row(tiles), data=script(data), lines=script(own))
