"""hakmem record: executes a program with libhakmem-record.so, which notes the calls of the malloc family in one file for each process.

The library passes the calls on to the allocator that the program would have without it. docs/RECORDING.md describes the format.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hakmem.library import VARIABLE as LIBRARY_VARIABLE
from hakmem.library import FOLDER, find_library, preload, preloadable
from hakmem.run import execute
from hakmem.trouble import NO_INPUT, USAGE, Trouble

RECORDER, PLAYER = "libhakmem-record.so", "hakmem-play"
SUFFIX = ".hkrec"
FOLDER_VARIABLE, SAMPLE_VARIABLE = "HAKRECORD_FOLDER", "HAKRECORD_SAMPLE"
MOST_SAMPLE = 65536


@dataclass(frozen=True)
class Request:
    folder: Path
    sample: int = 1


def beside(library: Path, name: str) -> Path:
    """Returns the file with this name that belongs to the library. It is in the library's folder (a build or a wheel), in bench/ of a build, in the
    package's subfolder, or in bin/ of the same prefix."""
    folder = library.parent
    folders = [folder, folder / FOLDER, folder / "bench", folder.parent / "bin", folder.parent.parent / "bin"]
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if found is None:
        raise Trouble(f"no {name} beside {library}: build it (make), or install it (make install)", NO_INPUT)
    return found


def record(command: list[str], request: Request) -> None:
    execute(command, lambda: environment_for(request), "recorded")


def environment_for(request: Request) -> dict[str, str]:
    if not 1 <= request.sample <= MOST_SAMPLE:
        raise Trouble(f"--sample {request.sample}: one block in 1 (all) to {MOST_SAMPLE}", USAGE)
    recorder = preloadable(beside(find_library(), RECORDER))
    environment = {name: value for name, value in os.environ.items() if name != LIBRARY_VARIABLE}
    environment |= {FOLDER_VARIABLE: str(make_folder(request.folder)), SAMPLE_VARIABLE: str(request.sample)}
    return environment | {"LD_PRELOAD": preload(recorder, environment)}


def make_folder(folder: Path) -> Path:
    """Creates the folder, and returns it. It must not have recordings, because those of two runs would be taken for one run."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.glob(f"*{SUFFIX}")):
        raise Trouble(f"{folder} holds recordings already: remove it, or name another folder (--output)", USAGE)
    return folder.resolve()
