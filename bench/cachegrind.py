"""Runs real programs under cachegrind, which does not replace malloc: the preloaded allocator runs. The cache sizes are fixed, so they are the
same on every machine."""
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from measure import BadRun

VALGRIND = shutil.which("valgrind")
# I1 and D1 of 32 KiB, a second level of 1 MiB for both, which is the last one.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
# A cache whose lines are pages is a TLB: of 2048 pages of 4 KiB, and behind it, asked for what it
# misses, one of 512 pages of 2 MiB. The instructions' is of 64 pages.
TLBS = ("--I1=262144,4,4096", "--D1=8388608,8,4096", "--LL=1073741824,8,2097152")
OWN_SHARE = 1e-4  # of all instructions, at least: in functions that only the allocator's library has
FOREIGN_SHARE = 0.005  # at most: in the C library's malloc, if another is preloaded
# The C library's malloc where its symbols are known: what no other allocator's library has.
C_LIBRARY = ("_int_malloc", "_int_free", "malloc_consolidate", "sysmalloc", "_int_realloc")


@dataclass
class Counts:
    """Totals by event (Ir, D1mr ...), and instructions by function."""

    totals: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)

    def misses(self, level: str) -> int:
        """Of data: reads and writes."""
        return self.totals[f"{level}mr"] + self.totals[f"{level}mw"]


def command(shape: tuple[str, ...], out: Path) -> list[str]:
    if VALGRIND is None:
        raise BadRun("there is no valgrind")
    options = ["-q", "--tool=cachegrind", "--cache-sim=yes", "--demangle=no"]
    return [VALGRIND, *options, *shape, f"--cachegrind-out-file={out}"]


def read(text: str) -> Counts:
    found = Counts()
    events: list[str] = []
    function = ""
    for line in text.splitlines():
        if line[:1].isdigit():
            found.functions[function] += int(line.split(" ", 2)[1])
        elif line.startswith("fn="):
            function = line[3:]
            found.functions.setdefault(function, 0)
        elif line.startswith("events: "):
            events = line.split()[1:]
        elif line.startswith("summary: "):
            found.totals = dict(zip(events, map(int, line.split()[1:])))
    if not found.totals.get("Ir"):
        raise BadRun("cachegrind counted nothing")
    return found


@lru_cache(maxsize=None)
def own_functions(library: Path) -> frozenset[str]:
    """What the library defines beside the names that every allocator has: those of the C library."""
    c_library = re.search(r"(/\S*libc\.so\.6)", said_by("ldd", "/bin/sh"))
    if not c_library:
        raise BadRun("the C library is not found")
    return defined(library) - defined(Path(c_library[1]))


@lru_cache(maxsize=None)
def said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


@lru_cache(maxsize=None)
def defined(library: Path) -> frozenset[str]:
    tables = [said_by("nm", *table, "--defined-only", "--format=posix", str(library)) for table in ((), ("-D",))]
    kinds = (entry.split()[:2] for said in tables for entry in said.splitlines())
    return frozenset(name.partition("@")[0] for name, *kind in kinds if kind and kind[0] in "tTwWiu")


def is_stripped(library: Path) -> bool:
    return not said_by("nm", "--defined-only", "--format=posix", str(library))


def check_ran(counts: Counts, library: Path | None) -> None:
    """The functions of the allocator meant have run, and no other malloc's. A stripped library has
    no names for its own: of it only the second is seen."""
    if library is None:
        return
    total, seen = counts.totals["Ir"], counts.functions
    own = sum(seen.get(name, 0) for name in own_functions(library))
    if own < OWN_SHARE * total and not is_stripped(library):
        raise BadRun(f"{own:,} of {total:,} instructions were in functions of {library.name}")
    foreign = sum(seen.get(name, 0) for name in C_LIBRARY)
    if foreign > FOREIGN_SHARE * total:
        raise BadRun(f"{foreign:,} of {total:,} instructions were in the C library's malloc")
