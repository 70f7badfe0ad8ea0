"""Writes a profile as a self-contained page with a flame graph, or in pprof's format."""

from __future__ import annotations

import gzip
import html
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from hakmem.figures import bytes_text, count_text
from hakmem.leaks import where
from hakmem.page import tile_row
from hakmem.profiles import Profile
from hakmem.sources import BEST_RULE, Frame, Sources, blame

TEMPLATE = Path(__file__).with_name("flame.html")
LEAST_PART = 0.0005  # of the whole, because smaller frames would be narrower than a pixel
MOST_DEPTH = 128


@dataclass
class Node:
    name: str
    place: str = ""
    live: float = 0.0
    allocated: float = 0.0
    rule: str = BEST_RULE  # of blame(), by which the line was chosen
    inner: dict[tuple[str, str], Node] = field(default_factory=dict)

    def add(self, live: float, allocated: float) -> None:
        self.live += live
        self.allocated += allocated

    def step(self, frame: Frame) -> Node:
        return self.inner.setdefault((frame.function, where(frame)), Node(frame.function, where(frame)))

    def row(self, names: dict[tuple[str, str], int]) -> list:
        """Returns the node for the page, with the number of its name in `names`, which grows by new names."""
        return [names.setdefault((self.name, self.place), len(names)), round(self.live), round(self.allocated)]

    def data(self, names: dict[tuple[str, str], int], least: tuple[float, float]) -> list:
        shown = [node for node in self.inner.values() if node.live > least[0] or node.allocated > least[1]]
        shown.sort(key=lambda node: node.name)
        return [*self.row(names), [node.data(names, least) for node in shown]]


def tree(profile: Profile, sources: Sources) -> Node:
    root = Node("all")
    for one in profile.sums():
        node = root
        node.add(one.live_bytes, one.bytes)
        for frame in list(reversed(sources.frames(one.stack)))[:MOST_DEPTH]:
            node = node.step(frame)
            node.add(one.live_bytes, one.bytes)
    return root


def lines(profile: Profile, sources: Sources) -> list[Node]:
    """Returns the lines of the program that allocate."""
    flat = Node("all")
    for one in profile.sums():
        frame, rule = blame(sources.frames(one.stack))
        line = flat.step(frame)
        line.rule = rule
        line.add(one.live_bytes, one.bytes)
    return list(flat.inner.values())


def page(profile: Profile, sources: Sources, title: str) -> str:
    root, names = tree(profile, sources), {}
    data = root.data(names, (root.live * LEAST_PART, root.allocated * LEAST_PART))
    own = [line.row(names) for line in lines(profile, sources)]
    tiles = {
        "live, allocated since": bytes_text(profile.live_bytes),
        "allocated": bytes_text(profile.bytes),
        "seconds": f"{profile.seconds:.1f}",
        "samples": count_text(profile.samples),
    }
    text = json.dumps([list(names), data, own], separators=(",", ":")).replace("</", "<\\/")  # "</" would end the script element
    return Template(TEMPLATE.read_text()).substitute(title=html.escape(title), tiles=tile_row(tiles), data=text)


TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def block(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    return block(field, b"".join(map(varint, values)))


class Writer:
    def __init__(self, build_ids: dict[str, str]) -> None:
        self.build_ids = build_ids
        self.strings: dict[str, int] = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.modules: dict[str, int] = {}
        self.locations: dict[tuple, int] = {}
        self.body = bytearray()

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def kind(self, kind: str, unit: str) -> bytes:
        return number(1, self.text(kind)) + number(2, self.text(unit))

    def function(self, frame: Frame) -> int:
        key = (frame.function, frame.file)
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            name = self.text(frame.function)
            self.body += block(5, number(1, self.functions[key]) + number(2, name) + number(3, name) + number(4, self.text(frame.file)))
        return self.functions[key]

    def module(self, path: str) -> int:
        if path and path not in self.modules:
            self.modules[path] = len(self.modules) + 1
            known = number(7, 1) + number(8, 1) + number(9, 1) + number(10, 1)  # has functions, files, lines and inlined calls
            self.body += block(3, number(1, self.modules[path]) + number(5, self.text(path)) + number(6, self.text(self.build_ids.get(path, ""))) + known)
        return self.modules.get(path, 0)

    def location(self, frame: Frame) -> int:
        key = (frame.function, frame.file, frame.line, frame.module)
        if key not in self.locations:
            line = number(1, self.function(frame)) + number(2, frame.line)
            module = self.module(frame.module)
            self.locations[key] = len(self.locations) + 1
            self.body += block(4, number(1, self.locations[key]) + number(2, module) + block(4, line))
        return self.locations[key]


def pprof(profile: Profile, sources: Sources) -> bytes:
    writer = Writer(sources.build_ids)
    for kind, unit in TYPES:
        writer.body += block(1, writer.kind(kind, unit))
    for one in profile.sums():
        values = [round(value) for value in (one.blocks, one.bytes, one.live_blocks, one.live_bytes)]
        places = [writer.location(frame) for frame in sources.frames(one.stack)]
        writer.body += block(2, packed(1, places) + packed(2, values))
    writer.body += number(9, time.time_ns()) + number(10, int(profile.seconds * 1e9))
    writer.body += block(11, writer.kind("space", "bytes")) + number(12, profile.mean) + number(14, writer.text("inuse_space"))
    for text in writer.strings:
        writer.body += block(6, text.encode(errors="replace"))
    return gzip.compress(bytes(writer.body))
