"""Reads the core file of a program that ran HAKMEM: what its heap held, and the blocks of addresses."""

from __future__ import annotations

import bisect
import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hakmem import elf
from hakmem.heap import MAGIC, VERSION, Door, Heap, Missing
from hakmem.sources import Sources, blame
from hakmem.trouble import NO_INPUT, Trouble

ET_CORE = 4
NT_PRSTATUS, NT_AUXV, NT_FILE, NT_SIGINFO = 1, 6, 0x46494C45, 0x53494749
AT_ENTRY = 9
REGISTERS_AT = 112  # offset of the registers in NT_PRSTATUS
# The order of the registers in NT_PRSTATUS, by the machine.
REGISTERS = {
    62: "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi - rip - - rsp".split(),  # EM_X86_64
    183: [*(f"x{number}" for number in range(31)), "sp", "pc"],  # EM_AARCH64
}
FAULTS = (4, 5, 7, 8, 11)  # SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, whose siginfo has an address
PAGE = 4096
MOST_SITES = 10


class Core:
    def __init__(self, path: Path, exe: Path | None, symbols: Path | None) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.reader = elf.Reader(self.data)
            loads = sorted((start, offset, in_file) for kind, offset, start, in_file, _ in self.reader.segments() if kind == elf.PT_LOAD)
            notes = list(elf.notes(self.reader))
        except (ValueError, IndexError, struct.error):
            raise Trouble(f"{path}: not a core file, or its beginning is damaged", NO_INPUT) from None
        if self.data[:4] != b"\x7fELF" or self.reader.unpack("H", 16)[0] != ET_CORE or self.reader.layout is not elf.WIDE:
            raise Trouble(f"{path}: not a core file of a program of 64 bits", NO_INPUT)
        self.loads, self.starts = loads, [start for start, *_ in loads]
        self.notes = {kind: content for _, kind, content in reversed(notes)}  # the first thread is the one that crashed
        self.lacks = max((offset + size for _, offset, size in loads), default=0) - len(self.data)
        self.sources = Sources("")
        self.maps = self.mapped_files(exe)
        self.sources = Sources(self.maps, written=path.stat().st_mtime, symbols=symbols)

    def read(self, at: int, size: int) -> bytes:
        """Returns memory from the core file. If the core file leaves it out, returns it from the mapped file."""
        found = b""
        while len(found) < size:
            address = at + len(found)
            place = bisect.bisect_right(self.starts, address) - 1
            start, offset, length = self.loads[place] if place >= 0 else (0, 0, 0)
            inside = address < start + length
            first, most = offset + address - start, size - len(found)
            part = self.data[first : min(first + most, offset + length)] if inside else self.from_file(address, most)
            if not part:
                raise Missing(f"0x{address:x} is not in the core file" + (", which is truncated" if inside else ""))
            found += part
        return found

    def from_file(self, address: int, size: int) -> bytes:
        mapping = self.sources.mapping(address)
        file = self.sources.file_of(mapping.path) if mapping else None
        if not mapping or not file:
            return b""
        with open(file, "rb") as opened:
            return os.pread(opened.fileno(), min(size, mapping.end - address), mapping.offset + address - mapping.start)

    def mapped_files(self, exe: Path | None) -> str:
        """Returns the mapped files as in the profiles that the library writes. Their build-ids follow their first pages. `exe` is where the executable is now."""
        note = self.notes.get(NT_FILE, bytes(16))
        count, page = struct.unpack_from("<2Q", note)
        names = note[16 + 24 * count :].decode(errors="replace").split("\0")
        entry = dict(struct.iter_unpack("<2Q", self.notes.get(NT_AUXV, b""))).get(AT_ENTRY, 0)
        rows = [(*struct.unpack_from("<3Q", note, 16 + 24 * row), names[row]) for row in range(count)]
        program = next((name for start, end, _, name in rows if start <= entry < end), "")
        lines = []
        for start, end, offset, name in rows:
            path = str(exe.resolve()) if exe and name == program else name
            lines.append(f"{start:x}-{end:x} r--p {offset * page:x} 00:00 0 {path}")
            if offset == 0:
                with suppress(Missing, ValueError, IndexError, struct.error):
                    lines.append(f"# build-id {elf.build_id(self.read(start, PAGE))}")
        return "\n".join(lines) + "\n"

    def door(self) -> Door:
        """Finds hak_attach in the data of the mapped files, or in all memory if the core file does not name the mapped files."""
        other, doors = b"", []
        ranges = [(one.start, one.end) for one in sorted(self.sources.maps, key=lambda one: "libhakmem" not in one.path)]
        for first, last in ranges or [(start, start + size) for start, _, size in self.loads]:
            at = bisect.bisect_right(self.starts, first) - 1
            start, offset, size = self.loads[at] if at >= 0 else (0, 0, 0)
            begin, end = offset + first - start, offset + min(last - start, size)
            while (place := self.data.find(MAGIC, begin, end)) >= 0:
                begin = place + 16
                if self.data[place + len(MAGIC) : begin] == VERSION:
                    door = Door(self.read, place - offset + start)
                    doors += [door] * door.is_relocated
                other = self.data[place:begin].rstrip(b"\0")
        if doors:  # a program may contain several copies of HAKMEM, of which one serves
            return next((door for door in doors if door.serves), doors[0])
        if other:
            raise Trouble(f"{self.path}: the program ran another version of HAKMEM than this tool's ({other.decode(errors='replace')})")
        ours = next((mapping.path for mapping in self.sources.maps if "libhakmem" in mapping.path), "")
        if ours:
            raise Trouble(f"{self.path}: the core file lacks the data of {ours}: it is truncated, or the program's coredump_filter left it out")
        raise Trouble(f"{self.path}: the program did not run HAKMEM, or the core file lacks its data")

    def addresses(self) -> dict[int, str]:
        """Returns the address of the fault and those in the registers of the thread that crashed, with their names."""
        found: dict[int, list[str]] = defaultdict(list)
        info, status = self.notes.get(NT_SIGINFO, b""), self.notes.get(NT_PRSTATUS, b"")
        if len(info) >= 24 and struct.unpack_from("<i", info)[0] in FAULTS:
            found[struct.unpack_from("<Q", info, 16)[0]].append("address of the fault")
        names = REGISTERS.get(self.reader.machine, [])
        if len(status) >= REGISTERS_AT + 8 * len(names):
            values = struct.unpack_from(f"<{len(names)}Q", status, REGISTERS_AT)
            for name, value in zip(names, values):
                found[value] += [name] if name != "-" else []
        return {address: ", ".join(names) for address, names in found.items()}


def core(path: Path, exe: Path | None, wanted: list[int], symbols: Path | None) -> Iterator[str]:
    """Yields the lines that the command prints."""
    file = Core(path, exe, symbols)
    try:
        yield from told(file, wanted)
    except Missing as missing:
        raise Trouble(f"{path}: {missing}") from None
    file.sources.tell_missing()


def told(file: Core, wanted: list[int]) -> Iterator[str]:
    heap = Heap(file.door())
    if not heap.areas:
        raise Trouble(f"{file.path}: the program had no blocks, or the core file lacks HAKMEM's tables (gdb leaves out memory with guard pages)")
    profile = heap.door.profile(file.maps) if heap.door.sampled else None
    if not wanted:
        signal = struct.unpack_from("<i", file.notes.get(NT_SIGINFO, bytes(4)))[0]
        yield f"{file.path}: {f'signal {signal}, ' if signal else ''}{len(heap.areas)} slabs and large blocks"
        if file.lacks > 0:
            yield f"the core file is truncated: it lacks {file.lacks} bytes at its end"
        yield from heap.summary()
    if not wanted and profile:
        tops = sorted(profile.sums(), key=lambda one: one.live_bytes, reverse=True)[:MOST_SITES]
        file.sources.learn(one.stack for one in tops)
        yield f"call sites of live blocks, estimated from {profile.samples} samples:"
        yield from (f"{one.live_bytes:>14.0f} bytes  {blame(file.sources.frames(one.stack))[0]}" for one in tops if one.live_bytes >= 1)
    for address, name in [(address, "") for address in wanted] or [one for one in file.addresses().items() if heap.has(one[0])]:
        yield from heap.about(address, name)
        stack = heap.stack_of(address)
        file.sources.learn([stack])
        yield from (f"    allocated at {frame}" for frame in file.sources.frames(stack))
