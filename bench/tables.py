"""Medians, ratios and verdicts, and how they are shown."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass

from peers import Allocator
from rows import Goal, Point

Values = dict[str, list[float]]  # by allocator: one value a round


@dataclass
class Line:
    point: Point
    medians: dict[str, float]
    spread: dict[str, float]  # (largest - smallest) / median
    best_peer: str | None
    ratio: float | None  # HAKMEM to the best peer, > 1: HAKMEM is better
    limit_ratio: float | None
    samples: Values

    def meets(self, goal: Goal) -> bool | None:
        """None where what the goal speaks of was not measured."""
        own = self.medians.get("hakmem")
        within = None if own is None or goal.value is None else own <= goal.value
        checks = [
            (goal.ratio, at_least(self.ratio, goal.ratio)),
            (goal.limit, at_least(self.limit_ratio, goal.limit)),
            (goal.value, within),
        ]
        verdicts = [verdict for bound, verdict in checks if bound is not None]
        if False in verdicts:
            return False
        return None if None in verdicts else True


def at_least(value: float | None, bound: float | None) -> bool | None:
    return None if value is None or bound is None else value >= bound


def evaluate(point: Point, samples: Values, allocators: list[Allocator]) -> Line:
    samples = {name: values for name, values in samples.items() if values}
    medians = {name: statistics.median(values) for name, values in samples.items()}
    spread = {
        name: (max(values) - min(values)) / medians[name] if medians[name] else 0.0
        for name, values in samples.items()
    }
    peers = [a.name for a in allocators if a.role == "peer" and a.name in medians]
    pick = max if point.higher else min
    best = pick(peers, key=lambda name: medians[name]) if peers else None
    return Line(
        point,
        medians,
        spread,
        best,
        oriented(point, medians.get("hakmem"), medians.get(best) if best else None),
        oriented(point, medians.get("hakmem"), medians.get("limit")),
        samples,
    )


def oriented(point: Point, own: float | None, other: float | None) -> float | None:
    """A ratio above 1 where `own` is the better of the two."""
    if own is None or other is None:
        return None
    over, under = (own, other) if point.higher else (other, own)
    if under == 0:
        return 1.0 if over == 0 else None
    return over / under


# ---- text -------------------------------------------------------------------


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) < 0.01:
        return f"{value:.1e}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def goal_text(goal: Goal) -> str:
    parts = []
    if goal.ratio is not None:
        parts.append(f"≥ {goal.ratio:.2f} × best")
    if goal.limit is not None:
        parts.append(f"≥ {goal.limit:.2f} × limit")
    if goal.value is not None:
        parts.append(f"≤ {goal.value:g}")
    return ", ".join(parts)


def verdict_text(verdict: bool | None) -> str:
    return "-" if verdict is None else "yes" if verdict else "NO"


def header(names: list[str]) -> list[str]:
    tail = ["to best", "to limit", "floor", "held", "goal", "met"]
    return ["row", "work", "unit", *names, *tail]


def cells(line: Line, names: list[str]) -> list[str]:
    def shown(name: str) -> str:
        return number(line.medians.get(name)) + ("*" if name == line.best_peer else "")

    point = line.point
    return [
        point.row,
        point.label,
        point.unit,
        *(shown(name) for name in names),
        number(line.ratio),
        number(line.limit_ratio),
        goal_text(point.floor),
        verdict_text(line.meets(point.floor)),
        goal_text(point.goal),
        verdict_text(line.meets(point.goal)),
    ]


def markdown(lines: list[Line], names: list[str]) -> str:
    rows = [header(names), ["---"] * len(header(names))]
    rows += [cells(line, names) for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def plain(lines: list[Line], names: list[str]) -> str:
    rows = [header(names)] + [cells(line, names) for line in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    shown = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
    shown.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(shown)


def as_json(lines: list[Line]) -> list[dict]:
    result = []
    for line in lines:
        point = line.point
        result.append(
            {
                "row": point.row,
                "label": point.label,
                "command": point.work.command,
                "metric": point.metric,
                "unit": point.unit,
                "higher_is_better": point.higher,
                "medians": line.medians,
                "spread": line.spread,
                "best_peer": line.best_peer,
                "ratio_to_best_peer": line.ratio,
                "ratio_to_limit": line.limit_ratio,
                "floor": asdict(point.floor),
                "floor_held": line.meets(point.floor),
                "goal": asdict(point.goal),
                "goal_met": line.meets(point.goal),
                "samples": line.samples,
            }
        )
    return result
