"""Finds the allocators of this machine: that of the C library, HAKMEM with each of its profiles, and shared libraries that can be preloaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem import elf
from hakmem.library import hardened_library
from hakmem.options import profiles
from hakmem.trouble import NO_INPUT, USAGE, Trouble

# Maps the base of a file's name to the allocator's name. Debugging variants have other file names, so they are not found.
KNOWN = {
    "libjemalloc": "jemalloc",
    "libmimalloc": "mimalloc",
    "libtcmalloc": "tcmalloc",
    "libtcmalloc_minimal": "tcmalloc",
    "libsnmallocshim": "snmalloc",
    "libsnmalloc": "snmalloc",
    "librpmalloc": "rpmalloc",
    "librpmallocwrap": "rpmalloc",
    "libtbbmalloc_proxy": "onetbb",
    "libhoard": "hoard",
    "libmesh": "mesh",
    "libscudo": "scudo",
    "libhardened_malloc": "hardened_malloc",
    "libhardened_malloc-light": "hardened_malloc_light",
}
FOLDERS = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/opt/homebrew/lib")
FILE_NAME = re.compile(r"(lib[\w-]+)\.so(?:\.[\d.]+)?")
GLIBC, HAKMEM = "glibc", "hakmem"
NOT_TRIED = ("debug",)  # this profile is not meant for speed or memory


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
    names = [name for name in profiles() if name not in (*NOT_TRIED, "balanced")]
    return [Allocator(HAKMEM, library)] + [Allocator(f"{HAKMEM}-{name}", library, {"HAKMEM_PROFILE": name}) for name in names]


def installed(folders: tuple[str, ...] = FOLDERS) -> list[Allocator]:
    """Returns the installed allocators. Each one has the first file found that exports malloc."""
    found: dict[str, Allocator] = {}
    for path in libraries(folders):
        matched = FILE_NAME.fullmatch(path.name)
        name = KNOWN.get(matched[1]) if matched else None
        if name and name not in found and can_be_preloaded(path):
            found[name] = Allocator(name, path.resolve())
    return sorted(found.values(), key=lambda allocator: allocator.name)


def libraries(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for place in [Path(folder), *sorted(Path(folder).glob("*-linux-gnu"))]:
            yield from sorted(place.glob("lib*.so*"), key=lambda path: (len(path.name), path.name))


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
