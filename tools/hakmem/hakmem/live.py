"""Manages the folder of live reports, which is private to the user and has one file for each process. Removes the files of ended processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hakmem.trouble import Trouble

PATTERN = "%p.json"


def folder_path() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "hakmem"
    return Path(f"/tmp/hakmem-{os.getuid()}")


def make_folder() -> Path:
    """Creates the folder, and returns it. It must be private, because in /tmp, another owner of the folder could redirect the writes to any file."""
    folder = folder_path()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError as error:
        raise Trouble(f"no folder for live reports: {error}; use --no-live") from None
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise Trouble(f"{folder} is not a private folder of yours (mode 0700): remove it, or use --no-live")
    sweep(folder)
    return folder


def sweep(folder: Path) -> None:
    for file in folder.glob("*.json"):
        if file.stem.isdecimal() and not Path(f"/proc/{file.stem}").exists():
            file.unlink(missing_ok=True)
