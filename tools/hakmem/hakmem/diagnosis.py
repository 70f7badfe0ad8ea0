"""Has what the parts of hakmem doctor share: the class of a finding, and functions that read files and run programs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hakmem.library import preload

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
