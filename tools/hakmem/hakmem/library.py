"""Finds libhakmem.so and programs, and prepares the preload."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from hakmem import elf
from hakmem.trouble import NO_INPUT, NOT_EXECUTABLE, NOT_FOUND, Trouble

NAME = "libhakmem.so"
HARDENED_NAME = "libhakmem-hardened.so"
VARIABLE = "HAKMEM_LIBRARY"
TREE = Path(__file__).resolve().parents[3]
NATIVE = Path(__file__).resolve().parent / "native"  # exists in a wheel, which contains the libraries
VERSIONED = ".0"  # suffix of the file in Debian's package
FOLDER = "hakmem"  # subfolder in which packages put libraries that are only preloaded


def find_library() -> Path:
    """Returns the first library that exists. If the user names one by the environment variable, no other is used."""
    named = os.environ.get(VARIABLE)
    if named:
        return preloadable(checked(Path(named)))
    places = candidates()
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        looked = "\n  ".join(str(place) for place in places)
        raise Trouble(f"no {NAME} found: build it (make), install it (make install), or set {VARIABLE} to its path. Searched\n  {looked}", NO_INPUT)
    return preloadable(found.resolve())


def hardened_library(library: Path) -> Path | None:
    """Returns the hardened library that is in the library's folder, or in its subfolder."""
    places = (library.parent / HARDENED_NAME, library.parent / FOLDER / HARDENED_NAME)
    return next((place.resolve() for place in places if place.is_file()), None)


def find_hardened_library() -> Path:
    library = find_library()
    found = hardened_library(library)
    if found is None:
        raise Trouble(f"no {HARDENED_NAME} in {library.parent}: build it (make), or install it (make install)", NO_INPUT)
    return preloadable(found)


def candidates() -> list[Path]:
    """Returns the places where the library may be. Each place is listed once, because in a virtual environment, the first two prefixes are equal."""
    own = (Path(sys.argv[0]).resolve().parent.parent, Path(sys.prefix))
    places = [NATIVE / NAME] if NATIVE.is_dir() else []
    places += [place for prefix in own for place in library_folders(prefix)]
    places += [tree / "build" / NAME for tree in trees()]
    places += [place for prefix in (Path("/usr/local"), Path("/usr")) for place in library_folders(prefix)]
    return list(dict.fromkeys(places))


def trees() -> Iterator[Path]:
    """Yields the source tree that the tool runs from, and the one that pip installed it from (PEP 610)."""
    for tree in (TREE, installed_from()):
        if tree and (tree / "src/base/base.h").is_file():
            yield tree


def installed_from() -> Path | None:
    try:
        text = metadata.distribution("hakmem").read_text("direct_url.json")
        url = urlsplit(json.loads(text or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return None
    return Path(unquote(url.path)).parent.parent if url.scheme == "file" else None


def library_folders(prefix: Path) -> Iterator[Path]:
    for name in (NAME, NAME + VERSIONED):
        yield prefix / "lib" / name
        yield prefix / "lib64" / name
        yield from sorted(prefix.glob(f"lib/*-linux-gnu*/{name}"))


def checked(path: Path) -> Path:
    """A preload of any other library would silently run the program on glibc."""
    if not path.is_file():
        raise Trouble(f"{VARIABLE} names {path}, which is not there", NO_INPUT)
    path = path.resolve()
    found = elf.read(path)
    if found is None or found.own_malloc != "HAKMEM" or not found.exports_malloc:
        raise Trouble(f"{VARIABLE} names {path}, which is not HAKMEM's library", NO_INPUT)
    return path


def preloadable(path: Path) -> Path:
    """Checks that the path has no space and no colon. LD_PRELOAD splits there, and the program would silently run on glibc."""
    if any(character in str(path) for character in " :"):
        raise Trouble(f"cannot preload '{path}': its path must contain no space or colon", NO_INPUT)
    return path


def preload(library: Path, environment: Mapping[str, str]) -> str:
    return ":".join(filter(None, [str(library), environment.get("LD_PRELOAD")]))


def first_preloaded(environment: Mapping[str, str]) -> Path:
    return Path(environment["LD_PRELOAD"].partition(":")[0])


def execute_native(name: str) -> NoReturn:
    """Executes a file of native/ in place of Python."""
    os.execv(NATIVE / name, [name, *sys.argv[1:]])


# The entry points of the wheel.
native_run, native_play, native_replay = (partial(execute_native, f"hakmem-{name}") for name in ("run", "play", "replay"))


def find_program(name: str) -> Path:
    found = shutil.which(name)
    if found:
        return Path(found)
    if os.sep in name and Path(name).exists():
        raise Trouble(f"{name}: not executable", NOT_EXECUTABLE)
    raise Trouble(f"{name}: no such program", NOT_FOUND)
