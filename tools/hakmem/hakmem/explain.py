"""Reads the explain log, which has one JSON line for each decision of the learner."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.figures import unit_text
from hakmem.options import option_text
from hakmem.reports import Report, loads
from hakmem.trouble import NO_INPUT, Trouble, text_of

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
    size: float | None = None  # of the class, if the decision is about one

    @property
    def about_all(self) -> bool:
        """Returns False for a decision about one bin of one thread, because there may be dozens of these."""
        return self.who != "class"

    @property
    def change(self) -> str:
        return f"{unit_text(self.old, self.unit)} → {unit_text(self.new, self.unit)}"

    @property
    def seen_text(self) -> str:
        return ", ".join(f"{name} {option_text(name, value)}" for name, value in self.seen.items())


@dataclass(frozen=True)
class Group:
    """The decisions about one value of one size class, in all threads."""

    size: float | None
    what: str
    count: int
    first: Decision
    last: Decision

    @property
    def change(self) -> str:
        return f"{unit_text(self.first.old, self.first.unit)} → {unit_text(self.last.new, self.last.unit)}"


def grouped(decisions: Iterable[Decision]) -> list[Group]:
    """Groups the decisions about single bins by class. Groups with more decisions come first."""
    found: dict[tuple, list[Decision]] = {}
    for decision in decisions:
        if not decision.about_all:
            found.setdefault((decision.size, decision.what), []).append(decision)
    groups = [Group(size, what, len(mine), mine[0], mine[-1]) for (size, what), mine in found.items()]
    return sorted(groups, key=lambda group: (-group.count, group.size or 0))


def parse_line(line: str) -> Decision | None:
    try:
        entry = loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("ms"), (int, float)):
        return None
    seen = entry.get("seen")
    who, what, unit, why = (str(entry.get(name, "")) for name in ("who", "what", "unit", "why"))
    size = entry["class"] if isinstance(entry.get("class"), (int, float)) else None
    return Decision(entry["ms"] / 1000, who, what, entry.get("old"), entry.get("new"), unit, why, seen if isinstance(seen, dict) else {}, size)


def parse(text: str) -> list[Decision]:
    """Returns the decisions. Skips truncated and unknown lines, because the log is bounded, and may grow while it is read."""
    return [decision for decision in map(parse_line, text.splitlines()) if decision]


def read(path: Path) -> list[Decision]:
    """Returns the decisions of a log. An empty file is a valid log."""
    text = text_of(path)
    found = parse(text)
    if text.strip() and not found:
        raise Trouble(f"{path}: contains no decision (HAKMEM_EXPLAIN=FILE writes a log of them)", NO_INPUT)
    return found


def check_process(log: Path, report: Report) -> str | None:
    """Checks that the log belongs to the report's process. Raises Trouble if it belongs to another process. Returns a note if it may. A log does
    not name its process, but the report names the log."""
    named, pid = report.at("options", "explain"), report.number("process")
    if not isinstance(named, str) or pid is None:
        return None
    expected = Path(named.replace("%p", f"{pid:.0f}")).name
    of_child = "{0}.{2}{1}".format(*os.path.splitext(expected), f"{pid:.0f}")
    if log.name in (expected, of_child):
        return None
    pattern = r"(\d+)".join(map(re.escape, Path(named).name.split("%p")))
    if "%p" in Path(named).name and re.fullmatch(pattern, log.name):
        raise Trouble(f"{log} is another process's log: the report's process wrote {expected}", NO_INPUT)
    wrote = f"wrote its log to {named}" if named else "wrote no log"
    return f"{log} may be another process's log: the report's process {pid:.0f} {wrote}"


def tail(path: Path, count: int) -> list[Decision]:
    """Returns the last decisions, or none if the log does not exist yet. Reads only the end of the log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return latest(parse(text), count)


def latest(found: list[Decision], count: int) -> list[Decision]:
    """Returns the last general decisions. If there are fewer than `count`, adds the last decisions about single bins."""
    general = [decision for decision in found if decision.about_all][-count:]
    left = count - len(general)
    single = [decision for decision in found if not decision.about_all][-left:] if left else []
    return sorted([*general, *single], key=lambda decision: decision.seconds)
