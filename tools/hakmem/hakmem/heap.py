"""Reads HAKMEM's heap and samples from the memory of a process (attached.py), of a core file (core.py), or of a program in gdb (hakmem-gdb.py).
layout.def names the fields that it reads. gdb has its own Python, so this module uses the standard library only."""

from __future__ import annotations

import bisect
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hakmem.profiles import Live, Profile, Site
from hakmem.trouble import Trouble

MAGIC, VERSION = b"hakmem attach ", b"4\0"
DOOR = struct.Struct("<16s11Q")
SITE = struct.Struct("<QIIqqQQ")
LAYOUT = re.findall(r"^HK_.*$", Path(__file__).with_name("layout.def").read_text(), re.MULTILINE)
NAMES = [".".join(filter(None, found)) for found in re.findall(r"\((\w+)(?:, (\w+))?\)", " ".join(LAYOUT))]
STACK_MOST = 64
ABANDONED = 1  # HK_ABANDONED
IMAGE_MOST = 1 << 31  # most bytes of a program or library in memory
OWNER_MASK = (1 << 31) - 1  # without HK_ENTRY_MIXED


class Missing(Exception):
    """Memory that a core file lacks."""


class Door:
    """The table hak_attach, which leads to all others (src/runtime/attach.h)."""

    def __init__(self, read: Callable[[int, int], bytes], at: int) -> None:
        self.read, self.at = read, at
        (magic, self.state, self.gate, self.due, self.classes, self.watch, self.hooks, self.samples, self.window, self.descriptors, self.owners,
         self.heaps) = DOOR.unpack(read(at, DOOR.size))
        if magic != MAGIC + VERSION:
            raise Trouble(f"the program ran another version of HAKMEM than this tool's ({magic.rstrip(bytes(1)).decode(errors='replace')!r})")
        self.of = dict(zip(NAMES, self.array(at + DOOR.size, len(NAMES), "I")))

    def array(self, at: int, count: int, kind: str = "Q") -> tuple:
        shape = struct.Struct(f"<{count}{kind}")
        return shape.unpack(self.read(at, shape.size)) if count else ()

    def word(self, at: int, kind: str = "Q") -> int:
        return self.array(at, 1, kind)[0]

    def field(self, at: int, name: str, kind: str = "Q") -> int:
        return self.word(at + self.of[name], kind)

    def sites(self) -> dict[int, Site]:
        found = {}
        stack_at, lifetimes = self.of["site.stack"], self.of["SAMPLE_LIFETIMES"]
        count = self.field(self.samples, "samples.site_count", "I") if self.sampled else 0
        for number, pointer in enumerate(self.array(self.field(self.samples, "samples.xsites"), count)):
            if pointer:
                head = self.read(pointer, stack_at)
                _, bits, depth, live_blocks, live_bytes, blocks, size = SITE.unpack_from(head)
                stack = self.array(pointer + stack_at, min(depth, STACK_MOST))
                spans = struct.unpack_from(f"<{lifetimes}I", head, self.of["site.xlifetimes"])
                freed = {span: count for span, count in enumerate(spans) if count}
                found[number] = Site(stack, bits, max(0, live_blocks), max(0, live_bytes), blocks, size, freed)
        return found

    @property
    def sampled(self) -> bool:
        return self.field(self.samples, "samples.xsites") != 0

    @property
    def is_relocated(self) -> bool:
        """False for a copy whose addresses are those of the file. The last page of a segment may show the beginning of the next segment."""
        return abs(self.state - self.at) < IMAGE_MOST

    @property
    def serves(self) -> bool:
        return self.word(self.word(self.descriptors)) != 0

    def live(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields the address, the site's number, the size and the birth of each live sample."""
        count, bits = self.field(self.samples, "samples.place_count", "I") if self.sampled else 0, self.of["SAMPLE_SITE_BITS"]
        kinds = {"samples.xblocks": "Q", "samples.xrecords": "Q", "samples.xborn": "I"}
        for block, record, born in zip(*(self.array(self.field(self.samples, name), count, kind) for name, kind in kinds.items())):
            if block > 1:
                yield block, record & ((1 << bits) - 1), record >> bits, born

    def served(self) -> list[tuple[int, int]]:
        """Returns the size of each fine class, and the number of blocks that it has served."""
        counts = self.array(self.watch + self.of["attach_sampling.xserved"], self.of["FINE_CLASSES"])
        return [(self.word(self.classes + self.of["class"] * index, "I"), count) for index, count in enumerate(counts)]

    @property
    def watches(self) -> bool:
        """Returns False if the program has sampled each call since its start."""
        return self.field(self.hooks, "hooks.watches", "B") != 0

    @property
    def sampled_from_start(self) -> bool:
        """Returns True if the program samples each call because of its options. It then has samples without any request."""
        return self.sampled and not self.watches and self.field(self.hooks, "hooks.mean") != 0

    @property
    def mean(self) -> int:
        return self.field(self.watch, "attach_sampling.xmean") if self.watches else self.field(self.hooks, "hooks.mean")

    def profile(self, maps: str, now: float | None = None, pid: int | None = None) -> Profile:
        """Returns the samples. Without `now`, the time of the last sample stands for it."""
        sites, live, began, mean = self.sites(), list(self.live()), self.field(self.hooks, "hooks.began_ms"), self.mean
        now = max((born for *_, born in live), default=began) if now is None else now
        found = Profile(list(sites.values()), maps, (now - began) / 1000, mean, pid=pid)
        for _, number, size, born in live:
            if number in sites:
                age = ((int(now) - born) & 0xFFFFFFFF) / 1000
                sites[number].live.append(Live(size, age if age < 1 << 21 else 0.0))
        if self.watches:
            found.scale_rounds(self.field(self.watch, "attach_sampling.xfine_mean"), self.of["FINE_MAX"], self.served())
        return found


def ones(bits: int) -> int:
    return bin(bits).count("1")


@dataclass
class Area:
    """A slab, or a large block, which is one block. In a set of blocks, bit i stands for block i."""

    start: int
    bytes: int
    size: int
    blocks: int
    owner: str
    large: bool = False
    heap: bool = False
    free: int = 0
    remote: int = 0
    joined: int = 0
    held: int = 0  # the blocks in caches and outboxes

    @property
    def taken(self) -> int:
        """Returns the blocks that are live or held, without the further cells of joined blocks (src/slab/joined_blocks.h)."""
        return ((1 << self.blocks) - 1) & ~self.free & ~self.joined

    def cells(self, index: int) -> int:
        after = ~(self.joined >> (index + 1))
        return (after & -after).bit_length() if self.joined else 1

    def bytes_of(self, blocks: int) -> int:
        if not self.joined:
            return ones(blocks) * self.size
        return sum(self.cells(index) * self.size for index in range(self.blocks) if blocks >> index & 1)


@dataclass
class Block:
    start: int
    size: int
    area: Area
    state: str


@dataclass
class Heap:
    door: Door
    areas: list[Area] = field(default_factory=list)
    caches: dict[str, tuple[int, int]] = field(default_factory=dict)  # the blocks and bytes in a thread's caches
    places: dict[int, str] = field(default_factory=dict)  # where the blocks are that neither the program nor a slab has
    missing: list[str] = field(default_factory=list)  # what could not be read

    def __post_init__(self) -> None:
        self.of, self.word, self.field, self.array = self.door.of, self.door.word, self.door.field, self.door.array
        self.threads = dict(self.each(self.tcaches(), "thread cache", lambda at: (self.field(at, "tcache.owner", "I"), self.thread(at))))
        self.areas = sorted(filter(None, self.each(self.descriptors(), "slab", self.area)), key=lambda one: one.start)
        self.starts = [area.start for area in self.areas]
        list(self.each(self.tcaches(), "thread cache", self.take_cache))

    def each(self, found: Iterator, what: str, read: Callable) -> Iterator:
        """Yields what `read` makes of each item. Notes the items that lie in memory that is missing."""
        try:
            for one in found:
                try:
                    yield read(one)
                except (Missing, struct.error) as error:
                    self.missing.append(f"{what}: {error}")
        except (Missing, struct.error) as error:
            self.missing.append(f"{what}s: {error}")

    def descriptors(self) -> Iterator[bytes]:
        newest, slots, group_bytes = self.array(self.door.descriptors, 3)
        group, size = self.word(newest), self.of["DESCRIPTOR_BYTES"]
        while group:
            data = self.door.read(group + slots, (group_bytes - slots) // size * size)
            yield from (data[at : at + size] for at in range(0, len(data), size))
            group = self.word(group)

    def area(self, data: bytes) -> Area | None:
        def part(name: str, kind: str = "Q") -> int:
            return struct.unpack_from("<" + kind, data, self.of[name])[0]

        start, size, kind = part("descriptor.start"), part("descriptor.bytes"), part("descriptor.class", "B")
        of_heap = bool(kind & self.of["OF_HEAP"])
        kind &= self.of["OF_HEAP"] - 1
        if not start or not size or not part("descriptor.block_size", "I") or kind == self.of["CLASS_SHARED"]:
            return None  # unused, or just being made
        if kind == self.of["CLASS_LARGE"]:
            requested, cached = part("large_block.requested"), part("large_block.link") != 0
            return Area(start, size, size if cached else requested or size, 1, "", large=True, free=int(cached))
        blocks = part("descriptor.blocks", "H")
        owner = self.user_heap(start) if of_heap else self.owner(part("slab.xowner", "I"))
        area = Area(start, size, part("descriptor.block_size", "I"), blocks, owner, heap=of_heap)
        for name, pointer in (("free", part("slab.freebits")), ("remote", part("slab.xremote")), ("joined", part("slab.xjoined"))):
            bits = self.door.read(pointer, (blocks + 63) // 64 * 8) if pointer else b""
            setattr(area, name, int.from_bytes(bits, "little") & ((1 << blocks) - 1))
        return area

    def owner(self, number: int) -> str:
        return "no thread" if number == ABANDONED else self.threads.get(number, f"owner {number}")

    def user_heap(self, start: int) -> str:
        base, entries = (self.field(self.door.window, f"window.{name}") for name in ("base", "entries"))
        if not 0 <= start - base < self.field(self.door.window, "window.flat"):
            return "a user heap"
        entry = self.word(entries + (start - base >> self.of["SLICE_SHIFT"]) * 4, "I") & OWNER_MASK
        number = (entry >> self.of["ENTRY_OWNER_SHIFT"]) - self.of["FIRST_HEAP"]
        parts, in_part = self.array(self.door.heaps, 2)
        heap = self.word(self.word(parts + number // in_part * 8) + number % in_part * 8)
        name = self.door.read(heap + self.of["name"], 64).split(b"\0")[0].decode(errors="replace")
        return f"user heap {number}" + (f" ({name})" if name else "")

    def tcaches(self) -> Iterator[int]:
        first, more, in_part = self.array(self.door.owners, 3)
        for number in count(ABANDONED + 1):
            part = first if number < in_part else self.word(more + number // in_part * 8)
            owner = self.word(part + number % in_part * 8) if part else 0
            if not owner:
                return
            if self.field(owner - self.of["tcache.owner"], "tcache.alive", "B"):
                yield owner - self.of["tcache.owner"]

    def thread(self, cache: int) -> str:
        number = self.field(cache, "tcache.system_thread", "I")
        return f"thread {number}" if number else f"owner {self.field(cache, 'tcache.owner', 'I')}"

    def take_cache(self, cache: int) -> None:
        """Notes where the free blocks are that the caches of a thread hold."""
        thread, blocks, size = self.thread(cache), 0, 0
        found = {
            "in a bin": self.in_bins(cache + self.of["tcache.hot"], self.of["CLASSES"], "bin"),
            "in the depot": self.in_depot(cache),
            "in the quarantine": self.in_quarantine(cache),
            "in the cache of a user heap": self.in_heap_caches(cache),
            "as a remote free in the outbox": self.in_outbox(cache),
        }
        for where, addresses in found.items():
            for block in self.each(filter(None, addresses), where, int):
                area = self.area_at(block)
                if area and not area.large:
                    index = (block - area.start) // area.size
                    area.held |= 1 << index
                    self.places[block] = f"{where} of {thread}"
                    blocks, size = blocks + 1, size + area.cells(index) * area.size
        self.caches[thread] = blocks, size

    def in_bins(self, bins: int, count: int, kind: str) -> Iterator[int]:
        for place in range(bins, bins + count * self.of["bin"], self.of["bin"]):
            base, top = self.field(place, f"{kind}.base"), self.field(place, f"{kind}.top")
            yield from self.array(base + 8, (top - base) // 8)

    def in_depot(self, cache: int) -> Iterator[int]:
        for kind in range(self.of["CLASSES"]):
            magazine = self.field(cache + self.of["tcache.depot"] + kind * self.of["depot_class"], "depot_class.newest")
            while magazine:
                yield from self.array(magazine + self.of["magazine.blocks"], self.field(magazine, "magazine.count"))
                magazine = self.field(magazine, "magazine.next")

    def in_quarantine(self, cache: int) -> Iterator[int]:
        quarantine = self.field(cache, "tcache.quarantine")
        yield from self.array(quarantine + self.of["quarantine.blocks"], self.of["QUARANTINE_HELD"]) if quarantine else ()

    def in_heap_caches(self, cache: int) -> Iterator[int]:
        shelf = cache + self.of["tcache.shelf"]
        for one in self.array(self.field(shelf, "heap_shelf.caches"), self.field(shelf, "heap_shelf.size", "I")):
            heap = self.field(one, "heap_cache.heap")
            if heap and self.field(heap, "xgeneration") == self.field(one, "heap_cache.generation"):
                yield from self.in_bins(one + self.of["heap_cache.bins"], self.of["FINE_CLASSES"], "heap_bin")

    def in_outbox(self, cache: int) -> Iterator[int]:
        outbox = cache + self.of["tcache.outbox"]
        table, entries = self.field(outbox, "outbox.table"), self.field(outbox, "outbox.size")
        for entry in range(table, table + entries * self.of["outbox_entry"] if table else 0, self.of["outbox_entry"]):
            start, bits, size = (self.field(entry, f"outbox_entry.{name}") for name in ("start", "bits", "block_size"))
            yield from (start + index * size for index in range(64) if bits >> index & 1)

    def area_at(self, address: int) -> Area | None:
        at = bisect.bisect_right(self.starts, address) - 1
        area = self.areas[at] if at >= 0 else None
        return area if area and address < area.start + area.bytes else None

    def has(self, address: int) -> bool:
        """Returns True for memory that HAKMEM has for blocks, whether blocks lie there now or not."""
        return self.area_at(address) is not None or self.is_free_slice(address)

    def is_free_slice(self, address: int) -> bool:
        offset = address - self.field(self.door.window, "window.base")
        if not 0 <= offset < self.field(self.door.window, "window.flat"):
            return False
        chunk = self.field(self.door.window, "window.chunks") + (offset >> self.of["CHUNK_SHIFT"]) * self.of["chunk"]
        slices = self.of["CHUNK_SHIFT"] - self.of["SLICE_SHIFT"]
        return bool(self.field(chunk, "chunk.owned", "I") >> ((address >> self.of["SLICE_SHIFT"]) % (1 << slices)) & 1)

    def block_at(self, address: int) -> Block | None:
        """Returns the block that contains the address, or None."""
        area = self.area_at(address)
        if area is None or (address - area.start) // area.size >= area.blocks:
            return None
        index = (address - area.start) // area.size
        while area.joined >> index & 1:
            index -= 1
        start = area.start + index * area.size
        return Block(start, area.size * (1 if area.free >> index & 1 else area.cells(index)), area, self.state(area, index, start))

    def state(self, area: Area, index: int, start: int) -> str:
        if area.free >> index & 1:
            return "free, cached for reuse" if area.large else "free in its slab"
        if start in self.places:
            return f"free, {self.places[start]}"
        return "freed by another thread, waits in its slab for the owner" if area.remote >> index & 1 else "live"

    def stack_of(self, address: int) -> tuple:
        """Returns the stack that allocated the live block of an address, if the block is a sample."""
        block = self.block_at(address)
        number = next((number for start, number, *_ in self.door.live() if block and start == block.start), -1)
        return self.door.sites()[number].stack if number >= 0 else ()

    def summary(self) -> Iterator[str]:
        """Yields a line for each user heap and block size, for the large blocks, and for each thread's caches."""
        rows: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * 6)
        for area in self.areas:
            remote = area.remote & area.taken & ~area.held
            live = area.taken & ~area.held & ~remote
            sums = ones(live), area.bytes_of(live), ones(area.held), ones(remote), ones(area.free), 1
            key = ("", 0) if area.large else (area.owner if area.heap else "", area.size)
            rows[key] = [sum(pair) for pair in zip(rows[key], sums)]
        yield f"{'block bytes':>12} {'live':>10} {'live bytes':>14} {'in caches':>10} {'remote':>8} {'in slabs':>10} {'slabs':>7}"
        live_large, bytes_large, _, _, cached, _ = rows.pop(("", 0), [0] * 6)
        for (heap, size), row in sorted(rows.items()):
            yield f"{size:>12} {row[0]:>10} {row[1]:>14} {row[2]:>10} {row[3]:>8} {row[4]:>10} {row[5]:>7}  {heap}".rstrip()
        bytes_cached = sum(area.bytes for area in self.areas if area.large and area.free)
        yield f"{'large':>12} {live_large:>10} {bytes_large:>14} {cached:>10}   ({bytes_cached} bytes cached)"
        yield f"{'all':>12} {live_large + sum(row[0] for row in rows.values()):>10} {bytes_large + sum(row[1] for row in rows.values()):>14}"
        yield from (f"cache of {name}: {blocks} blocks, {size} bytes" for name, (blocks, size) in self.caches.items())
        if self.missing:
            yield f"{len(self.missing)} parts of the heap could not be read. The first is {self.missing[0]}"

    def about(self, address: int, name: str = "") -> Iterator[str]:
        """Yields lines about an address."""
        block, title = self.block_at(address), f"0x{address:x}{f' ({name})' if name else ''}"
        if block is None:
            yield f"{title} lies in {self.around(address)}"
            return
        offset = address - block.start
        place, at = (f"{offset} bytes into the", f" at 0x{block.start:x}") if offset else ("the start of a", "")
        yield f"{title} is {place} block of {block.size} bytes{at}: {block.state}"
        yield "    a large block" if block.area.large else f"    in a slab of blocks of {block.area.size} bytes, which {block.area.owner} has"
        for side, there in (("before", block.start - 1), ("after", block.start + (block.area.bytes if block.area.large else block.size))):
            beside = self.block_at(there)
            yield f"    {side}: {f'the block of {beside.size} bytes at 0x{beside.start:x}: {beside.state}' if beside else self.around(there)}"

    def around(self, address: int) -> str:
        if self.area_at(address):
            return "the tail of a slab, which has no block"
        return "free memory of HAKMEM's heap, where no slab is now" if self.is_free_slice(address) else "memory that HAKMEM has no block in"
