"""Reads executables, and finds out whether a preload can serve them, and whether they have their own malloc."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

Parsed = TypeVar("Parsed")
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_TLS = 1, 2, 3, 4, 7
NT_GNU_BUILD_ID = 3
SHT_SYMTAB, SHT_DYNSYM = 2, 11
DT_NEEDED, DT_STRTAB = 1, 5
# A symbol that only one allocator defines, and that allocator. A file that exports "malloc" has an allocator too.
OWN_MALLOC = {
    b"hak_malloc": "HAKMEM",
    **dict.fromkeys((b"mallctl", b"je_mallctl", b"_rjem_malloc", b"_rjem_mallctl"), "jemalloc"),
    b"mi_malloc": "mimalloc",
    b"tc_malloc": "tcmalloc",
    b"rpmalloc": "rpmalloc",
    b"runtime.mallocgc": "Go's runtime",
}
FREE_THREADED = b"free-threading build"  # part of its sys.version
ALLOCATOR_LIBRARIES = ("jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "hoard", "mesh")


class Layout(NamedTuple):
    """The struct formats for one word size. Both sizes give the same fields in the same order, and skip the others."""

    header: str  # machine, then offset of the segments and of the sections, then bytes and number of each
    program: str  # kind, offset, address, bytes in the file, bytes in memory
    section: str  # kind, offset, bytes, number of the section with the names
    dynamic: str
    symbol: str  # offset of the name, info, section (0 if the symbol is undefined); in WIDE also value and size


WIDE = Layout("18xH12xQQ6xHHHH", "I4xQQ8xQQ8x", "4xI16xQQI20x", "qQ", "IBxHQQ")
NARROW = Layout("18xH8xII6xHHHH", "III4xII8x", "4xI8xIII12x", "iI", "I8xBxH")


@dataclass
class Elf:
    wide: bool
    machine: int
    interpreter: str | None = None
    tls_bytes: int = 0
    needed: list[str] = field(default_factory=list)
    own_malloc: str | None = None  # the allocator's name
    exports_malloc: bool = False


class Reader:
    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self.layout = WIDE if data[4] == 2 else NARROW
        self.order = "<" if data[5] == 1 else ">"
        self.machine, self.programs_at, self.sections_at, *sizes = self.unpack(self.layout.header, 0)
        self.program_bytes, self.program_count, self.section_bytes, self.section_count = sizes

    def unpack(self, shape: str, offset: int) -> tuple:
        return struct.unpack_from(self.order + shape, self.data, offset)

    def segments(self) -> Iterator[tuple]:
        for index in range(self.program_count):
            yield self.unpack(self.layout.program, self.programs_at + index * self.program_bytes)

    def text(self, offset: int) -> str:
        return self.data[offset : self.data.find(b"\0", offset)].decode(errors="replace")

    def file_offset(self, address: int) -> int:
        for kind, offset, start, in_file, _ in self.segments():
            if kind == PT_LOAD and start <= address < start + in_file:
                return address - start + offset
        return address

    def needed(self, offset: int, size: int) -> list[str]:
        step = struct.calcsize(self.order + self.layout.dynamic)
        entries = [self.unpack(self.layout.dynamic, at) for at in range(offset, offset + size - step + 1, step)]
        strings = next((value for tag, value in entries if tag == DT_STRTAB), None)
        if strings is None:
            return []
        names = self.file_offset(strings)
        return [self.text(names + value) for tag, value in entries if tag == DT_NEEDED]

    def symbols(self, *kinds: int) -> Iterator[tuple[Iterator[tuple], tuple]]:
        """The symbols of each table of these kinds, and the section that holds their names."""
        places = range(self.sections_at, self.sections_at + self.section_count * self.section_bytes, self.section_bytes or 1)
        sections = [self.unpack(self.layout.section, place) for place in places]
        shape = struct.Struct(self.order + self.layout.symbol)
        for kind, offset, size, names in sections:
            if kind in kinds and names < len(sections):
                yield shape.iter_unpack(self.data[offset : offset + size - size % shape.size]), sections[names]

    def defined(self, kind: int, wanted: Iterable[bytes]) -> set[bytes]:
        """Returns the wanted names that a symbol table of this kind defines."""
        found: set[bytes] = set()
        for symbols, (_, offset, size, _) in self.symbols(kind):
            names = self.data[offset : offset + size]
            at = {position: name for name in wanted for position in positions(names, name + b"\0")}
            found |= {at[name] for name, _, section, *_ in symbols if section != 0 and name in at}
        return found


def positions(text: bytes, part: bytes) -> Iterator[int]:
    """Yields all positions of the part, because linkers may store a name as the end of a longer one."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


# A part of one of HAKMEM's messages, by which HAKMEM is found in a program whose symbols are stripped.
MARK = b"hakmem: out of memory: "


def read(path: Path) -> Elf | None:
    """Returns None if the file is not a readable ELF file."""
    return read_by(parse, path)


def read_by(parse: Callable[[mmap.mmap], Parsed], path: Path) -> Parsed | None:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(data) if data[:4] == b"\x7fELF" else None
    except (OSError, ValueError, IndexError, OverflowError, struct.error):
        return None


def notes(reader: Reader) -> Iterator[tuple[bytes, int, bytes]]:
    """Yields the name, the kind and the contents of each note."""
    for kind, at, _, size, _ in reader.segments():
        end = at + size
        while kind == PT_NOTE and at < end:
            name, content, what = reader.unpack("III", at)
            start = at + 12 + (name + 3 & ~3)
            yield reader.data[at + 12 : at + 12 + name].rstrip(b"\0"), what, reader.data[start : start + content]
            at = start + (content + 3 & ~3)


def build_id(data: bytes | mmap.mmap) -> str:
    """Returns the build-id of an ELF file, of which at least the first page is known, or an empty text."""
    found = notes(Reader(data)) if data[:4] == b"\x7fELF" else ()
    return next((content.hex() for name, kind, content in found if (name, kind) == (b"GNU", NT_GNU_BUILD_ID)), "")


def parse(data: mmap.mmap) -> Elf:
    reader = Reader(data)
    elf = Elf(wide=reader.layout is WIDE, machine=reader.machine)
    for kind, offset, _, in_file, in_memory in reader.segments():
        if kind == PT_INTERP:
            elf.interpreter = reader.text(offset)
        elif kind == PT_TLS:
            elf.tls_bytes = in_memory
        elif kind == PT_DYNAMIC:
            elf.needed = reader.needed(offset, in_file)
    exported = reader.defined(SHT_DYNSYM, [b"malloc", *OWN_MALLOC])
    elf.exports_malloc = b"malloc" in exported
    named = exported | reader.defined(SHT_SYMTAB, OWN_MALLOC)
    elf.own_malloc = next((owner for name, owner in OWN_MALLOC.items() if name in named), None)
    if elf.own_malloc is None and elf.exports_malloc:
        elf.own_malloc = "HAKMEM" if data.find(MARK) >= 0 else "an allocator of its own"
    return elf


def executable_of(path: Path, depth: int = 0) -> Path:
    """Returns the interpreter if the file is a script, otherwise the file itself."""
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return path
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if not words or depth > 4:
        return path
    if Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = shutil.which(words[0]) if words else None
    return executable_of(Path(found), depth + 1) if found else path


def privilege_of(path: Path) -> str | None:
    """Returns why the loader ignores LD_PRELOAD for this file, or None."""
    mode = path.stat().st_mode
    if mode & stat.S_ISUID and path.stat().st_uid != os.geteuid():
        return "set-user-ID"
    if mode & stat.S_ISGID and path.stat().st_gid != os.getegid():
        return "set-group-ID"
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return None
    return None if os.geteuid() == 0 else "file capabilities"


def why_not_served(program: Path, library: Path | None = None) -> str | None:
    """Returns why a preload cannot serve this program, or None."""
    target = executable_of(program)
    rights = privilege_of(target)
    if rights:
        return f"it is privileged ({rights}), so the loader ignores LD_PRELOAD: link it with libhakmem.a"
    elf = read(target)
    if elf is None or elf.own_malloc == "HAKMEM":
        return None
    if elf.own_malloc == "Go's runtime":
        return "Go programs allocate directly from the system, not by malloc"
    if elf.interpreter is None:
        return "it is statically linked and ignores LD_PRELOAD: link it with libhakmem.a"
    serving = read(library) if library else None
    its, ours = c_library(elf), c_library(serving) if serving else "glibc"
    if its and ours and its != ours:
        return f"it is built for {its}, the library for {ours}: link it with a libhakmem.a that is built for {its}"
    if elf.exports_malloc:
        return f"it has {elf.own_malloc} linked in, which takes precedence over a preload: rebuild it without"
    return wrong_machine(elf, serving)


def c_library(elf: Elf) -> str | None:
    """Returns the C library of a file, or None if it is unknown. The loader and the libraries that the file names show it."""
    names = [Path(elf.interpreter or "").name, *elf.needed]
    if any(name == "libc.so" or name.startswith(("ld-musl-", "libc.musl-")) for name in names):
        return "musl"
    return "glibc" if any(name.startswith(("libc.so.6", "ld-linux")) for name in names) else None


def wrong_machine(program: Elf, library: Elf | None) -> str | None:
    if library is None or (program.wide, program.machine) == (library.wide, library.machine):
        return None
    bits = {True: 64, False: 32}
    return f"it is built for another machine ({bits[program.wide]} bits, machine {program.machine}) than the library"


def is_free_threaded(python: Path, elf: Elf) -> bool:
    """Returns True for a CPython without the global lock (3.13 and later). Its names or the version text inside it show this."""
    if re.match(r"python3\.\d+t", python.name) or any(re.match(r"libpython3\.\d+t\.so", name) for name in elf.needed):
        return True
    return read_by(lambda data: data.find(FREE_THREADED) >= 0, python) or False


def note_on(program: Path) -> str | None:
    """Returns which allocations of a served program may bypass HAKMEM, or None."""
    target = executable_of(program)
    elf = read(target)
    if elf is None:
        return None
    if elf.own_malloc == "HAKMEM":
        return "it is linked with HAKMEM: that copy serves it, and reads the options; a preloaded one does nothing"
    if any(name.startswith("libhakmem") for name in elf.needed):
        return "it is linked with libhakmem.so: it runs on HAKMEM without a preload too"
    libraries = [name for name in elf.needed if any(known in name for known in ALLOCATOR_LIBRARIES)]
    if libraries:
        return f"it is linked with {', '.join(libraries)}: a preload serves malloc, but not its own functions"
    if elf.own_malloc and elf.own_malloc != "HAKMEM":
        return f"it contains {elf.own_malloc} under other names: HAKMEM does not serve calls of those"
    if target.name.startswith("python") and is_free_threaded(target, elf):
        return (
            "it is free-threaded Python, whose objects and own blocks are served by a copy of mimalloc inside it, also with "
            "PYTHONMALLOC set: HAKMEM serves what libraries, extension modules and the interpreter's raw memory ask for"
        )
    if target.name.startswith("python"):
        return "Python serves blocks of up to 512 bytes from its own pools: PYTHONMALLOC=malloc passes them to HAKMEM"
    return None
