"""Reads, writes and merges the result of a run, which is a JSON document. bench/README.md describes the format. The field "lines" is for people.
It is computed from the field "works" each time."""
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import verdicts
from point import Goal, Point, Workload
from verdicts import Line

FORMAT = "hakmem-bench/1"
DIGITS = 6  # of a figure; no clock here is better

Sample = dict[str, float]
Trace = list[list[float]]  # [milliseconds, KiB resident], or [place, KiB live, KiB resident]


class Unfit(Exception):
    """Documents that cannot be read, or must not be put together, and why."""


@dataclass
class Measured:
    """What was seen of one workload, by allocator. Figures are rounded as they
    come, so that a document says neither more nor less than was judged."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)  # one a round
    whole: dict[str, Sample] = field(default_factory=dict)  # the run with system calls counted
    traces: dict[str, Trace] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, allocator: str, run: Sample) -> None:
        self.samples.setdefault(allocator, []).append(rounded(run))

    def values(self, allocator: str, metric: str) -> list[float]:
        if allocator in self.refused:
            return []
        return [s[metric] for s in self.samples.get(allocator, []) if metric in s]


def refusals(works: dict[Workload, Measured], title: Callable[[Workload], str]) -> list[str]:
    return [f"REFUSED {name}: {title(work)}: {why}" for work, measured in works.items() for name, why in measured.refused.items()]


@dataclass
class Result:
    machine: dict[str, str]
    hakmem: dict[str, str]  # version, commit, library
    allocators: list[dict[str, str]]  # name, role, version
    clock: str
    quick: bool
    parts: list[dict[str, Any]]  # one a run of the harness: when, rounds, seed, load
    points: list[Point] = field(default_factory=list)
    works: dict[Workload, Measured] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def names(self, *roles: str) -> list[str]:
        """Of these roles, in their order; of all, in the order of the tables."""
        order = roles or ("peer", "limit", "hakmem")
        return [a["name"] for role in order for a in self.allocators if a["role"] == role]

    def title(self, work: Workload) -> str:
        """The first row that reads it, or the program that is counted."""
        if work.exact:
            return work.program
        point = next(p for p in self.points if p.work == work)
        return f"{point.row} {point.label}"

    def paging(self, what: str) -> float | None:
        """What the machine takes for it, in ns: the least of the parts."""
        seen = [part.get("paging", {}).get(what, -1) for part in self.parts]
        return min((ns for ns in seen if ns >= 0), default=None)

    def processor_share(self) -> float | None:
        """Of the time that runs of one thread took, how much they had a processor:
        what lacks, others had. A real program may wait for its own reasons."""
        works = (measured for work, measured in self.works.items() if work.single_thread and not work.program)
        runs = [run for measured in works for samples in measured.samples.values() for run in samples if "wall_s" in run]
        wall = sum(run["wall_s"] for run in runs)
        return sum(run["user_s"] + run["system_s"] for run in runs) / wall if wall else None

    def lines(self) -> list[Line]:
        return [self._line(point) for point in self.points]

    def _line(self, point: Point) -> Line:
        measured = self.works[point.work]
        names = [n for n in self.names() if n != verdicts.LIMIT or point.with_limit]
        values = {name: measured.values(name, point.metric) for name in names}
        return verdicts.evaluate(point, values, self.names("peer"))


# ---- to JSON ----------------------------------------------------------------

def save(result: Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(result))


def to_text(result: Result) -> str:
    """Indented, except that a sample, a point or a trace is one line."""
    works = list(result.works)
    head = {k: v for k, v in vars(result).items() if k not in ("points", "works")}
    document = {"format": FORMAT, **head}
    document["points"] = [asdict(p) | {"work": works.index(p.work)} for p in result.points]
    document["works"] = [work_json(w, result.works[w]) for w in works]
    document["lines"] = [line_json(line) for line in result.lines()]
    return layout(document) + "\n"


def work_json(work: Workload, measured: Measured) -> dict:
    return asdict(work) | vars(measured) | {"samples": {name: columns(runs) for name, runs in measured.samples.items()}}


def columns(runs: list[Sample]) -> dict[str, list[float]]:
    """By figure, a value a round."""
    keys = [k for k in runs[0] if all(k in run for run in runs)] if runs else []
    return {key: [run[key] for run in runs] for key in keys}


def rounded(run: Sample) -> Sample:
    return {key: significant(value) for key, value in run.items()}


def significant(value: float) -> float:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def line_json(line: Line) -> dict:
    return {
        "row": line.point.row,
        "label": line.point.label,
        "unit": line.point.unit,
        "higher_is_better": line.point.higher,
        "medians": rounded(line.medians),
        "spread": {k: round(v, 4) for k, v in line.spread.items()},
        "best_peer": line.best_peer,
        "verdict": line.verdict(),
        "versus": {name: versus_json(v) for name, v in line.versus.items()},
        "floor_held": line.meets(line.point.floor),
        "goal_met": line.meets(line.point.goal),
    }


def versus_json(versus: verdicts.Versus) -> dict:
    """JSON has no infinity: null, where the other's figure is 0."""
    ends = [finite(end) for end in versus.interval or ()]
    return {"ratio": finite(versus.ratio), "interval": ends or None, "verdict": versus.verdict}


def finite(value: float) -> float | None:
    return significant(value) if math.isfinite(value) else None


def layout(value: Any, indent: int = 0, width: int = 160) -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(flat) <= width or is_figures(value) or not isinstance(value, (dict, list)):
        return flat
    pad, inner = " " * indent, " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {layout(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{pad}}}"
    return "[\n" + ",\n".join(inner + layout(v, indent + 1) for v in value) + f"\n{pad}]"


def is_figures(value: Any) -> bool:
    """A list of numbers, or of lists of numbers."""
    return isinstance(value, list) and all(isinstance(v, (int, float)) or is_figures(v) for v in value)


# ---- from JSON --------------------------------------------------------------

def load(path: Path) -> Result:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Unfit(f"{path}: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Unfit(f"{path} is not a result of the form {FORMAT}")
    return from_document(document)


def from_document(document: dict) -> Result:
    works = [known(Workload, entry) for entry in document["works"]]
    measured = map(measured_from, document["works"])
    points = [point_from(entry, works) for entry in document["points"]]
    head = {f.name: document[f.name] for f in fields(Result) if f.name not in ("points", "works")}
    return Result(**head, points=points, works=dict(zip(works, measured)))


def known(kind: type, entry: dict) -> Any:
    """The items of the entry for which the class has a field."""
    return kind(**{f.name: entry[f.name] for f in fields(kind) if f.name in entry})


def point_from(entry: dict, works: list[Workload]) -> Point:
    goals = {which: known(Goal, entry[which]) for which in ("floor", "goal")}
    return known(Point, entry | goals | {"work": works[entry["work"]]})


def measured_from(entry: dict) -> Measured:
    samples = {name: [dict(zip(figures, values)) for values in zip(*figures.values())] for name, figures in entry["samples"].items()}
    return known(Measured, entry | {"samples": samples})


# ---- merging ----------------------------------------------------------------

def merge(results: Iterable[Result]) -> Result:
    """Parts of one measurement as one: rows are put together, and where both parts have a row, its rounds are added."""
    first, *others = results
    for other in others:
        check_same(first, other)
        first = joined(first, other)
    return first


def check_same(one: Result, other: Result) -> None:
    for what in ("machine", "hakmem", "clock", "quick"):
        if what == "hakmem" and same_library(one, other):
            continue
        if getattr(one, what) != getattr(other, what):
            raise Unfit(f"not of one kind: {what} differs: {difference(one, other, what)}")
    versions = {a["name"]: a for a in one.allocators}
    for allocator in other.allocators:
        if versions.get(allocator["name"], allocator) != allocator:
            raise Unfit(f"{allocator['name']} is not the same in both")
    if any(part in one.parts for part in other.parts):
        raise Unfit("the same run twice")
    for work in one.works.keys() & other.works.keys():
        if one.works[work].samples.keys() != other.works[work].samples.keys():
            raise Unfit(f"rounds cannot be paired, other allocators ran: {work.command}")


def same_library(one: Result, other: Result) -> bool:
    """The same bytes, and the same options; later commits beside it do not matter."""
    tree = ("commit", "uncommitted changes")
    left, right = ({k: v for k, v in r.hakmem.items() if k not in tree} for r in (one, other))
    return "sha256" in left and left == right


def difference(one: Result, other: Result, what: str) -> str:
    left, right = getattr(one, what), getattr(other, what)
    if not isinstance(left, dict):
        return f"{left} and {right}"
    changed = [k for k in {**left, **right} if left.get(k) != right.get(k)]
    return "; ".join(f"{k}: {left.get(k)} and {right.get(k)}" for k in changed)


def joined(one: Result, other: Result) -> Result:
    names = one.names()
    works = dict(one.works)
    for work, measured in other.works.items():
        works[work] = more_rounds(works[work], measured) if work in works else measured
    return replace(
        one,
        allocators=one.allocators + [a for a in other.allocators if a["name"] not in names],
        parts=one.parts + other.parts,
        points=list(dict.fromkeys(one.points + other.points)),
        works=works,
        notes=list(dict.fromkeys(one.notes + other.notes)),
    )


def more_rounds(one: Measured, other: Measured) -> Measured:
    samples = {name: runs + other.samples[name] for name, runs in one.samples.items()}
    return Measured(samples, other.whole | one.whole, other.traces | one.traces, one.refused | other.refused)
