"""Compares allocators by interleaved rounds. `hakmem bench` and `hakmem replay` use it."""

from __future__ import annotations

import random
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
SEED = 7
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

    def play(self, rounds: int, run: Callable[[Allocator], tuple[Played, str]], tell: Callable[[str], None], *beside: Allocator) -> None:
        """Runs each member, and each of `beside`, once in each round, in another order each time. The first round is not counted."""
        everyone, chance = [*self.members, *beside], random.Random(SEED)
        for number in range(rounds + 1):
            for allocator in chance.sample(everyone, len(everyone)):
                tell(allocator.name)
                if allocator.name not in self.refused:
                    self.add(allocator.name, *run(allocator), counted=number > 0)

    def values(self, name: str, key: str) -> list[float]:
        return [run[key] for run in self.runs.get(name, [])]

    def ratio(self, name: str, base: str, key: str) -> Ratio | None:
        return ratio(self.values(name, key), self.values(base, key))

    def middle(self, name: str, figure: Figure) -> float:
        return median(self.values(name, figure.key))

    @property
    def able(self) -> list[str]:
        """Returns the allocators that were measured, those with the least of the first figure first."""
        return sorted(self.measured, key=lambda name: self.middle(name, self.figures[0]))

    @property
    def base(self) -> str | None:
        """Returns the allocator that others are compared with. It is glibc if glibc was measured, and otherwise the first one that was measured."""
        return allocators.GLIBC if allocators.GLIBC in self.measured else next(iter(self.measured), None)

    @property
    def measured(self) -> list[str]:
        return [member.name for member in self.members if member.name in self.runs]


def ratio_text(found: Ratio | None) -> str:
    return "" if found is None else f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def last_line(text: str) -> str:
    """Returns the end of the last line that a run wrote to stderr."""
    return text.splitlines()[-1][-300:] if text else "no message"


def show_refused(contest: Contest, console: Console) -> None:
    for name, why in contest.refused.items():
        console.print(Text(f"left out: {name}: {why}", style="yellow"), soft_wrap=True)


def contest_table(contest: Contest, wide: bool) -> Table:
    columns = [text for figure in contest.figures for text in (figure.title, "ratio")]
    return plain_table("", "", *columns, rows=[cells_of(contest, name, wide) for name in contest.able], dense=True)


def cells_of(contest: Contest, name: str, wide: bool) -> list[str]:
    """Returns the cells of a row. On a narrow screen, the ratio of the last figure has no interval. This figure is faults, which hardly vary."""
    cells = [name]
    for figure in contest.figures:
        found = None if name == contest.base or not contest.base else contest.ratio(name, contest.base, figure.key)
        cells.append(figure.shown(contest.middle(name, figure)))
        cells.append(f"{found.median:.2f}" if found and figure is contest.figures[-1] and not wide else ratio_text(found))
    return cells


def show_verdicts(contest: Contest, console: Console) -> None:
    for sentence in verdicts(contest):
        console.print(Text(sentence, style="bold"))


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
