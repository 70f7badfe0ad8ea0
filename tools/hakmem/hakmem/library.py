"""Finds libhakmem.so and programs, and prepares the preload."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hakmem.trouble import NO_INPUT, NOT_EXECUTABLE, NOT_FOUND, Trouble

NAME = "libhakmem.so"
VARIABLE = "HAKMEM_LIBRARY"
TREE = Path(__file__).resolve().parents[3]


def find_library() -> Path:
    """Returns the first library that exists; if the user names one, only that."""
    named = os.environ.get(VARIABLE)
    if named:
        return preloadable(existing(Path(named)))
    places = list(candidates())
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        looked = "\n  ".join(str(place) for place in places)
        raise Trouble(f"no {NAME} found; install it or set {VARIABLE}. Searched\n  {looked}", NO_INPUT)
    return preloadable(found.resolve())


def candidates() -> Iterator[Path]:
    for prefix in (Path(sys.argv[0]).resolve().parent.parent, Path(sys.prefix)):
        yield from library_folders(prefix)
    if (TREE / "src/hakmem.c").is_file():
        yield TREE / "build" / NAME
    for prefix in (Path("/usr/local"), Path("/usr")):
        yield from library_folders(prefix)


def library_folders(prefix: Path) -> Iterator[Path]:
    yield prefix / "lib" / NAME
    yield prefix / "lib64" / NAME
    yield from sorted(prefix.glob(f"lib/*-linux-gnu*/{NAME}"))


def existing(path: Path) -> Path:
    if not path.is_file():
        raise Trouble(f"{VARIABLE} names {path}, which is not there", NO_INPUT)
    return path.resolve()


def preloadable(path: Path) -> Path:
    """LD_PRELOAD splits at spaces and colons without quoting: such a path would silently run the program on glibc."""
    if any(character in str(path) for character in " :"):
        raise Trouble(f"cannot preload '{path}': its path must contain no space or colon", NO_INPUT)
    return path


def preload(library: Path, environment: Mapping[str, str]) -> str:
    return ":".join(filter(None, [str(library), environment.get("LD_PRELOAD")]))


def find_program(name: str) -> Path:
    found = shutil.which(name)
    if found:
        return Path(found)
    if os.sep in name and Path(name).exists():
        raise Trouble(f"{name}: not executable", NOT_EXECUTABLE)
    raise Trouble(f"{name}: no such program", NOT_FOUND)
