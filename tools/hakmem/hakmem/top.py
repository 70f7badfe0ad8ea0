"""hakmem top: a live view of one process on HAKMEM."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hakmem import explain, process, reports
from hakmem.explain import Decision
from hakmem.figures import bytes_text, count_text, percent_text, short_text, time_text
from hakmem.process import Process
from hakmem.reports import Report, hit_rate
from hakmem.tables import BAR, class_table, decision_table, parts_table, parts_title, policy_table
from hakmem.trouble import Trouble

CLASS_ROWS = 12
DECISIONS = 6
LOOK_S = 0.2
FIRST_REPORT_S = 5.0
WIDE = 156
TALL = 36  # lines, from which titles, rules and blank lines have room
HEAD = 1
TITLED = 4  # lines of a blank, a title, headings and a rule
RATE = 9  # columns of a rate
RATES_WIDTH = 8 * (RATE + 1) - 1
GRID_GAP = 2
SHELL_LINES = 2  # that this process has ended, and the shell's prompt
LEAST_BAR = 6
PARTS_AND_POLICY = 58  # columns of the parts without bars, the policy, and the gaps
PIPE_HEIGHT = 50

Figure = Callable[[Report], Optional[float]]


def figure(*path: str) -> Figure:
    return lambda report: report.number(*path)


def misses(report: Report) -> float | None:
    return report.misses


MALLOCS, FREES = figure("served", "malloc"), figure("served", "free")
REMOTE_FREES, PURGED = figure("counters", "remote_frees"), figure("counters", "purged_bytes")


@dataclass(frozen=True)
class Step:
    """The interval between two reports; or since the start of the program, if there is only one."""

    before: Report | None
    now: Report
    seconds: float

    def grown(self, of: Figure) -> float | None:
        now, before = of(self.now), of(self.before) if self.before else 0
        return None if now is None or before is None else max(0, now - before)

    def rate(self, of: Figure) -> float | None:
        grown = self.grown(of)
        return None if grown is None or self.seconds <= 0 else grown / self.seconds

    def hit_rate(self) -> float | None:
        return hit_rate(self.grown(MALLOCS), self.grown(misses))

    def class_rates(self) -> list[tuple[dict, float]]:
        """The busiest classes first, with their allocations per second."""
        before = {row.get("size"): row.get("served") or 0 for row in self.before.classes} if self.before else {}
        grown = [(row, max(0, (row.get("served") or 0) - before.get(row.get("size"), 0))) for row in self.now.classes]
        rated = [(row, count / self.seconds if self.seconds > 0 else 0.0) for row, count in grown]
        return sorted(rated, key=lambda pair: (-pair[1], -(pair[0].get("served") or 0)))[:CLASS_ROWS]


def step_of(before: Report | None, now: Report, alive_s: float) -> Step:
    if before is None:
        return Step(None, now, now.seconds if now.seconds is not None else alive_s)
    if now.seconds is not None and before.seconds is not None:
        return Step(before, now, now.seconds - before.seconds)
    return Step(before, now, now.written - before.written)


def rates_table(step: Step, width: int) -> Group:
    """On a narrow screen, in two rows."""
    now = step.now
    cells = {
        "allocs/s": short_text(step.rate(MALLOCS)),
        "frees/s": short_text(step.rate(FREES)),
        "hits": percent_text(step.hit_rate()),
        "misses/s": short_text(step.rate(misses)),
        "remote/s": short_text(step.rate(REMOTE_FREES)),
        "purged/s": bytes_text(step.rate(PURGED)),
        "RSS": bytes_text(now.resident),
        "threads": count_text(now.number("threads")),
    }
    per_row = len(cells) if width >= RATES_WIDTH else len(cells) // 2
    names = list(cells)
    return Group(*[rates_row(names[at : at + per_row], cells) for at in range(0, len(names), per_row)])


def rates_row(names: list[str], cells: dict[str, str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right", min_width=RATE, no_wrap=True)
    table.add_row(*[cells[name] for name in names], style="bold")
    return table


def bar_width(width: int) -> int:
    left = min(BAR, width - PARTS_AND_POLICY)
    return left if left >= LEAST_BAR else 0


def frame(title: str, step: Step, decisions: list[Decision], width: int, height: int) -> RenderableType:
    """Shows as many classes and decisions as fit; the classes beside the parts on a wide terminal. A low or narrow
    terminal has no titles, rules and blank lines."""
    dense = height < TALL or width < RATES_WIDTH
    wide = width >= WIDE and not dense
    policy = policy_table(step.now, dense)
    parts = parts_table(step.now, "" if dense else parts_title(step.now, "is"), bar_width(width))
    rates = rates_table(step, width)
    side = max(parts.row_count, policy.row_count) if dense else max(parts.row_count + 1, policy.row_count + 3)
    left = height - HEAD - 2 * len(rates.renderables) - (0 if dense else 2) - side
    left -= (1 if wide else 2) * (1 if dense else TITLED)
    decisions = explain.latest(decisions, max(1, left if wide else left // 2))
    rows = side - TITLED + 1 if wide else left - max(1, len(decisions))
    classes = busiest_table(step, max(1, rows), dense, width)
    grid = Table.grid(padding=(0, GRID_GAP))
    grid.add_row(parts, policy, *([classes] if wide else []))
    blocks = [head_line(title, step), rates, grid, *([] if wide else [classes])]
    blocks.append(decision_table(decisions, width=width, dense=dense))
    return Group(*blocks if dense else [part for block in blocks for part in (block, "")][:-1])


def head_line(title: str, step: Step) -> Text:
    since = f"rates over {time_text(step.seconds)}  " if step.before else "rates since its start  "
    return Text.assemble(("hakmem top  ", "bold cyan"), (since, "dim"), title, no_wrap=True, overflow="ellipsis")


def busiest_table(step: Step, rows: int, dense: bool, width: int) -> Table:
    rated = step.class_rates()[:rows]
    rates = [short_text(rate) for _, rate in rated]
    return class_table([row for row, _ in rated], rates, dense, tiers=width >= RATES_WIDTH)


class Monitor:
    """The latest complete report of a process, and the frame that shows it."""

    def __init__(self, watched: Process, save: Path | None = None) -> None:
        self.process, self.save = watched, save
        self.file, self.log = process.report_of(watched), process.explain_of(watched)
        self.title = f"process {watched.pid}  {watched.name()}"
        self.step: Step | None = None

    def look(self) -> bool:
        """Returns True for a new report."""
        report = reports.read(self.file)
        last = self.step.now if self.step else None
        if report is None or (last and (report.data == last.data or report.written == last.written)):
            return False
        self.step = step_of(last, report, self.process.seconds_alive())
        if self.save:
            (self.save / f"{report.written:017.6f}.json").write_bytes(self.file.read_bytes())
        return True

    def wait_for_first(self) -> None:
        until = time.monotonic() + FIRST_REPORT_S
        while not self.look():
            if not self.process.alive():
                raise Trouble(f"process {self.process.pid} has ended")
            if time.monotonic() > until:
                raise Trouble(
                    f"process {self.process.pid} reports to {self.file}, but has not written it. It does so "
                    "only at exit unless HAKMEM_REPORT_EVERY is set, as by `hakmem run --live -- program`"
                )
            time.sleep(LOOK_S)

    def frame(self, console: Console, spare: int = 0) -> RenderableType:
        """spare: lines of the screen to leave free."""
        decisions = explain.tail(self.log, DECISIONS) if self.log else []
        height = console.height - spare if console.is_terminal else PIPE_HEIGHT
        return frame(self.title, self.step, decisions, console.width, height) if self.step else ""


@contextmanager
def keys() -> Iterator[bool]:
    """Delivers keys without waiting for a newline. Yields False without a terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def quit_requested(terminal: bool) -> bool:
    if not terminal:
        time.sleep(LOOK_S)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], LOOK_S)
    return bool(ready) and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"")


def top(pid: int, once: bool, save: Path | None, console: Console) -> None:
    if save:
        save.mkdir(parents=True, exist_ok=True)
    watch = Monitor(process.find(pid), save)
    watch.wait_for_first()
    if once:
        console.print(watch.frame(console))
        return
    follow(watch, console)
    if console.is_terminal:  # the view had a screen of its own, which is gone
        console.print(watch.frame(console, spare=SHELL_LINES))
    if not watch.process.alive():
        console.print(f"process {pid} has ended")


def follow(watch: Monitor, console: Console) -> None:
    """Until the process ends or the user quits, by a key or Ctrl-C."""
    size = console.size
    with (
        suppress(KeyboardInterrupt),
        keys() as terminal,
        Live(watch.frame(console), console=console, screen=console.is_terminal, auto_refresh=False) as shown,
    ):
        while not quit_requested(terminal) and watch.process.alive():
            if watch.look() or console.size != size:
                size = console.size
                shown.update(watch.frame(console), refresh=True)
