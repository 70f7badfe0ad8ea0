"""Reads the call stacks of sampled blocks from a JSON report (`sampled`) or a heap profile, and finds the names of their functions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import profiles
from hakmem.profiles import Site, picked
from hakmem.reports import Report
from hakmem.sources import Frame, Sources


@dataclass(frozen=True)
class Stack:
    frames: tuple[Frame, ...]  # the innermost first
    live: int  # bytes, an estimate
    blocks: int
    pinned: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the functions without lines, so that the key is the same for two versions of a program."""
        return tuple(frame.function for frame in self.frames)


@dataclass(frozen=True)
class Stacks:
    """The stacks of a report. `live` and `pinned` are the sums of all stacks, including those that are not listed."""

    mean: int
    live: int
    pinned: int
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class Raw:
    addresses: tuple[int, ...]
    live: int
    blocks: int
    pinned: int


def named(raw: list[Raw], sources: Sources) -> tuple[Stack, ...]:
    """Returns one stack for each distinct list of functions. Those with the most bytes come first."""
    sources.learn(one.addresses for one in raw)
    merged: dict[tuple[str, ...], Stack] = {}
    for one in raw:
        stack = Stack(tuple(sources.frames(one.addresses)), one.live, one.blocks, one.pinned)
        before = merged.get(stack.key)
        merged[stack.key] = added(before, stack) if before else stack
    return tuple(sorted(merged.values(), key=lambda stack: -(stack.live + stack.pinned)))


def added(one: Stack, other: Stack) -> Stack:
    return replace(one, live=one.live + other.live, blocks=one.blocks + other.blocks, pinned=one.pinned + other.pinned)


def of_report(report: Report, symbols: Path | None = None) -> Stacks | None:
    """Returns the stacks of a report, or None if no block was sampled."""
    mean = whole(report.number("sampled", "mean"))
    if not mean:
        return None
    rows = report.at("sampled", "stacks")
    raw = [raw_of(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    lines = report.at("sampled", "modules")
    sources = Sources("\n".join(map(str, lines if isinstance(lines, list) else [])), written=report.written, symbols=symbols)
    live, pinned = (whole(report.number("sampled", f"{kind}_bytes")) for kind in ("live", "pinned"))
    return Stacks(mean, live, pinned, named(raw, sources))


def whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def raw_of(row: dict[str, object]) -> Raw:
    frames = row.get("frames")
    addresses = tuple(map(whole, frames)) if isinstance(frames, list) else ()
    return Raw(addresses, whole(row.get("live_bytes")), whole(row.get("live_count")), whole(row.get("pinned_bytes")))


def of_heap_profile(text: str, path: Path, written: float = math.inf, symbols: Path | None = None) -> Stacks:
    found = profiles.parse(text, str(path))
    raw = [scaled(site, found.mean) for site in found.sites if site.live_blocks]
    stacks = named(raw, Sources(found.maps, written=written, symbols=symbols))
    return Stacks(found.mean, sum(stack.live for stack in stacks), 0, stacks)


def scaled(site: Site, mean: int) -> Raw:
    """Scales a site as pprof does, by the mean size of the live samples."""
    part = picked(site.live_bytes / site.live_blocks, mean)
    return Raw(site.stack, round(site.live_bytes / part), round(site.live_blocks / part), 0)
