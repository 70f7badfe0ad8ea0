"""hakmem diff: explains why the RSS of two reports differs, by terms that add up to exactly the difference."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem import process, profiles, reports
from hakmem.figures import as_number, bytes_text
from hakmem.options import option_text
from hakmem.profiles import Site, picked
from hakmem.reports import Report
from hakmem.sources import Frame, Sources
from hakmem.trouble import NO_INPUT, Trouble, text_of

OTHER_STACKS = "stacks with fewer bytes"
NOT_SAMPLED = "not in a sample, or the error of sampling"
NO_STACKS = "live bytes are split by size class: both programs need HAKMEM_HEAP_SAMPLE=512k to split them by call site"


@dataclass(frozen=True)
class Part:
    """A part of a term, with its bytes in A and in B. A part for a call site has frames."""

    name: str
    a: int
    b: int
    frames: tuple[Frame, ...] = ()

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
        notes = () if a.stacks and b.stacks else (NO_STACKS,)
        sides = side(a.path, a.report), side(b.path, b.report)
        return Difference("RSS", *sides, tuple(terms), tuple(settings(a.report, b.report)), notes)
    if a.report or b.report or not a.stacks or not b.stacks:
        raise Trouble(f"{a.path} and {b.path}: one is a report, the other a heap profile; pass two of a kind", NO_INPUT)
    live = Term("live", "live blocks, by call site", a.stacks.live, b.stacks.live, tuple(by_site(a.stacks, b.stacks, "live")))
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
        if not self.stacks_before or not self.stacks_after:
            return term
        sites = by_site(self.stacks_before, self.stacks_after, "live")
        return replace(term, meaning=term.meaning + ", by call site", parts=with_rest(term, sites))

    def free_in_slabs(self) -> Term:
        """Returns the term for free blocks of slabs. Its parts are pages that a live block keeps, by the block's call site, and other free pages, by
        size class."""
        pinned = [self.of_class(report, "pinned") for report in (self.before, self.after)]
        loose = [Part(f"free pages of {name}", part.a - pin.a, part.b - pin.b) for name, (part, pin) in self.each_class("free_in_slabs", "pinned")]
        term = self.term("free in slabs", "free blocks of slabs in use", ["free_in_slabs"], loose)
        whole_pinned = Term("", "", sum(pinned[0].values()), sum(pinned[1].values()))
        if self.stacks_before and self.stacks_after:
            sites = by_site(self.stacks_before, self.stacks_after, "pinned")
            named = with_rest(whole_pinned, [replace(part, name=f"pinned by {part.name}") for part in sites])
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


def by_site(before: Stacks, after: Stacks, kind: str) -> list[Part]:
    """Returns one part for each stack, and one for all stacks that a report does not list. Together, they contain all samples."""
    one, other = ({stack.key: stack for stack in side.stacks} for side in (before, after))
    frames_of = {key: (other.get(key) or one[key]).frames for key in [*other, *one]}
    parts = [Part(site_name(frames), getattr(one.get(key), kind, 0), getattr(other.get(key), kind, 0), frames) for key, frames in frames_of.items()]
    listed = both_sums(parts)
    return [*parts, Part(OTHER_STACKS, getattr(before, kind) - listed[0], getattr(after, kind) - listed[1])]


def site_name(frames: tuple[Frame, ...], most: int = 3) -> str:
    """Returns the names of the innermost functions. Callers of main are left out, because they are the same for all sites."""
    end = next((at + 1 for at, frame in enumerate(frames) if frame.function == "main"), len(frames))
    return " < ".join(frame.text for frame in frames[: min(most, end)]) or "no stack"


def with_rest(term: Term, parts: list[Part]) -> tuple[Part, ...]:
    """Adds a part for the difference between the term and the sum of its parts, because the parts are estimates from samples."""
    a, b = both_sums(parts)
    return ordered([*parts, Part(NOT_SAMPLED, term.a - a, term.b - b)])


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
        return {"name": part.name, **figures(part), **frames}

    terms = [{"name": one.name, "meaning": one.meaning, **figures(one), "parts": list(map(part_of, one.parts))} for one in difference.terms]
    settings = [{"name": name, "a": one, "b": other} for name, one, other in difference.settings]
    sides = {"a": side_of(difference.a), "b": side_of(difference.b)}
    return {"of": difference.of, **sides, "change": difference.change, "terms": terms, "settings": settings, "notes": list(difference.notes)}


@dataclass(frozen=True)
class Stack:
    frames: tuple[Frame, ...]  # the innermost first
    live: int  # bytes, an estimate
    blocks: int
    pinned: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the functions without lines, so that the key is the same for two versions of a program."""
        return tuple(frame.function for frame in self.frames)


@dataclass(frozen=True)
class Stacks:
    """The stacks of a report. `live` and `pinned` are the sums of all stacks, including those that are not listed."""

    mean: int
    live: int
    pinned: int
    stacks: tuple[Stack, ...]


Raw = tuple[tuple[int, ...], int, int, int]  # the addresses of a stack, and then the numbers of Stack


def named(raw: list[Raw], sources: Sources) -> tuple[Stack, ...]:
    """Returns one stack for each distinct list of functions. Those with the most bytes come first."""
    sources.learn(addresses for addresses, *_ in raw)
    merged: dict[tuple[str, ...], Stack] = {}
    for addresses, live, blocks, pinned in raw:
        stack = Stack(tuple(sources.frames(addresses)), live, blocks, pinned)
        known = merged.setdefault(stack.key, replace(stack, live=0, blocks=0, pinned=0))
        merged[stack.key] = replace(known, live=known.live + live, blocks=known.blocks + blocks, pinned=known.pinned + pinned)
    return tuple(sorted(merged.values(), key=lambda stack: -(stack.live + stack.pinned)))


def stacks_of_report(report: Report, symbols: Path | None = None) -> Stacks | None:
    """Returns the stacks of a report, or None if no block was sampled."""
    mean = whole(report.number("sampled", "mean"))
    if not mean:
        return None
    raw = [raw_of(row) for row in report.listed("sampled", "stacks") if isinstance(row, dict)]
    sources = Sources("\n".join(map(str, report.listed("sampled", "modules"))), written=report.written, symbols=symbols)
    live, pinned = (whole(report.number("sampled", f"{kind}_bytes")) for kind in ("live", "pinned"))
    return Stacks(mean, live, pinned, named(raw, sources))


def whole(value: object) -> int:
    return int(as_number(value) or 0)


def raw_of(row: dict[str, object]) -> Raw:
    frames = row.get("frames")
    addresses = tuple(map(whole, frames)) if isinstance(frames, list) else ()
    return addresses, whole(row.get("live_bytes")), whole(row.get("live_count")), whole(row.get("pinned_bytes"))


def stacks_of_heap_profile(text: str, path: Path, written: float = math.inf, symbols: Path | None = None) -> Stacks:
    found = profiles.parse(text, str(path))
    raw = [scaled(site, found.mean) for site in found.sites if site.live_blocks]
    stacks = named(raw, Sources(found.maps, written=written, symbols=symbols))
    return Stacks(found.mean, sum(stack.live for stack in stacks), 0, stacks)


def scaled(site: Site, mean: int) -> Raw:
    """Scales a site as pprof does, by the mean size of the live samples."""
    part = picked(site.live_bytes / site.live_blocks, mean)
    return site.stack, round(site.live_bytes / part), round(site.live_blocks / part), 0
