"""What the parts of hakmem doctor share: a finding, and the files that they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

OK, NOTE, WARNING = "ok", "note", "warning"


@dataclass(frozen=True)
class Line:
    level: str
    subject: str
    found: str
    advice: str = ""
    stops: bool = False  # prevents HAKMEM from serving


class System:
    """Files under /proc and /sys; tests pass another root."""

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
