#!/usr/bin/env python3
"""Checks the C files against .clang-format.   check_format.py ROOT [--write]

Each .c and .h file below src, include, tests, bench and tools must have the format that clang-format writes. The script prints one line for each file
that has not. --write rewrites these files. C++ files and tables (*.def) are not checked.
The format is that of one major version of clang-format, because other versions differ in details. The script exits with 77 without this version.
"""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS, SUFFIXES = ("src", "include", "tests", "bench", "tools"), {".c", ".h"}
VERSION = 14  # the version of Debian 12
CANNOT_RUN, FILES_AT_ONCE = 77, 16


def version_of(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()


def formatter() -> str | None:
    """Returns the name of the clang-format of that version, or prints the reason and returns None."""
    there = [name for name in (f"clang-format-{VERSION}", "clang-format") if shutil.which(name)]
    for name in there:
        if f"version {VERSION}." in version_of(name):
            return name
    found = "; ".join(version_of(name) for name in there) or "no clang-format"
    print(f"cannot check: there is {found}, the shape is that of clang-format {VERSION} (package clang-format-{VERSION})")
    return None


def files(root: Path) -> list[str]:
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return sorted(path.relative_to(root).as_posix() for path in found)


def complaints(root: Path, program: str, names: list[str], mode: list[str]) -> str:
    command = [program, "--style=file", *mode, *names]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return ended.stderr or ("" if ended.returncode == 0 else f"{names[0]}: {program} ended with {ended.returncode}\n")


def check(root: Path, program: str, write: bool = False) -> list[str]:
    """Returns the first complaint about each file. If there is only other output, returns it unchanged."""
    names = files(root)
    if not names or not (root / ".clang-format").is_file():
        return [f"{root}: no C file, or no .clang-format: nothing was checked"]
    mode = ["-i"] if write else ["--dry-run", "-Werror"]
    batches = [names[at:at + FILES_AT_ONCE] for at in range(0, len(names), FILES_AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = "".join(pool.map(lambda batch: complaints(root, program, batch, mode), batches))
    first = {}
    for line in said.splitlines():
        if ": error: " in line or " ended with " in line:
            first.setdefault(line.split(":")[0], line)
    return list(first.values()) or said.splitlines()


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    root, program = Path(arguments[0]).resolve(), formatter()
    if program is None:
        return CANNOT_RUN
    said = check(root, program, bool(arguments[1:]))
    print("\n".join(said + ["`make format` writes them as they should be"]) if said else f"{len(files(root))} files are in shape")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
