"""The explain log: one JSON line per decision of the learner."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.figures import unit_text
from hakmem.trouble import NO_INPUT, Trouble

TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Decision:
    seconds: float
    who: str
    what: str
    old: object
    new: object
    unit: str
    why: str
    seen: dict[str, object] = field(default_factory=dict)

    @property
    def about_all(self) -> bool:
        """False for a decision about one bin of one thread, of which there are dozens."""
        return self.who != "class"

    @property
    def change(self) -> str:
        return f"{unit_text(self.old, self.unit)} → {unit_text(self.new, self.unit)}"

    @property
    def seen_text(self) -> str:
        return ", ".join(f"{name} {unit_text(value, '')}" for name, value in self.seen.items())


def parse_line(line: str) -> Decision | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("ms"), (int, float)):
        return None
    seen = entry.get("seen")
    return Decision(
        entry["ms"] / 1000,
        str(entry.get("who", "")),
        str(entry.get("what", "")),
        entry.get("old"),
        entry.get("new"),
        str(entry.get("unit", "")),
        str(entry.get("why", "")),
        seen if isinstance(seen, dict) else {},
    )


def parse(text: str) -> list[Decision]:
    """Skips truncated and unknown lines: the log is bounded, and may grow while it is read."""
    return [decision for decision in map(parse_line, text.splitlines()) if decision]


def read(path: Path) -> list[Decision]:
    try:
        return parse(path.read_text(errors="replace"))
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}", NO_INPUT) from None


def tail(path: Path, count: int) -> list[Decision]:
    """Returns the last decisions, general ones before those about single bins; none if the log does not exist yet.
    Reads only the end of the log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    found = parse(text)
    general = [decision for decision in found if decision.about_all][-count:]
    left = count - len(general)
    single = [decision for decision in found if not decision.about_all][-left:] if left else []
    return sorted([*general, *single], key=lambda decision: decision.seconds)
