"""Compares allocators by interleaved rounds. `hakmem bench` and `hakmem replay` use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import allocators
from hakmem.allocators import Allocator
from hakmem.interval import Ratio, ratio
from hakmem.tables import plain_table

WIDE = 90  # columns of a wide terminal
Played = dict[str, float]


@dataclass(frozen=True)
class Figure:
    """One quantity that is measured in each run. A lower value is better. `best` is the start of the sentence that names the best allocator. If it
    is empty, there is no such sentence."""

    key: str
    title: str
    shown: Callable[[float], str]
    best: str = ""


@dataclass
class Contest:
    """The figures of each allocator in each round. An allocator that fails once is excluded."""

    members: list[Allocator]
    figures: Sequence[Figure]
    runs: dict[str, list[Played]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, played: Played, why: str, counted: bool = True) -> None:
        """Adds a run. If the run is not a measurement, `why` gives the reason, and the allocator is excluded."""
        if why:
            self.refused[name] = why
            self.runs.pop(name, None)
        elif counted:
            self.runs.setdefault(name, []).append(played)

    def values(self, name: str, key: str) -> list[float]:
        return [run[key] for run in self.runs.get(name, [])]

    def ratio(self, name: str, base: str, key: str) -> Ratio | None:
        return ratio(self.values(name, key), self.values(base, key))

    def middle(self, name: str, figure: Figure) -> float:
        return median(self.values(name, figure.key))

    @property
    def able(self) -> list[str]:
        """Returns the allocators that were measured, those with the least of the first figure first."""
        names = [member.name for member in self.members if member.name in self.runs]
        return sorted(names, key=lambda name: self.middle(name, self.figures[0]))

    @property
    def base(self) -> str | None:
        """Returns the allocator that others are compared with. It is glibc if glibc was measured, and otherwise the first one that was measured."""
        names = [member.name for member in self.members if member.name in self.runs]
        return allocators.GLIBC if allocators.GLIBC in names else names[0] if names else None


def ratio_text(found: Ratio | None) -> str:
    return "" if found is None else f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def show_refused(contest: Contest, console: Console) -> None:
    for name, why in contest.refused.items():
        console.print(Text(f"left out: {name}: {why}", style="yellow"), soft_wrap=True)


def contest_table(contest: Contest, wide: bool) -> Table:
    columns = [text for figure in contest.figures for text in (figure.title, "ratio")]
    table = plain_table("", "", *columns, dense=True)
    for name in contest.able:
        table.add_row(*cells_of(contest, name, wide))
    return table


def cells_of(contest: Contest, name: str, wide: bool) -> list[str]:
    """Returns the cells of a row. On a narrow screen, the ratio of the last figure has no interval. This figure is faults, which hardly vary."""
    cells = [name]
    for figure in contest.figures:
        found = None if name == contest.base or not contest.base else contest.ratio(name, contest.base, figure.key)
        cells.append(figure.shown(contest.middle(name, figure)))
        cells.append(f"{found.median:.2f}" if found and figure is contest.figures[-1] and not wide else ratio_text(found))
    return cells


def verdicts(contest: Contest) -> list[str]:
    """Returns a sentence for each figure. It names the best allocator, and the allocators that are not significantly worse."""
    found = []
    for figure in (figure for figure in contest.figures if figure.best):
        best = min(contest.able, key=lambda name: contest.middle(name, figure))
        ratios = {name: contest.ratio(name, best, figure.key) for name in contest.able if name != best}
        level = [name for name, found_ratio in ratios.items() if not (found_ratio and found_ratio.worse)]
        also = f"; not to be told from it: {', '.join(level)}" if level else ""
        base = contest.base or best
        against = "" if best == base else f", {ratio_text(contest.ratio(best, base, figure.key)) or '?'} of {base}'s"
        found.append(f"{figure.best}: {best}{against}{also}.")
    return found
