"""JSON reports of the library, alone or as a series; keys that a library does not write are None."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hakmem.trouble import NO_INPUT, Trouble

# What a part is, in a few words; docs/STATS.md has the whole sentence.
PARTS = {
    "live": "with the program, up to 1 MiB each",
    "big_live": "with the program, more than 1 MiB each",
    "rounding": "lost to rounding up",
    "thread_caches": "free, ready in threads' bins",
    "remote_pending": "freed by another thread, on the way back",
    "free_in_slabs": "free, in slabs partly used",
    "slab_tails": "ends of slabs",
    "big_cached": "freed big blocks, kept for reuse",
    "idle": "free, warm or given back",
    "metadata": "HAKMEM's tables",
    "metadata_spare": "committed for tables, unused",
    "rest_of_process": "code, stacks, other mappings",
}


@dataclass(frozen=True)
class Report:
    data: dict
    written: float = 0.0  # the file's time

    def at(self, *path: str) -> object:
        value: object = self.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *path: str) -> float | None:
        value = self.at(*path)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def numbers(self, *path: str) -> dict[str, float]:
        group = self.at(*path)
        pairs = group.items() if isinstance(group, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, (int, float)) and not isinstance(value, bool)}

    @property
    def seconds(self) -> float | None:
        """Since the program began."""
        ms = self.number("time_ms")
        return None if ms is None else ms / 1000

    @property
    def resident_known(self) -> bool:
        return bool(self.numbers("resident_parts"))

    @property
    def parts(self) -> dict[str, float]:
        """Of the resident memory; where the library does not say, of what is mapped."""
        return self.numbers("resident_parts") or self.numbers("mapped", "parts")

    @property
    def resident(self) -> float | None:
        return self.number("resident")

    @property
    def misses(self) -> float | None:
        """Of the whole process; a library that counts them by tier has no sum of its own."""
        by_tier = [row["misses"] for row in self.tiers if "misses" in row]
        return sum(by_tier) if by_tier else self.number("counters", "misses")

    @property
    def hit_rate(self) -> float | None:
        return hit_rate(self.number("served", "malloc"), self.misses)

    @property
    def classes(self) -> list[dict]:
        return self.rows("classes")

    @property
    def tiers(self) -> list[dict]:
        return self.rows("tiers")

    def rows(self, name: str) -> list[dict]:
        rows = self.at(name)
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    @property
    def state(self) -> str | None:
        state = self.at("policy", "state")
        return None if state is None else str(state)

    @property
    def policy(self) -> dict[str, object]:
        """Its values, whether they stand beside the state or in groups."""
        return dict(flat(self.at("policy"), but="state"))


def flat(group: object, but: str = "", prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, value in group.items() if isinstance(group, dict) else ():
        if isinstance(value, dict):
            yield from flat(value, prefix="" if name == "numbers" else f"{prefix}{name}.")
        elif name != but:
            yield prefix + name, value


def hit_rate(served: float | None, missed: float | None) -> float | None:
    return None if not served or missed is None else max(0.0, 1 - missed / served)


def class_hit_rate(row: dict) -> float | None:
    given = row.get("hit_rate")
    return given if isinstance(given, (int, float)) else hit_rate(row.get("served"), row.get("misses"))


def parse(text: str, written: float = 0.0) -> Report | None:
    """None where it is not whole, or no report: a live one may be read while it is being written."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return Report(data, written) if isinstance(data, dict) and isinstance(data.get("served"), dict) else None


def read(path: Path) -> Report | None:
    try:
        return parse(path.read_text(errors="replace"), path.stat().st_mtime)
    except OSError:
        return None


def read_all(paths: Iterable[Path]) -> list[Report]:
    """In the order of time."""
    found = []
    for path in paths:
        if not path.exists():
            raise Trouble(f"{path}: no such file", NO_INPUT)
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        read_here = [report for report in map(read, files) if report]
        if not read_here:
            raise Trouble(f"{path}: no JSON report of HAKMEM in it (HAKMEM_REPORT=FILE.json writes one)", NO_INPUT)
        found += read_here
    return in_order(found)


def in_order(found: list[Report]) -> list[Report]:
    """By the program's own clock where all have it, else by the files' times. One run only: several are not one series."""
    processes = {report.number("process") for report in found}
    if len(processes) > 1:
        listed = ", ".join(f"{process:.0f}" for process in sorted(process or 0 for process in processes))
        raise Trouble(f"these are reports of several processes ({listed}): give those of one", NO_INPUT)
    if all(report.seconds is not None for report in found):
        return sorted(found, key=lambda report: report.seconds or 0)
    return sorted(found, key=lambda report: report.written)
