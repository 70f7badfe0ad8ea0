"""Reads JSON reports of the library, single ones or a series. Missing keys are None."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem.figures import as_number
from hakmem.trouble import NO_INPUT, Trouble

# The meaning of each part in a few words. docs/STATS.md explains them in full.
PARTS = {
    "live": "live blocks of up to 1 MiB",
    "large_live": "live blocks of more than 1 MiB",
    "rounding": "lost by rounding up",
    "thread_caches": "free blocks in bins and depots",
    "remote_pending": "remote frees not yet drained",
    "free_in_slabs": "free blocks in partly used slabs",
    "slab_tails": "unused ends of slabs",
    "large_cached": "freed large blocks and slack, kept for reuse",
    "heaps": "heaps of the program's own",
    "idle": "free slices, dirty or purged",
    "metadata": "HAKMEM's tables",
    "metadata_spare": "mapped for tables, unused",
    "rest_of_process": "code, stacks, other mappings",
}


NAMES = ("tier", "name")  # the keys of rows whose values are text


@dataclass(frozen=True)
class Report:
    data: dict[str, Any]
    written: float = 0.0  # the file's modification time

    def at(self, *path: str) -> object:
        value: object = self.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *path: str) -> float | None:
        return as_number(self.at(*path))

    def group(self, *path: str) -> dict[str, Any]:
        found = self.at(*path)
        return found if isinstance(found, dict) else {}

    def listed(self, *path: str) -> list[Any]:
        found = self.at(*path)
        return found if isinstance(found, list) else []

    def numbers(self, *path: str) -> dict[str, float]:
        return {name: value for name, value in self.group(*path).items() if as_number(value) is not None}

    @property
    def seconds(self) -> float | None:
        """Returns the time since the start of the program."""
        ms = self.number("time_ms")
        return None if ms is None else ms / 1000

    @property
    def resident_known(self) -> bool:
        return bool(self.numbers("resident_parts"))

    @property
    def parts(self) -> dict[str, float]:
        """Returns the parts of the resident memory, or, if these are unknown, of the mapped memory."""
        return self.numbers("resident_parts") or self.numbers("mapped", "parts")

    @property
    def resident(self) -> float | None:
        return self.number("resident")

    @property
    def misses(self) -> float | None:
        """Returns the misses of the whole process, from the tiers or from a counter."""
        by_tier = [row["misses"] for row in self.tiers if "misses" in row]
        return sum(by_tier) if by_tier else self.number("counters", "misses")

    @property
    def hit_rate(self) -> float | None:
        return hit_rate(self.number("served", "malloc"), self.misses)

    @property
    def classes(self) -> list[dict[str, Any]]:
        return self.rows("classes")

    @property
    def tiers(self) -> list[dict[str, Any]]:
        return self.rows("tiers")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Returns the rows of a list. Values whose type is not that of the schema are left out, as if they were missing."""
        def fits(key: str, value: object) -> bool:
            return isinstance(value, str) if key in NAMES else as_number(value) is not None

        return [{key: value for key, value in row.items() if fits(key, value)} for row in self.listed(name) if isinstance(row, dict)]

    @property
    def options(self) -> dict[str, Any]:
        return self.group("options")

    @property
    def state(self) -> str | None:
        state = self.at("policy", "state")
        return None if state is None else str(state)

    @property
    def policy(self) -> dict[str, object]:
        """Returns the knobs, which a report has beside the state or in groups."""
        return dict(flat(self.at("policy"), but="state"))


def flat(group: object, but: str = "", prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, value in group.items() if isinstance(group, dict) else ():
        if isinstance(value, dict):
            yield from flat(value, prefix="" if name == "numbers" else f"{prefix}{name}.")
        elif name != but:
            yield prefix + name, value


def hit_rate(served: float | None, missed: float | None) -> float | None:
    """Returns the share of hits. Returns None if no hit was counted, because a process that does not count its hits reports its misses only."""
    return None if not served or missed is None or missed >= served else 1 - missed / served


def class_hit_rate(row: dict[str, Any]) -> float | None:
    given = row.get("hit_rate")
    return given if isinstance(given, (int, float)) else hit_rate(row.get("served"), row.get("misses"))


def parse(text: str, written: float = 0.0) -> Report | None:
    """Returns the report, or None if the text is not a complete report. A report that is being written is incomplete."""
    try:
        data = loads(text)
    except ValueError:
        return None
    return Report(data, written) if isinstance(data, dict) and isinstance(data.get("served"), dict) else None


def read(path: Path) -> Report | None:
    try:
        return parse(path.read_text(errors="replace"), path.stat().st_mtime)
    except OSError:
        return None


def read_all(paths: Iterable[Path]) -> list[Report]:
    """Returns all reports, sorted by time. They must be of a single process."""
    return in_order(read_each(paths))


def of_many(found: Iterable[Report]) -> bool:
    return len({report.number("process") for report in found}) > 1


def read_each(paths: Iterable[Path]) -> list[Report]:
    """Returns all reports in the files and folders, which may be of several processes. Raises Trouble if a file cannot be read."""
    found: list[Report] = []
    for path in paths:
        if path.suffix == ".prom":
            raise Trouble(f"{path}: an OpenMetrics report; `hakmem report` reads JSON (HAKMEM_REPORT=FILE.json)", NO_INPUT)
        try:
            files = sorted(path.glob("*.json")) if stat.S_ISDIR(path.stat().st_mode) else [path]
            parsed = [parse(file.read_text(errors="replace"), file.stat().st_mtime) for file in files]
        except OSError as error:
            why = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise Trouble(f"{error.filename or path}: {why}", NO_INPUT) from None
        if not any(parsed):
            raise Trouble(f"{path}: contains no JSON report of HAKMEM (HAKMEM_REPORT=FILE.json writes one)", NO_INPUT)
        found += filter(None, parsed)
    return found


def in_order(found: list[Report]) -> list[Report]:
    """Sorts the reports by the program's clock if all of them have it, otherwise by file time. They must be of a single process."""
    processes = {report.number("process") for report in found}
    if of_many(found):
        listed = ", ".join(f"{process:.0f}" for process in sorted(process or 0 for process in processes))
        raise Trouble(f"the reports are from several processes ({listed}): pass those of one process", NO_INPUT)
    if all(report.seconds is not None for report in found):
        return sorted(found, key=lambda report: report.seconds or 0)
    return sorted(found, key=lambda report: report.written)


LARGEST = (1 << 64) - 1
DIGITS = 20
HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def whole(text: str) -> int | None:
    value = int(text) if len(text) <= DIGITS else LARGEST + 1
    return value if abs(value) <= LARGEST else None


def finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def loads(text: str) -> object:
    """Returns the value of a JSON text. Raises ValueError if the text is not JSON."""
    try:
        return json.loads(HALVES.sub(r"\\ufffd", text), parse_int=whole, parse_float=finite, parse_constant=lambda name: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None
