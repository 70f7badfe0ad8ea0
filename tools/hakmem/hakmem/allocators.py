"""Finds the allocators of this machine: that of the C library, HAKMEM with each of its profiles, and shared libraries that can be preloaded. Compares
them by interleaved rounds, for `hakmem bench` and `hakmem replay`."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import elf
from hakmem.interval import Ratio, ratio
from hakmem.library import hardened_library
from hakmem.options import profiles
from hakmem.tables import plain_table
from hakmem.trouble import NO_INPUT, USAGE, Trouble

# Maps the base of a file's name to the allocator's name. Debugging variants have other file names, so they are not found.
SAME_NAME = ("jemalloc", "mimalloc", "tcmalloc", "snmalloc", "rpmalloc", "hoard", "mesh", "scudo", "hardened_malloc")
KNOWN = {f"lib{name}": name for name in SAME_NAME} | {
    "libtcmalloc_minimal": "tcmalloc",
    "libsnmallocshim": "snmalloc",
    "librpmallocwrap": "rpmalloc",
    "libtbbmalloc_proxy": "onetbb",
    "libhardened_malloc-light": "hardened_malloc_light",
}
FOLDERS = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/opt/homebrew/lib")
FILE_NAME = re.compile(r"(lib[\w-]+)\.so(?:\.[\d.]+)?")
GLIBC, HAKMEM = "glibc", "hakmem"
WIDE = 90  # columns of a wide terminal
SEED = 7
Played = dict[str, float]
NOT_TRIED = ("balanced", "debug")  # the profile balanced is the defaults, and debug is not meant for speed or memory


@dataclass(frozen=True)
class Allocator:
    """An allocator that a replay can use. If `library` is None, it is the C library's own malloc."""

    name: str
    library: Path | None
    options: Mapping[str, str] = field(default_factory=dict)

    def environment(self, inherited: str | None) -> dict[str, str]:
        preload = ":".join(filter(None, [str(self.library) if self.library else "", inherited]))
        return {**self.options, "LD_PRELOAD": preload}

    def serves(self, malloc_from: str) -> bool:
        """Returns True if the file that malloc came from belongs to this allocator."""
        if self.library is None:
            return bool(re.search(r"/libc[.-]|/ld-musl", malloc_from))
        return os.path.realpath(malloc_from) == os.path.realpath(self.library)


def of_hakmem(library: Path) -> list[Allocator]:
    """Returns HAKMEM with its defaults, and then with each named profile that differs from them."""
    tried = [name for name in profiles() if name not in NOT_TRIED]
    return [Allocator(HAKMEM, library), *(Allocator(f"{HAKMEM}-{name}", library, {"HAKMEM_PROFILE": name}) for name in tried)]


def installed(folders: tuple[str, ...] = FOLDERS) -> list[Allocator]:
    """Returns the installed allocators. Each one has the first file found that exports malloc."""
    found: dict[str, Allocator] = {}
    places = [place for folder in map(Path, folders) for place in (folder, *sorted(folder.glob("*-linux-gnu")))]
    for place in places:
        for path in sorted(place.glob("lib*.so*"), key=lambda path: (len(path.name), path.name)):
            matched = FILE_NAME.fullmatch(path.name)
            name = KNOWN.get(matched[1]) if matched else None
            if name and name not in found and can_be_preloaded(path):
                found[name] = Allocator(name, path.resolve())
    return sorted(found.values(), key=lambda allocator: allocator.name)


def can_be_preloaded(path: Path) -> bool:
    if not path.is_file() or any(character in str(path.resolve()) for character in " :"):
        return False
    file = elf.read(path)
    return file is not None and file.wide and file.exports_malloc


def named(words: list[str], library: Path, folders: tuple[str, ...] = FOLDERS) -> list[Allocator]:
    """Returns the allocator for each word, which is the name of an allocator or the path of a library."""
    everything = {allocator.name: allocator for allocator in all_of(library, folders)}
    hardened = hardened_library(library)
    if hardened:
        everything[f"{HAKMEM}-hardened"] = Allocator(f"{HAKMEM}-hardened", hardened, {"HAKMEM_HARDENED": "1"})
    chosen: list[Allocator] = []
    for word in words:
        one = everything[word] if word in everything else by_path(word, list(everything))
        if one in chosen:
            raise Trouble(f"--allocator {word}: it is named twice", USAGE)
        known = any(other.name == one.name for other in chosen)
        chosen.append(replace(one, name=f"{one.name} ({one.library})") if known else one)
    return chosen


def by_path(word: str, known: list[str]) -> Allocator:
    path = Path(word)
    if os.sep not in word:
        raise Trouble(f"--allocator {word}: none of that name is installed; here are {', '.join(known)}, or a path", USAGE)
    if not can_be_preloaded(path):
        raise Trouble(f"--allocator {word}: not a library that defines malloc and can be preloaded", NO_INPUT)
    matched = FILE_NAME.fullmatch(path.name)
    return Allocator(matched[1][3:] if matched else path.name, path.resolve())


def all_of(library: Path, folders: tuple[str, ...] = FOLDERS) -> list[Allocator]:
    return [Allocator(GLIBC, None), *of_hakmem(library), *installed(folders)]


@dataclass(frozen=True)
class Figure:
    """One quantity that is measured in each run. A lower value is better. `best` is the start of the sentence that names the best allocator. If it
    is empty, there is no such sentence."""

    key: str
    title: str
    shown: Callable[[float], str]
    best: str = ""


@dataclass
class Contest:
    """The figures of each allocator in each round. An allocator that fails once is excluded."""

    members: list[Allocator]
    figures: Sequence[Figure]
    runs: dict[str, list[Played]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, played: Played, why: str, counted: bool = True) -> None:
        """Adds a run. If the run is not a measurement, `why` gives the reason, and the allocator is excluded."""
        if why:
            self.refused[name] = why
            self.runs.pop(name, None)
        elif counted:
            self.runs.setdefault(name, []).append(played)

    def play(self, rounds: int, run: Callable[[Allocator], tuple[Played, str]], tell: Callable[[str], None], *beside: Allocator) -> None:
        """Runs each member, and each of `beside`, once in each round, in another order each time. The first round is not counted."""
        everyone, chance = [*self.members, *beside], random.Random(SEED)
        for number in range(rounds + 1):
            for allocator in chance.sample(everyone, len(everyone)):
                tell(allocator.name)
                if allocator.name not in self.refused:
                    self.add(allocator.name, *run(allocator), counted=number > 0)

    def values(self, name: str, key: str) -> list[float]:
        return [run[key] for run in self.runs.get(name, [])]

    def ratio(self, name: str, base: str, key: str) -> Ratio | None:
        return ratio(self.values(name, key), self.values(base, key))

    def middle(self, name: str, figure: Figure) -> float:
        return median(self.values(name, figure.key))

    @property
    def able(self) -> list[str]:
        """Returns the allocators that were measured, those with the least of the first figure first."""
        return sorted(self.measured, key=lambda name: self.middle(name, self.figures[0]))

    @property
    def base(self) -> str | None:
        """Returns the allocator that others are compared with. It is glibc if glibc was measured, and otherwise the first one that was measured."""
        return GLIBC if GLIBC in self.measured else next(iter(self.measured), None)

    @property
    def measured(self) -> list[str]:
        return [member.name for member in self.members if member.name in self.runs]


def ratio_text(found: Ratio | None) -> str:
    return "" if found is None else f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def last_line(text: str) -> str:
    """Returns the end of the last line that a run wrote to stderr."""
    return text.splitlines()[-1][-300:] if text else "no message"


def show_refused(contest: Contest, console: Console) -> None:
    for name, why in contest.refused.items():
        console.print(Text(f"left out: {name}: {why}", style="yellow"), soft_wrap=True)


def contest_table(contest: Contest, wide: bool) -> Table:
    columns = [text for figure in contest.figures for text in (figure.title, "ratio")]
    return plain_table("", "", *columns, rows=[cells_of(contest, name, wide) for name in contest.able], dense=True)


def cells_of(contest: Contest, name: str, wide: bool) -> list[str]:
    """Returns the cells of a row. On a narrow screen, the ratio of the last figure has no interval. This figure is faults, which hardly vary."""
    cells = [name]
    for figure in contest.figures:
        found = None if name == contest.base or not contest.base else contest.ratio(name, contest.base, figure.key)
        cells.append(figure.shown(contest.middle(name, figure)))
        cells.append(f"{found.median:.2f}" if found and figure is contest.figures[-1] and not wide else ratio_text(found))
    return cells


def show_verdicts(contest: Contest, console: Console) -> None:
    """Prints a sentence for each figure. It names the best allocator, and the allocators that are not significantly worse."""
    for figure in (figure for figure in contest.figures if figure.best):
        best = min(contest.able, key=lambda name: contest.middle(name, figure))
        ratios = {name: contest.ratio(name, best, figure.key) for name in contest.able if name != best}
        level = [name for name, found_ratio in ratios.items() if not (found_ratio and found_ratio.worse)]
        also = f"; not to be told from it: {', '.join(level)}" if level else ""
        base = contest.base or best
        against = "" if best == base else f", {ratio_text(contest.ratio(best, base, figure.key)) or '?'} of {base}'s"
        console.print(Text(f"{figure.best}: {best}{against}{also}.", style="bold"))
