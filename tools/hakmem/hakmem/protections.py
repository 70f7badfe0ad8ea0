"""Has the options that `hakmem run --hardened` and `--guard` set, and checks which protections work on this machine. Also has what all checks of
hakmem doctor share: the class of a finding, and functions that read files and run programs."""

from __future__ import annotations

import mmap
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem.figures import count_text
from hakmem.library import HARDENED_NAME, hardened_library, preload

HARDENED = {"hardened": "1"}
GUARD = {"safe_free": "1", "guard_sample": "1m"}
MADV_GUARD_INSTALL = 102
MAPS_OF_GUARD = 2  # a guard page by PROT_NONE splits a mapping in up to three
TRY_S = 30
NO_CORE_FILE = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
OVERFLOW = """
import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
ctypes.memset(malloc(4096), 0, 4097)
"""
FREED_BY_TWO_THREADS = """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
block = libc.malloc(100)
thread = threading.Thread(target=libc.free, args=(block,))
thread.start()
thread.join()
libc.free(block)
"""


def options(hardened: bool, guard: bool) -> dict[str, str]:
    return (HARDENED if hardened else {}) | (GUARD if guard else {})


def lines(system: System, library: Path) -> Iterator[Line]:
    yield from hardened(library)
    yield from guard_pages(system)
    yield remote_track(library)
    yield core_files(system)


def hardened(library: Path) -> Iterator[Line]:
    found = hardened_library(library)
    if found is None:
        advice = "hakmem run --hardened needs it: build it (make), install it (make install)"
        yield Line(NOTE, "hardened library", f"no {HARDENED_NAME} in {library.parent}", advice)
        return
    yield Line(OK, "hardened library", str(found))
    yield checked_copies(found)


def said_about(mistake: str, library: Path, **options: str) -> str | None:
    """Makes the mistake in a small program, because a preload fails silently. Returns its stderr, or None if it did not end."""
    return said_by([sys.executable, "-I", "-S", "-c", NO_CORE_FILE + mistake], library, TRY_S, **options)


def trial(subject: str, what: str, said: str | None, expected: str, as_it_should: str, library: Path) -> Line:
    if said is None:
        return Line(WARNING, subject, f"the trial did not end within {TRY_S} s")
    if re.search(expected, said):
        return Line(OK, subject, f"{what} ended its program, {as_it_should}")
    return Line(WARNING, subject, f"{what} was not seen", f"is {library} intact? ldd {library}")


def remote_track(library: Path) -> Line:
    said = said_about(FREED_BY_TWO_THREADS, library, HAKMEM_TRACE_REMOTE="1")
    expected = r"block already free, .*, freed by thread \d+ at 0x"
    return trial("remote track", "a block freed by two threads", said, expected, "with the place of the first free", library)


def checked_copies(library: Path) -> Line:
    said, expected = said_about(OVERFLOW, library), r"hakmem: memset\(\): write beyond the end of a block"
    return trial("checked copies", "a write beyond the end of a block", said, expected, "as it should", library)


def guard_advice_works() -> bool:
    """Returns True if the kernel can make a guard page by madvise."""
    with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page, suppress(OSError):
        page.madvise(MADV_GUARD_INSTALL)
        return True
    return False


def guard_pages(system: System, works: Callable[[], bool] = guard_advice_works) -> Iterator[Line]:
    if works():
        yield Line(OK, "guard pages", "MADV_GUARD_INSTALL: they take no mapping of their own")
        return
    count = system.number("proc/sys/vm/max_map_count")
    room = f", and vm.max_map_count is {count_text(count)}" if count is not None else ""
    why = "PROT_NONE, for the kernel has no MADV_GUARD_INSTALL (6.13)"
    yield Line(OK, "guard pages", f"{why}: each takes up to {MAPS_OF_GUARD} mappings{room}")


def core_files(system: System) -> Line:
    """Returns the line that says where core files go. A program that a protection ends leaves its state there."""
    pattern = system.text("proc/sys/kernel/core_pattern")
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    if pattern and pattern.startswith("|"):
        return Line(OK, "core files", f"go to {pattern[1:].split()[0]}")
    if soft == 0 or not pattern:
        advice = "a program that a protection ends says one line only; with ulimit -c unlimited its state is kept too"
        return Line(NOTE, "core files", "none is written", advice)
    return Line(OK, "core files", f"are written to {pattern}")


OK, NOTE, WARNING = "ok", "note", "warning"


@dataclass(frozen=True)
class Line:
    level: str
    subject: str
    found: str
    advice: str = ""
    stops: bool = False  # prevents HAKMEM from serving


class System:
    """Reads files under /proc and /sys. Tests pass another root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text and text.lstrip("-").isdecimal() else None

    def meminfo(self, name: str) -> int | None:
        for line in (self.text("proc/meminfo") or "").splitlines():
            words = line.split()
            if words[:1] == [f"{name}:"] and len(words) > 1 and words[1].isdecimal():
                return int(words[1]) * 1024
        return None


def said_by(command: list[str], library: Path, seconds: float, **options: str) -> str | None:
    """Runs a program on the library, with these options and no other variables of HAKMEM. Returns what it wrote to stderr, or None if it did not
    end in time."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    environment = own | {"LD_PRELOAD": preload(library, own)} | options
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stderr.decode(errors="replace")
