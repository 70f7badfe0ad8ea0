"""Call stacks of sampled blocks, from a JSON report (`sampled`) or a heap profile, with the names of their functions."""

from __future__ import annotations

import bisect
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import symbolize
from hakmem.reports import Report
from hakmem.trouble import NO_INPUT, Trouble

# "7f86871a8000-7f86871ee000 r-xp 00001000 fe:00 11371075    /usr/lib/x.so"
MODULE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ \d+\s+(/.*)")
HEAD = re.compile(r"heap profile: .* @ heap_v2/(\d+)")
SITE = re.compile(r"(\d+): (\d+) \[\d+: \d+\] @((?: 0x[0-9a-f]+)+)")
SCALE = re.compile(r"# scale (\d+(?:\.\d+)?)$")
HEAP_PROFILE = "heap profile:"
UNKNOWN = "??"
ELF64, PT_LOAD = b"\x7fELF\x02", 1


@dataclass(frozen=True)
class Frame:
    function: str  # or the file and the address in it, where no name is known
    source: str = ""  # file:line

    @property
    def text(self) -> str:
        return f"{self.function} ({self.source})" if self.source else self.function


@dataclass(frozen=True)
class Stack:
    frames: tuple[Frame, ...]  # the innermost first
    live: int  # bytes, an estimate
    blocks: int
    pinned: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The same for two versions of a program: functions, no lines."""
        return tuple(frame.function for frame in self.frames)


@dataclass(frozen=True)
class Stacks:
    """live and pinned: of all stacks, also of those that are not listed."""

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


class Modules:
    """The mapped code of a process. written: files that changed since are not asked for names. symbols: a folder with the files as
    they were then, by path or by name."""

    def __init__(self, lines: Iterable[str], written: float = math.inf, symbols: Path | None = None) -> None:
        found = [match.groups() for match in map(MODULE.match, lines) if match]
        rows = [(int(start, 16), int(end, 16), int(offset, 16), path) for start, end, offset, path in found]
        self.rows, self.written, self.symbols = sorted(rows), written, symbols
        self.starts = [row[0] for row in self.rows]
        self.segments: dict[str, list[tuple[int, int, int]]] = {}

    def place(self, address: int) -> tuple[str, int] | None:
        """The file and the offset in it of a call that returns to the address."""
        at = bisect.bisect_right(self.starts, address - 1) - 1
        if at < 0 or address - 1 >= self.rows[at][1]:
            return None
        start, _, offset, path = self.rows[at]
        return path, address - 1 - start + offset

    def file(self, path: str) -> Path | None:
        """The file that still is what the process ran."""
        if self.symbols:
            places = (self.symbols / path.lstrip("/"), self.symbols / Path(path).name)
            return next((place for place in places if place.is_file()), None)
        try:
            return Path(path) if Path(path).stat().st_mtime <= self.written else None
        except OSError:
            return None

    def linked(self, path: str, offset: int) -> int:
        """The address as the linker gave it."""
        if path not in self.segments:
            file = self.file(path)
            self.segments[path] = loaded(file) if file else []
        for at, size, address in self.segments[path]:
            if at <= offset < at + size:
                return offset - at + address
        return offset

    def names(self, addresses: Iterable[int]) -> dict[int, list[Frame]]:
        """An inlined function before its caller."""
        places = {address: self.place(address) for address in set(addresses)}
        linked = {address: (path, self.linked(path, offset)) for address, (path, offset) in known(places)}
        sources = asked({path: self.file(path) for path, _ in linked.values()}, set(linked.values()))
        return {address: frames_at(address, linked.get(address), sources) for address in places}


def known(places: dict[int, tuple[str, int] | None]) -> list[tuple[int, tuple[str, int]]]:
    return [(address, place) for address, place in places.items() if place]


def loaded(file: Path) -> list[tuple[int, int, int]]:
    """Offset, size and address of each loaded segment."""
    try:
        with file.open("rb") as binary:
            head = binary.read(64)
            if head[:5] != ELF64 or len(head) < 64:
                return []
            table, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            binary.seek(table)
            rows = binary.read(size * count)
    except OSError:
        return []
    headers = [struct.unpack_from("<IIQQQQ", rows, at) for at in range(0, len(rows) - 55, max(size, 56))]
    return [(offset, length, address) for kind, _, offset, address, _, length in headers if kind == PT_LOAD]


def asked(files: dict[str, Path | None], places: set[tuple[str, int]]) -> dict[tuple[str, int], symbolize.Source]:
    tool = symbolize.addr2line()
    found: dict[tuple[str, int], symbolize.Source] = {}
    for path, file in files.items():
        addresses = sorted(f"{address:x}" for of, address in places if of == path)
        if file and tool:
            for address, source in symbolize.asked(tool, str(file), addresses):
                found[path, int(address, 16)] = source
    return found


def frames_at(
    address: int, place: tuple[str, int] | None, sources: dict[tuple[str, int], symbolize.Source]
) -> list[Frame]:
    if place is None:
        return [Frame(f"{address:#x}")]
    named = [
        Frame(function, "" if line.startswith(UNKNOWN) else short(line))
        for function, line in sources.get(place, [])
        if function != UNKNOWN
    ]
    return named or [Frame(f"{Path(place[0]).name}+{place[1]:#x}")]


def short(line: str) -> str:
    """The file without its folders."""
    return Path(line.split(" (discriminator")[0]).name


def named(raw: list[Raw], modules: Modules) -> tuple[Stack, ...]:
    """One for each stack of functions, those with the most bytes first."""
    names = modules.names(address for stack in raw for address in stack.addresses)
    merged: dict[tuple[str, ...], Stack] = {}
    for one in raw:
        frames = tuple(frame for address in one.addresses for frame in names[address])
        stack = Stack(frames, one.live, one.blocks, one.pinned)
        before = merged.get(stack.key)
        merged[stack.key] = added(before, stack) if before else stack
    return tuple(sorted(merged.values(), key=lambda stack: -(stack.live + stack.pinned)))


def added(one: Stack, other: Stack) -> Stack:
    return replace(
        one, live=one.live + other.live, blocks=one.blocks + other.blocks, pinned=one.pinned + other.pinned
    )


def of_report(report: Report, symbols: Path | None = None) -> Stacks | None:
    """None where no block was sampled."""
    mean = whole(report.number("sampled", "mean"))
    if not mean:
        return None
    rows = report.at("sampled", "stacks")
    raw = [raw_of(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    lines = report.at("sampled", "modules")
    modules = Modules(map(str, lines if isinstance(lines, list) else []), report.written, symbols)
    live, pinned = (whole(report.number("sampled", f"{kind}_bytes")) for kind in ("live", "pinned"))
    return Stacks(mean, live, pinned, named(raw, modules))


def whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def raw_of(row: dict[str, object]) -> Raw:
    frames = row.get("frames")
    addresses = tuple(map(whole, frames)) if isinstance(frames, list) else ()
    return Raw(addresses, whole(row.get("live_bytes")), whole(row.get("live_count")), whole(row.get("pinned_bytes")))


def is_heap_profile(text: str) -> bool:
    return text.startswith(HEAP_PROFILE)


def of_heap_profile(text: str, path: Path, written: float = math.inf, symbols: Path | None = None) -> Stacks:
    head = HEAD.match(text)
    if not head:
        raise Trouble(f"{path}: not a heap profile of HAKMEM (HAKMEM_HEAP_PROFILE=FILE writes one)", NO_INPUT)
    body, _, maps = text.partition("MAPPED_LIBRARIES:")
    raw = [one for one in sampled(body, int(head[1])) if one.live]
    stacks = named(raw, Modules(maps.splitlines(), written, symbols))
    return Stacks(int(head[1]), sum(stack.live for stack in stacks), 0, stacks)


def sampled(body: str, mean: int) -> Iterable[Raw]:
    """One for each site. A line behind it may name its scale, of a process that was sampled while it ran."""
    site: re.Match[str] | None = None
    scale: float | None = None
    for line in [*body.splitlines(), "0: 0 [0: 0] @ 0x0"]:
        found, scaling = SITE.match(line), SCALE.match(line)
        if found:
            if site:
                yield scaled(site, mean, scale)
            site, scale = found, None
        elif scaling:
            scale = float(scaling[1])


def scaled(match: re.Match[str], mean: int, scale: float | None) -> Raw:
    """As pprof does it: a sample of `size` bytes stands for 1 / (1 - exp(-size / mean)) blocks."""
    blocks, size = int(match[1]), int(match[2])
    factor = scale if scale is not None else 1 / -math.expm1(-size / blocks / mean) if blocks and size else 0.0
    addresses = tuple(int(word, 16) for word in match[3].split())
    return Raw(addresses, round(size * factor), round(blocks * factor), 0)
