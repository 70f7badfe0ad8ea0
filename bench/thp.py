#!/usr/bin/env python3
"""Sets the kernel's mode of transparent huge pages for a while and puts it back.

thp.py always|madvise|never COMMAND ARG...      runs the command in that mode

The mode is the whole machine's. A guard, a process of its own, puts it back as soon as this process has left the mode or is gone, by an exception,
Ctrl-C or a kill.
"""
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MODES = ("always", "madvise", "never")
FOLIOS = FILE.parent / "hugepages-64kB/enabled"  # the mode of folios of 64 KiB, since Linux 6.8


def current(file: Path = FILE) -> str | None:
    """None: the kernel has none, or hides it."""
    try:
        found = re.search(r"\[(\w+)\]", file.read_text())
    except OSError:
        return None
    return found.group(1) if found else None


@contextmanager
def mode(wanted: str | None, file: Path = FILE) -> Iterator[str]:
    """Returns an empty text if the mode is as wanted, else the reason why it stays."""
    before = current(file)
    if wanted is None or wanted == before:
        yield ""
        return
    stays = f"huge pages: not {wanted}, the mode stays {before or 'unknown'}: "
    if before is None:
        yield stays + f"{file} cannot be read"
        return
    guard = start_guard(before, file)
    try:
        yield "" if write(wanted, file) else stays + "setting it is not permitted here"
    finally:
        guard.communicate()


def write(wanted: str, file: Path) -> bool:
    try:
        file.write_text(wanted)
    except OSError:
        return False
    return current(file) == wanted


def start_guard(before: str, file: Path) -> subprocess.Popen:
    """It waits for the end of its input. In a session of its own: Ctrl-C and a terminal that goes do not reach it."""
    watch = 'trap "" INT TERM HUP; cat; grep -qF "[$1]" "$2" || printf %s "$1" >"$2"'
    return subprocess.Popen(["sh", "-c", watch, "guard", before, str(file)], stdin=subprocess.PIPE, start_new_session=True)


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in MODES:
        sys.exit(__doc__)
    with mode(sys.argv[1]) as problem:
        if problem:
            print(f"thp: {problem}", file=sys.stderr)
            return 77
        return subprocess.run(sys.argv[2:]).returncode


if __name__ == "__main__":
    sys.exit(main())
