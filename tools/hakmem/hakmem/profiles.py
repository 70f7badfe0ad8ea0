"""Handles heap profiles, which have samples by stack. A profile comes from a file of the library or from a running process. The samples are scaled
to the number of blocks that they represent."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hakmem import trouble
from hakmem.trouble import NO_INPUT, Trouble

HEAD = re.compile(r"heap profile: +\d+: +\d+ \[ *\d+: +\d+\] @ heap_v2/(\d+)")
SITE_LINE = re.compile(r" *(\d+): +(\d+) \[ *(\d+): +(\d+)\] @((?: 0x[0-9a-f]+)*)")
Stack = tuple  # of return addresses, innermost first


@dataclass(frozen=True)
class Live:
    size: int
    age: float  # seconds


@dataclass
class Site:
    """The samples of one stack whose sizes are within one power of two. `scale` is the number of blocks that a sample represents."""

    stack: Stack
    bits: int
    live_blocks: int
    live_bytes: int
    blocks: int
    bytes: int
    freed: dict[int, int] = field(default_factory=dict)  # freed samples by lifetime; span b is less than 2**b ms
    live: list[Live] = field(default_factory=list)
    scale: float = 1.0
    # The number of blocks that a live sample represents, and the number of samples. They are 0 except in a profile from a file of the tool,
    # in which the other numbers are already scaled.
    weight: float = 0.0
    taken: int = 0

    @property
    def live_weight(self) -> float:
        return self.weight or self.scale

    @property
    def mean_size(self) -> float:
        return self.bytes / self.blocks if self.blocks else 0.0


def picked(size: float, mean: float) -> float:
    """Returns the fraction of all blocks of a size that become samples."""
    return -math.expm1(-max(size, 1.0) / mean) if mean > 1 else 1.0


@dataclass
class Sum:
    """The scaled sums of one stack."""

    stack: Stack
    live_blocks: float = 0.0
    live_bytes: float = 0.0
    blocks: float = 0.0
    bytes: float = 0.0

    def add(self, one: Site | Sum, scale: float = 1.0) -> None:
        for name in ("live_blocks", "live_bytes", "blocks", "bytes"):
            setattr(self, name, getattr(self, name) + scale * getattr(one, name))


@dataclass
class Profile:
    sites: list[Site]
    maps: str
    seconds: float  # of sampling
    mean: int
    pid: int | None = None
    waiting: bool = False  # sampling has not begun, because no thread has called malloc since
    unsampled: float = 0.0  # allocated bytes of sizes that have no sample

    def __post_init__(self) -> None:
        for site in self.sites:
            site.scale = 1 / picked(site.mean_size, self.mean)

    def scale_rounds(self, fine_mean: int, fine_max: int, served: list[tuple[int, int]]) -> None:
        """Scales the samples of blocks of up to fine_max, which were only taken in rounds. The samples of each power of two represent all blocks of
        that power of two that were served."""
        smallest = bits_of(served[0][0]) if served else 0
        blocks: dict[int, int] = defaultdict(int)
        for size, count in served:
            blocks[bits_of(size)] += count
        groups: dict[int, list[Site]] = defaultdict(list)
        for site in self.sites:
            if site.mean_size <= fine_max:
                site.scale = 1 / picked(site.mean_size, fine_mean)
                groups[max(site.bits, smallest)].append(site)
        for bits, group in groups.items():
            seen = sum(site.scale * site.blocks for site in group)
            for site in group:
                site.scale *= max(1.0, blocks[bits] / seen) if seen else 1.0
        self.unsampled = float(sum(size * count for size, count in served if bits_of(size) not in groups))

    def sums(self) -> list[Sum]:
        by_stack: dict[Stack, Sum] = {}
        for site in self.sites:
            by_stack.setdefault(site.stack, Sum(site.stack)).add(site, site.scale)
        return list(by_stack.values())

    @property
    def live_bytes(self) -> float:
        return sum(one.live_bytes for one in self.sums())

    @property
    def bytes(self) -> float:
        return sum(one.bytes for one in self.sums())

    @property
    def samples(self) -> int:
        return sum(site.taken or site.blocks for site in self.sites)

    def since(self, before: Profile) -> Profile:
        """Subtracts the allocations of `before`, and returns this profile. Live blocks are not changed."""
        known = {(site.stack, site.bits): site for site in before.sites}
        for site in self.sites:
            earlier = known.get((site.stack, site.bits))
            if earlier:
                site.blocks -= earlier.blocks
                site.bytes -= earlier.bytes
        return self


def bits_of(size: int) -> int:
    return max(0, (size - 1).bit_length())


def read(path: Path) -> Profile:
    return parse(trouble.text_of(path), str(path))


def parse(text: str, name: str) -> Profile:
    body, _, maps = text.partition("\nMAPPED_LIBRARIES:\n")
    lines = body.splitlines()
    head = HEAD.match(lines[0]) if lines else None
    if head is None:
        raise Trouble(f"{name}: not a heap profile of HAKMEM (HAKMEM_HEAP_PROFILE=FILE, or `hakmem profile PID`)", NO_INPUT)
    reader = Reader()
    for line in lines[1:]:
        reader.line(line)
    return Profile(reader.sites, maps, reader.seconds, int(head[1]))


class Reader:
    """Parses the lines of the library's format, which prof/hooks.h describes."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.numbered: dict[int, Site] = {}
        self.now = self.began = 0

    @property
    def seconds(self) -> float:
        return ((self.now - self.began) & 0xFFFFFFFF) / 1000

    def line(self, line: str) -> None:
        found = SITE_LINE.match(line)
        if found:
            live_blocks, live_bytes, blocks, size = (int(number) for number in found.groups()[:4])
            stack = tuple(int(word, 16) for word in found[5].split())
            self.sites.append(Site(stack, bits_of(size // blocks if blocks else 0), live_blocks, live_bytes, blocks, size))
        elif line.startswith("# "):
            try:
                self.comment(line[2:].split())
            except (ValueError, IndexError, KeyError):
                return

    def comment(self, words: list[str]) -> None:
        if words[0] == "hakmem":
            self.began, self.now = int(words[3]), int(words[5])
        elif words[0] == "site":
            self.numbered[int(words[1])] = self.sites[-1]
            pairs = (pair.split(":") for pair in words[3:])
            self.sites[-1].freed = {int(span): int(count) for span, count in pairs}
        elif words[0] == "weight":
            self.sites[-1].weight, self.sites[-1].taken = float(words[1]), int(words[2])
        elif words[0] == "live":
            age = ((self.now - int(words[3])) & 0xFFFFFFFF) / 1000
            self.numbered[int(words[1])].live.append(Live(int(words[2]), age))


def text_of(profile: Profile) -> str:
    """Returns the profile in the library's format, for pprof and jeprof. Its numbers are scaled, and it says that each block is a sample."""
    def line(one: Sum | Site, scale: float, end: str) -> str:
        numbers = [round(value * scale) for value in (one.live_blocks, one.live_bytes, one.blocks, one.bytes)]
        return f"{numbers[0]}: {numbers[1]} [{numbers[2]}: {numbers[3]}] @{end}"

    total = Sum(())
    for one in profile.sums():
        total.add(one)
    now = round(profile.seconds * 1000)
    lines = [f"heap profile: {line(total, 1, ' heap_v2/1')}", f"# hakmem 1 began 0 now {now}"]
    for number, site in enumerate(profile.sites):
        lines.append(line(site, site.scale, "".join(f" 0x{address:x}" for address in site.stack)))
        lines.append(f"# site {number} freed" + "".join(f" {span}:{count}" for span, count in sorted(site.freed.items())))
        lines.append(f"# weight {site.live_weight:.6g} {site.taken or site.blocks}")
    for number, site in enumerate(profile.sites):
        lines += [f"# live {number} {one.size} {max(0, now - round(one.age * 1000))}" for one in site.live]
    return "\n".join(lines) + "\n\nMAPPED_LIBRARIES:\n" + profile.maps


Measure = Callable[[Sum], float]
MEASURES: dict[str, Measure] = {"live": lambda one: one.live_bytes, "allocated": lambda one: one.bytes}


def collapsed(named: Iterable[tuple[list[str], float]]) -> str:
    """Returns one line for each stack, with the outermost function first. flamegraph.pl, speedscope and inferno read this format."""
    lines: dict[str, float] = defaultdict(float)
    for stack, value in named:
        lines[";".join(name.replace(";", ",") for name in reversed(stack))] += value
    return "".join(f"{stack} {round(value)}\n" for stack, value in sorted(lines.items()) if round(value) > 0)
