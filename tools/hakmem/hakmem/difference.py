"""hakmem diff: explains why the RSS of two reports differs, by terms that add up to exactly the difference."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Tuple

from hakmem import process, profiles, reports
from hakmem.figures import as_number, bytes_text
from hakmem.options import option_text
from hakmem.profiles import Site, bits_of, picked
from hakmem.reports import Report
from hakmem.sources import Frame, Sources
from hakmem.trouble import NO_INPUT, Trouble, text_of

OTHER_STACKS = "stacks with fewer bytes, or without a sample"
LARGE = 21  # the group of blocks of more than 1 MiB, which are in no size class
Z = 1.96  # standard deviations on each side of an interval of 95 %
NO_STACKS = "live bytes are split by size class: both programs need HAKMEM_HEAP_SAMPLE=512k to split them by call site"


@dataclass(frozen=True)
class Part:
    """A part of a term, with its bytes in A and in B. A part for a call site has frames, and the error of its change: half of the interval of 95 %."""

    name: str
    a: int
    b: int
    frames: tuple[Frame, ...] = ()
    error: int = 0

    @property
    def change(self) -> int:
        return self.b - self.a


@dataclass(frozen=True)
class Term:
    """A term of the difference. Its parts add up to it. It has no parts if the reports do not contain them."""

    name: str
    meaning: str
    a: int
    b: int
    parts: tuple[Part, ...] = ()

    @property
    def change(self) -> int:
        return self.b - self.a


@dataclass(frozen=True)
class Side:
    path: str
    process: int
    seconds: float | None
    total: int


@dataclass(frozen=True)
class Difference:
    """The difference of two reports or profiles. `of` names the quantity that the terms add up to, `RSS` or `live`."""

    of: str
    a: Side
    b: Side
    terms: tuple[Term, ...]
    settings: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def change(self) -> int:
        return self.b.total - self.a.total

    def term(self, name: str) -> Term:
        return next(term for term in self.terms if term.name == name)


@dataclass(frozen=True)
class Input:
    path: Path
    report: Report | None
    stacks: Stacks | None


def path_of(word: str) -> Path:
    """Returns the path of a source. A word of digits is the id of a running process, unless a file has this name."""
    path = Path(word)
    return process.report_of(process.find(int(word))) if word.isdecimal() and not path.exists() else path


def load(path: Path, symbols: Path | None = None) -> Input:
    """Loads a JSON report, a heap profile, or the last report of a folder."""
    if path.is_dir():
        return of_report(path, reports.read_all([path])[-1], symbols)
    text, written = text_of(path), path.stat().st_mtime
    if text.startswith("heap profile:"):
        return Input(path, None, stacks_of_heap_profile(text, path, written, symbols))
    found = reports.parse(text, written)
    if found is None:
        raise Trouble(f"{path}: neither a JSON report (HAKMEM_REPORT=FILE.json) nor a heap profile of HAKMEM", NO_INPUT)
    return of_report(path, found, symbols)


def of_report(path: Path, report: Report, symbols: Path | None) -> Input:
    if not report.resident_known or not report.resident:
        raise Trouble(f"{path}: this report does not tell what is resident", NO_INPUT)
    return Input(path, report, stacks_of_report(report, symbols))


def between(a: Input, b: Input) -> Difference:
    if a.report and b.report:
        terms = sorted(Pair(a.report, b.report, a.stacks, b.stacks).terms(), key=lambda term: -abs(term.change))
        notes = (NO_STACKS,) if a.stacks is None or b.stacks is None else ()
        sides = side(a.path, a.report), side(b.path, b.report)
        return Difference("RSS", *sides, tuple(terms), tuple(settings(a.report, b.report)), notes)
    if a.report or b.report or a.stacks is None or b.stacks is None:
        raise Trouble(f"{a.path} and {b.path}: one is a report, the other a heap profile; pass two of a kind", NO_INPUT)
    before, after = (round(sum(stack.live.bytes for stack in stacks)) for stacks in (a.stacks, b.stacks))
    live = Term("live", "live blocks, by call site", before, after, ordered(by_site(a.stacks, b.stacks, "live", (before, after))))
    return Difference("live", Side(str(a.path), 0, None, live.a), Side(str(b.path), 0, None, live.b), (live,))


def side(path: Path, report: Report) -> Side:
    return Side(str(path), whole(report.number("process")), report.seconds, whole(report.resident))


def settings(before: Report, after: Report) -> Iterable[tuple[str, str, str]]:
    """Yields the options and the learned values that differ between the two."""
    for group in ("options", "policy"):
        one, other = before.group(group), after.group(group)
        for name in one:
            if name in other and one[name] != other[name] and name not in ("report", "explain"):
                label = name if group == "options" else f"{name} (learned)"
                yield label, option_text(name, one[name]), option_text(name, other[name])


@dataclass(frozen=True)
class Pair:
    before: Report
    after: Report
    stacks_before: Stacks | None
    stacks_after: Stacks | None

    def part(self, name: str, *path: str) -> Part:
        return Part(name, whole(self.before.number(*path)), whole(self.after.number(*path)))

    def resident(self, name: str) -> Part:
        return self.part(name, "resident_parts", name)

    def terms(self) -> list[Term]:
        return [
            self.live(),
            self.term("rounding", "added to live blocks by rounding up to a size class", ["rounding"], self.by_class("rounding")),
            self.free_in_slabs(),
            self.caches(),
            *self.idle(),
            self.term("slab tails", "ends of slabs, too short for a block", ["slab_tails"], self.by_class("tails")),
            self.term("heaps", "heaps of the program's own, but for their large blocks", ["heaps"]),
            self.term("metadata", "HAKMEM's tables", ["metadata", "metadata_spare"]),
            self.rest(),
            self.unaccounted(),
        ]

    def term(self, name: str, meaning: str, parts: list[str], inner: Iterable[Part] | None = None) -> Term:
        found = [self.resident(part) for part in parts]
        sums = both_sums(found)
        return Term(name, meaning, *sums, fitting(found if inner is None else list(inner), sums))

    def live(self) -> Term:
        term = self.term("live", "live blocks, as requested", ["live", "large_live"], [*self.by_class("live"), self.resident("large_live")])
        if self.stacks_before is None or self.stacks_after is None:
            return term
        sites = by_site(self.stacks_before, self.stacks_after, "live", (term.a, term.b))
        return replace(term, meaning=term.meaning + ", by call site", parts=ordered(sites))

    def free_in_slabs(self) -> Term:
        """Returns the term for free blocks of slabs. Its parts are pages that a live block keeps, by the block's call site, and other free pages, by
        size class."""
        loose = [Part(f"free pages of {name}", part.a - pin.a, part.b - pin.b) for name, (part, pin) in self.each_class("free_in_slabs", "pinned")]
        term = self.term("free in slabs", "free blocks of slabs in use", ["free_in_slabs"], loose)
        if self.stacks_before is not None and self.stacks_after is not None:
            sums = both_sums([part for _, (part,) in self.each_class("pinned")])
            sites = by_site(self.stacks_before, self.stacks_after, "pinned", sums)
            named = ordered(replace(part, name=f"pinned by {part.name}") for part in sites)
        else:
            named = tuple(Part(f"pinned in slabs of {name}", part.a, part.b) for name, (part,) in self.each_class("pinned"))
        return replace(term, parts=fitting([*loose, *named], (term.a, term.b)))

    def caches(self) -> Term:
        depots = Part("magazines in depots", depot_bytes(self.before), depot_bytes(self.after))
        bins, remote, large = (self.resident(name) for name in ("thread_caches", "remote_pending", "large_cached"))
        inner = [
            Part("bins of threads", bins.a - depots.a, bins.b - depots.b),
            depots,
            Part("remote frees not drained", remote.a, remote.b),
            Part("large blocks", large.a, large.b),
        ]
        return self.term("caches", "freed blocks kept for reuse", ["thread_caches", "remote_pending", "large_cached"], inner)

    def idle(self) -> list[Term]:
        idle, huge = self.resident("idle"), self.part("", "resident_idle", "of_huge_pages")
        return [
            Term("idle", "free slices, until the purge delay has passed", idle.a - huge.a, idle.b - huge.b),
            Term("huge pages", "free slices of huge pages that are in use", huge.a, huge.b),
        ]

    def rest(self) -> Term:
        kinds = {"files": "mapped files", "anonymous": "stacks, other mappings and allocators"}
        inner = [self.part(name, "resident_rest", key) for key, name in kinds.items()]
        return self.term("not HAKMEM's", "the rest of the process", ["rest_of_process"], inner)

    def unaccounted(self) -> Term:
        a, b = (whole(report.resident) - int(sum(report.parts.values())) for report in (self.before, self.after))
        return Term("changed during the report", "memory that changed while HAKMEM wrote the report", a, b)

    @staticmethod
    def of_class(report: Report, key: str) -> dict[int, int]:
        return {whole(row.get("size")): whole(row.get(key)) for row in report.rows("resident_classes")}

    def by_class(self, key: str) -> list[Part]:
        one, other = self.of_class(self.before, key), self.of_class(self.after, key)
        return [Part(f"blocks of {bytes_text(size)}", one.get(size, 0), other.get(size, 0)) for size in sorted(one.keys() | other.keys())]

    def each_class(self, *keys: str) -> list[tuple[str, tuple[Part, ...]]]:
        columns = [self.by_class(key) for key in keys]
        return [(row[0].name, row) for row in zip(*columns)]


def depot_bytes(report: Report) -> int:
    """Returns the resident bytes of depots. The report has only the sum of bins and depots, which is split in the ratio of their mapped bytes."""
    mapped = {whole(row.get("size")): row for row in report.classes}
    found = 0
    for row in report.rows("resident_classes"):
        of = mapped.get(whole(row.get("size")), {})
        both, depots = whole(of.get("in_bins")), whole(of.get("in_depots"))
        found += whole(row.get("in_bins")) * min(depots, both) // both if both else 0
    return found


def by_site(before: Stacks, after: Stacks, kind: str, sums: tuple[int, int]) -> list[Part]:
    """Returns one part for each stack, and one for all other bytes of the sums."""
    one, other = ({stack.key: stack for stack in side} for side in (before, after))
    frames_of = {key: (other.get(key) or one[key]).frames for key in [*other, *one]}
    parts = []
    for key, frames in frames_of.items():
        a, b = (getattr(side.get(key), kind, NOTHING) for side in (one, other))
        parts.append(Part(site_name(frames), round(a.bytes), round(b.bytes), frames, round(Z * math.sqrt(a.variance + b.variance))))
    listed = both_sums(parts)
    return [*parts, Part(OTHER_STACKS, sums[0] - listed[0], sums[1] - listed[1])]


def site_name(frames: tuple[Frame, ...], most: int = 3) -> str:
    """Returns the names of the innermost functions. Callers of main are left out, because they are the same for all sites."""
    end = next((at + 1 for at, frame in enumerate(frames) if frame.function == "main"), len(frames))
    return " < ".join(frame.text for frame in frames[: min(most, end)]) or "no stack"


def fitting(parts: list[Part], sums: tuple[int, int]) -> tuple[Part, ...]:
    """Returns no parts if they do not add up to the sums."""
    return ordered(parts) if both_sums(parts) == sums else ()


def both_sums(parts: Iterable[Part]) -> tuple[int, int]:
    return sum(part.a for part in parts), sum(part.b for part in parts)


def ordered(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted((part for part in parts if part.a or part.b), key=lambda part: -abs(part.change)))


def as_json(difference: Difference) -> dict[str, object]:
    def side_of(one: Side) -> dict[str, object]:
        return {"file": one.path, "process": one.process, "seconds": one.seconds, "bytes": one.total}

    def figures(of: Term | Part) -> dict[str, object]:
        return {"a": of.a, "b": of.b, "change": of.change}

    def part_of(part: Part) -> dict[str, object]:
        frames = {"frames": [frame.text for frame in part.frames]} if part.frames else {}
        return {"name": part.name, **figures(part), **({"error": part.error} if frames else {}), **frames}

    terms = [{"name": one.name, "meaning": one.meaning, **figures(one), "parts": list(map(part_of, one.parts))} for one in difference.terms]
    settings = [{"name": name, "a": one, "b": other} for name, one, other in difference.settings]
    sides = {"a": side_of(difference.a), "b": side_of(difference.b)}
    return {"of": difference.of, **sides, "change": difference.change, "terms": terms, "settings": settings, "notes": list(difference.notes)}


class Estimate(NamedTuple):
    bytes: float
    variance: float

    def plus(self, other: Estimate) -> Estimate:
        return Estimate(self.bytes + other.bytes, self.variance + other.variance)


NOTHING = Estimate(0.0, 0.0)


@dataclass(frozen=True)
class Stack:
    frames: tuple[Frame, ...]  # the innermost first
    live: Estimate
    pinned: Estimate = NOTHING

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the functions without lines, so that the key is the same for two versions of a program."""
        return tuple(frame.function for frame in self.frames)


Stacks = Tuple[Stack, ...]  # those that a report lists


@dataclass(frozen=True)
class Row:
    """The samples of one stack whose sizes are within one power of two, scaled up to the blocks that they represent."""

    addresses: tuple[int, ...]
    size: float  # mean bytes of a block
    live: float
    pinned: float = 0.0

    @property
    def group(self) -> int:
        return min(LARGE, bits_of(round(self.size)))

    def part(self, mean: float) -> float:
        """Returns the part of the blocks that are samples."""
        return picked(self.size, mean)

    def samples(self, mean: float) -> float:
        return self.live / self.size * self.part(mean)


def estimates(rows: list[Row], mean: float) -> list[Estimate]:
    """Returns the live bytes of each row, as the samples estimate them. The number of samples has a Poisson distribution."""
    return [Estimate(row.live, row.live**2 * (1 - row.part(mean)) / row.samples(mean)) for row in rows]


def scaled_estimates(rows: list[Row], mean: float, kind: str, sampled: float, exact: Counter[int]) -> list[Estimate]:
    """Scales the rows of each power of two to the exact bytes of the size classes there. `sampled` is the estimate of all rows, of which the report
    lists the largest. The variance is that of the row's share of the samples (Agresti and Coull)."""
    listed: dict[int, float] = defaultdict(float)
    samples: dict[int, float] = defaultdict(float)
    for row in rows:
        listed[row.group] += getattr(row, kind)
        samples[row.group] += row.samples(mean)
    room = {group: max(0, size - listed[group]) for group, size in exact.items()}
    spread = max(0.0, sampled - sum(listed.values())) / max(1, sum(room.values()))
    found = []
    for row in rows:
        size, group = getattr(row, kind), row.group
        more = 1 + spread * room.get(group, 0) / max(1, listed[group])  # samples of the group, for each one that is listed
        count = samples[group] * more + Z * Z
        share = (row.samples(mean) + Z * Z / 2) / count
        variance = exact[group] ** 2 * share * (1 - share) / count * (1 - row.part(mean)) if size else 0.0
        found.append(Estimate(size * exact[group] / max(1, listed[group] * more), variance))
    return found


def named(rows: list[Row], live: list[Estimate], pinned: list[Estimate], sources: Sources) -> Stacks:
    """Returns one stack for each distinct list of functions. Those with the most bytes come first."""
    sources.learn(row.addresses for row in rows)
    merged: dict[tuple[str, ...], Stack] = {}
    for row, *sizes in zip(rows, live, pinned):
        stack = Stack(tuple(sources.frames(row.addresses)), *sizes)
        known = merged.get(stack.key, replace(stack, live=NOTHING, pinned=NOTHING))
        merged[stack.key] = replace(known, live=known.live.plus(stack.live), pinned=known.pinned.plus(stack.pinned))
    sources.tell_missing()
    return tuple(sorted(merged.values(), key=lambda stack: -(stack.live.bytes + stack.pinned.bytes)))


def stacks_of_report(report: Report, symbols: Path | None = None) -> Stacks | None:
    """Returns the stacks of a report, or None if no block was sampled."""
    mean = whole(report.number("sampled", "mean"))
    if not mean:
        return None
    rows = [row for row in map(row_of, report.listed("sampled", "stacks")) if row]
    sources = Sources("\n".join(map(str, report.listed("sampled", "modules"))), written=report.written, symbols=symbols)
    found = []
    for kind, of_large in (("live", "large_live"), ("pinned", "")):
        exact = Counter({LARGE: whole(report.number("resident_parts", of_large))})
        for row in report.rows("resident_classes"):
            exact[bits_of(whole(row.get("size")))] += whole(row.get(kind))
        found.append(scaled_estimates(rows, mean, kind, whole(report.number("sampled", f"{kind}_bytes")), exact))
    live, pinned = found
    return named(rows, live, pinned, sources)


def whole(value: object) -> int:
    return int(as_number(value) or 0)


def row_of(row: object) -> Row | None:
    """Returns None if the row is not as HAKMEM writes it. The blocks of a row have between half of its number `block` and that number of bytes."""
    if not isinstance(row, dict) or not isinstance(row.get("frames"), list):
        return None
    blocks, live, pinned, block = (whole(row.get(key)) for key in ("live_count", "live_bytes", "pinned_bytes", "block"))
    return Row(tuple(map(whole, row["frames"])), max(1.0, 0.75 * block or live / max(1, blocks)), max(1, live), pinned)


def stacks_of_heap_profile(text: str, path: Path, written: float = math.inf, symbols: Path | None = None) -> Stacks:
    found = profiles.parse(text, str(path))
    rows = [scaled(site, found.mean) for site in found.sites if site.live_blocks]
    return named(rows, estimates(rows, found.mean), [NOTHING] * len(rows), Sources(found.maps, written=written, symbols=symbols))


def scaled(site: Site, mean: int) -> Row:
    """Scales a site as pprof does, by the mean size of the live samples."""
    size = site.live_bytes / site.live_blocks
    return Row(site.stack, size, site.live_bytes / picked(size, mean))
