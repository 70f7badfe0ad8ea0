"""hakmem top: shows a live view of one process on HAKMEM."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, Optional

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hakmem import explain, process, reports, top_tables
from hakmem.explain import Decision
from hakmem.figures import bytes_text, count_text, percent_text, short_text, time_text
from hakmem.top_flame import Flame
from hakmem.options import suggestion
from hakmem.process import Process
from hakmem.reports import Report, class_hit_rate, hit_rate
from hakmem.tables import BAR, class_table, decision_table, parts_table, parts_title, plain_table, policy_table
from hakmem.top_tables import Thread, ThreadRow
from hakmem.trouble import USAGE, Trouble

DECISIONS = 6
LOOK_S = 0.2
FIRST_REPORT_S = 5.0
WIDE = 156
TALL = 36  # lines of a screen that has room for titles, rules and blank lines
HEAD = 1
FOOT = 1
WIDE_FOOT = 64
LEAST_ROWS = 2  # least rows of the table; if there is no room for them and one decision, the smallest parts are summed
TITLED = 4  # lines of a blank, a title, headings and a rule
RATE = 9  # columns of a rate
RATES_WIDTH = 8 * (RATE + 1) - 1
GRID_GAP = 2
SHELL_LINES = 2  # for "process ... has ended" and the shell's prompt
LEAST_BAR = 6
PARTS_AND_POLICY = 58  # columns of the parts without bars, the policy, and the gaps
PIPE_HEIGHT = 50

# The columns to sort by, in each table. Columns that are not in ASCENDING begin with the largest value.
SORTS = {
    "classes": ("allocs/s", "class", "hits", "live", "in bins", "in slabs"),
    "threads": ("cpu", "thread", "name", "state", "cpu time", "allocs/s", "cached"),
    "heaps": top_tables.SORTS,
}
ASCENDING = ("class", "hits", "thread", "name", "state", "heap")
HELP = (
    ("q", "quit; the last frame stays on the terminal"),
    ("< >", "sort by the column to the left, to the right (arrow keys too)"),
    ("r", "reverse the order"),
    ("t", "threads, heaps of the program's own if it has some, or size classes"),
    ("f", "flame graph of now, to a file: hakmem profile PID"),
    ("h ?", "this help"),
)

Figure = Callable[[Report], Optional[float]]
MALLOCS, FREES = methodcaller("number", "served", "malloc"), methodcaller("number", "served", "free")
REMOTE_FREES, PURGED = methodcaller("number", "counters", "remote_frees"), methodcaller("number", "counters", "purged_bytes")
MISSES = attrgetter("misses")


@dataclass(frozen=True)
class Step:
    """The interval between two reports. If there is only one report, it begins at the start of the program."""

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
        return hit_rate(self.grown(MALLOCS), self.grown(MISSES))

    def class_rates(self) -> list[tuple[dict, float]]:
        """Returns the classes with their allocations per second, the busiest first."""
        before = {row.get("size"): row.get("served") or 0 for row in self.before.classes} if self.before else {}
        grown = [(row, max(0, (row.get("served") or 0) - before.get(row.get("size"), 0))) for row in self.now.classes]
        rated = [(row, count / self.seconds if self.seconds > 0 else 0.0) for row, count in grown]
        return sorted(rated, key=lambda pair: (-pair[1], -(pair[0].get("served") or 0)))


@dataclass
class View:
    """What the user has chosen with keys. `note` is shown in place of the list of keys until the next key is pressed."""

    table: str = "classes"
    column: int = 0
    reversed: bool = False
    help: bool = False
    note: str = ""

    @property
    def sort(self) -> str:
        return SORTS[self.table][self.column]

    @property
    def descending(self) -> bool:
        return (self.sort not in ASCENDING) != self.reversed

    def move(self, by: int) -> None:
        self.column = (self.column + by) % len(SORTS[self.table])
        self.reversed = False

    def next_table(self, heaps: bool = False) -> str:
        after = {"classes": "threads", "threads": "heaps" if heaps else "classes"}
        return after.get(self.table, "classes")

    def swap(self, heaps: bool = False) -> None:
        self.table = self.next_table(heaps)
        self.column, self.reversed = 0, False

    def marked(self, name: str) -> str:
        return f"{name}{'▾' if self.descending else '▴'}" if name == self.sort else name


def view_of(sort: str | None, threads: bool, heaps: bool = False) -> View:
    if threads and heaps:
        raise Trouble("--threads or --heaps: the view begins with one table", USAGE)
    view = View("heaps" if heaps else "threads" if threads else "classes")
    if sort is not None:
        known, sort = SORTS[view.table], sort.replace("-", " ")
        if sort not in known:
            raise Trouble(f"--sort {sort}: one of {', '.join(known)}{suggestion(sort, known)}", USAGE)
        view.column = known.index(sort)
    return view


def step_of(before: Report | None, now: Report, alive_s: float) -> Step:
    if before is None:
        return Step(None, now, now.seconds if now.seconds is not None else alive_s)
    if now.seconds is not None and before.seconds is not None:
        return Step(before, now, now.seconds - before.seconds)
    return Step(before, now, now.written - before.written)


def rates_table(step: Step, width: int) -> Group:
    """Returns the table of rates, which has two rows on a narrow screen."""
    now = step.now
    cells = {
        "allocs/s": short_text(step.rate(MALLOCS)),
        "frees/s": short_text(step.rate(FREES)),
        "hits": percent_text(step.hit_rate()),
        "misses/s": short_text(step.rate(MISSES)),
        "remote/s": short_text(step.rate(REMOTE_FREES)),
        "purged/s": bytes_text(step.rate(PURGED)),
        "RSS": bytes_text(now.resident),
        "threads": count_text(now.number("threads")),
    }
    per_row = len(cells) if width >= RATES_WIDTH else len(cells) // 2
    tables = []
    for at in range(0, len(cells), per_row):
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        for name in list(cells)[at : at + per_row]:
            table.add_column(name, justify="right", min_width=RATE, no_wrap=True)
        table.add_row(*list(cells.values())[at : at + per_row], style="bold")
        tables.append(table)
    return Group(*tables)


def frame(
    title: str, step: Step, decisions: list[Decision], width: int, height: int,
    view: View | None = None, threads: Sequence[ThreadRow] = (), keys_shown: bool = False,
) -> RenderableType:
    """Returns the whole view, with as many rows and decisions as fit. On a wide terminal, the table is beside the parts. On a low or narrow terminal,
    there are no titles, rules and blank lines. On a very low one, the smallest parts are shown as one sum."""
    view = view or View()
    height -= FOOT if keys_shown else 0
    dense = height < TALL or width < RATES_WIDTH
    wide = width >= WIDE and not dense
    rates = rates_table(step, width)
    room_for_bar = min(BAR, width - PARTS_AND_POLICY)
    bar_width = room_for_bar if room_for_bar >= LEAST_BAR else 0
    left = height - HEAD - 2 * len(rates.renderables) - (0 if dense else 2)
    left -= (1 if wide else 2) * (1 if dense else TITLED)
    policy = policy_table(step.now, dense, left - 1 - LEAST_ROWS if dense else None)
    parts = parts_table(step.now, "" if dense else parts_title(step.now, "is"), bar_width, most=left - 1 - LEAST_ROWS if dense else None)
    side = max(parts.row_count, policy.row_count) if dense else max(parts.row_count + 1, policy.row_count + 3)
    left -= side
    decisions = explain.latest(decisions, max(1, left if wide else left // 2))
    rows = max(1, side - TITLED + 1 if wide else left - max(1, len(decisions)))
    if view.table == "threads":
        table = thread_table(threads_of(step, threads), view, rows, dense, narrow=width < RATES_WIDTH)
    elif view.table == "heaps":
        room = width - PARTS_AND_POLICY - bar_width - 2 * GRID_GAP if wide else width
        table = top_tables.heap_table(step.now.rows("heaps"), view.sort, view.descending, rows, dense, room, view.marked)
    else:
        rated = sorted_classes(step, view)[:rows]
        rates_text = [short_text(rate) for _, rate in rated]
        table = class_table([row for row, _ in rated], rates_text, dense, tiers=width >= RATES_WIDTH, heading=view.marked)
    grid = Table.grid(padding=(0, GRID_GAP))
    grid.add_row(parts, policy, *([table] if wide else []))
    blocks = [head_line(title, step), rates, grid, *([] if wide else [table])]
    blocks.append(decision_table(decisions, width=width, dense=dense))
    shown = blocks if dense else [part for block in blocks for part in (block, "")][:-1]
    return Group(*shown, *([foot_line(view, width, bool(step.now.rows("heaps")))] if keys_shown else []))


def head_line(title: str, step: Step) -> Text:
    title = "".join(letter if letter.isprintable() else " " for letter in title)  # a command may contain newlines
    since = f"rates over {time_text(step.seconds)}  " if step.before else "rates since its start  "
    return Text.assemble(("hakmem top  ", "bold cyan"), (since, "dim"), title, no_wrap=True, overflow="ellipsis")


def foot_line(view: View, width: int, heaps: bool = False) -> Text:
    if view.note:
        return Text(view.note, style="reverse", no_wrap=True, overflow="ellipsis")
    other = view.next_table(heaps)
    words = [("q", "quit"), ("<>", f"sort: {view.sort}"), ("r", "reverse"), ("t", other), ("f", "flame"), ("h", "help")]
    gap = "  " if width >= WIDE_FOOT else " "
    return Text(gap).join(Text.assemble((key, "reverse"), f" {word}") for key, word in words)


def help_frame(title: str, step: Step) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=max(len(key) for key, _ in HELP))
    for key, meaning in HELP:
        table.add_row(Text(key, style="bold"), meaning)
    return Group(head_line(title, step), "", table, "", Text("any key goes back", style="dim"))


def sorted_classes(step: Step, view: View) -> list[tuple[dict, float]]:
    rated = step.class_rates()
    if view.sort == "allocs/s":
        return rated if view.descending else rated[::-1]
    field = {"class": "size", "in bins": "in_bins", "in slabs": "free_in_slabs"}.get(view.sort, view.sort)
    of = class_hit_rate if view.sort == "hits" else lambda row: row.get(field)
    return sorted(rated, key=lambda pair: of(pair[0]) or 0, reverse=view.descending)


def threads_of(step: Step, threads: Sequence[ThreadRow]) -> list[ThreadRow]:
    """Returns the threads, with what the report says about them. The report has only the 64 threads that hold the most memory."""
    now, before = ({row.get("thread"): row for row in report.rows("thread_lines")} if report else {} for report in (step.now, step.before))
    return [replace(row, **held(now.get(row.thread.number), before.get(row.thread.number), step.seconds)) for row in threads]


def held(now: dict | None, before: dict | None, seconds: float) -> dict[str, float | None]:
    if not now:
        return {}
    grown = (now.get("allocations") or 0) - (before.get("allocations") or 0) if before else None
    rate = max(0, grown) / seconds if grown is not None and seconds > 0 else None
    return {"rate": rate, "cached": (now.get("bins") or 0) + (now.get("depots") or 0)}


# For each column, the function that returns its value, and the function that formats the value.
THREADS: dict[str, tuple[Callable[[ThreadRow], Any], Callable[[Any], str]]] = {
    "name": (lambda row: row.thread.name, str),
    "thread": (lambda row: row.thread.number, str),
    "state": (lambda row: row.thread.state, str),
    "cpu": (lambda row: row.share, lambda share: percent_text(share, 1)),
    "cpu time": (lambda row: row.thread.cpu_s, time_text),
    "allocs/s": (lambda row: row.rate, short_text),
    "cached": (lambda row: row.cached, bytes_text),
}


def thread_table(threads: Sequence[ThreadRow], view: View, rows: int, dense: bool, narrow: bool = False) -> Table:
    left_out = ("state" if view.sort == "cpu time" else "cpu time") if narrow else ""
    columns = [name for name in THREADS if name != left_out]
    by_number = sorted(threads, key=lambda row: row.thread.number)
    value = THREADS[view.sort][0]
    shown = sorted(by_number, key=lambda row: 0 if value(row) is None else value(row), reverse=view.descending)[:rows]
    cells = [[Text(text(of(row))) for of, text in (THREADS[name] for name in columns)] for row in shown]
    heads = map(view.marked, columns)
    return plain_table(f"Threads ({len(threads)})", *heads, rows=cells or [["-"] * len(columns)], dense=dense)


class Monitor:
    """Has the latest complete report of a process, and makes the frame that shows it."""

    def __init__(self, watched: Process, save: Path | None = None) -> None:
        self.process, self.save = watched, save
        self.file, self.log = process.report_of(watched), process.explain_of(watched)
        self.title = f"process {watched.pid}  {watched.name()}"
        self.step: Step | None = None
        self.view = View()
        self.threads: list[ThreadRow] = []
        self.threads_before: dict[int, Thread] = {}
        self.looked_at = 0.0

    def look(self) -> bool:
        """Reads the report. Returns True if it is new."""
        report = reports.read(self.file)
        last = self.step.now if self.step else None
        if report is None or (last and (report.data == last.data or report.written == last.written)):
            return False
        self.step = step_of(last, report, self.process.seconds_alive())
        threads, at = top_tables.read(self.process.pid), time.monotonic()
        self.threads = list(top_tables.rows(self.threads_before, threads, at - self.looked_at, time.clock_gettime(time.CLOCK_BOOTTIME)))
        self.threads_before, self.looked_at = threads, at
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

    def frame(self, console: Console, spare: int = 0, keys_shown: bool = False) -> RenderableType:
        """Returns the frame to show, which leaves `spare` lines of the screen free."""
        if not self.step:
            return ""
        if self.view.help and keys_shown:
            return help_frame(self.title, self.step)
        decisions = explain.tail(self.log, DECISIONS) if self.log else []
        height = console.height - spare if console.is_terminal else PIPE_HEIGHT
        return frame(self.title, self.step, decisions, console.width, height, self.view, self.threads, keys_shown)


@contextmanager
def keys() -> Iterator[bool]:
    """Makes the terminal deliver keys without waiting for a newline. Yields False if there is no terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def pressed(terminal: bool) -> list[str]:
    """Waits a moment for keys, and returns those that were pressed. Returns q at the end of the input."""
    if not terminal:
        time.sleep(LOOK_S)
        return []
    ready, _, _ = select.select([sys.stdin], [], [], LOOK_S)
    if not ready:
        return []
    text = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
    return list(text.replace("\x1b[D", "<").replace("\x1b[C", ">")) or ["q"]


def obey(key: str, watch: Monitor, flame: Flame) -> bool:
    """Does what the key asks for. Returns False if the key ends the view."""
    view = watch.view
    view.note = ""
    if view.help:
        view.help = False
        return key not in "qQ"
    if key in "<>":
        view.move(1 if key == ">" else -1)
    elif key in "rR":
        view.reversed = not view.reversed
    elif key in "tT":
        view.swap(watch.step is not None and bool(watch.step.now.rows("heaps")))
    elif key in "fF":
        flame.begin()
        view.note = flame.note
    elif key in "hH?":
        view.help = True
    return key not in "qQ"


def show_processes(console: Console) -> None:
    """Prints the processes that HAKMEM serves, those with the most memory first."""
    found = []
    for each in process.served_processes():
        with suppress(OSError):
            found.append((each.memory(), each, each.name()))
    rows = [
        (str(each.pid), bytes_text(pss), bytes_text(rss), "yes" if has_report(each) else "no", name)
        for (rss, pss), each, name in sorted(found, key=lambda row: -row[0][1])
    ]
    if not rows:
        raise Trouble("HAKMEM serves no process whose memory maps can be read. Start one with `hakmem run --live -- program`")
    table = plain_table("Processes on HAKMEM", "pid", "pss", "rss", "live", "program", rows=rows, words=0)
    for column in table.columns[:-1]:
        column.min_width = RATE
    table.columns[-1].justify = "left"
    console.print(table)


def has_report(each: process.Process) -> bool:
    try:
        return process.report_of(each).exists()
    except (Trouble, OSError):
        return False


def top(pid: int, once: bool, save: Path | None, console: Console, view: View | None = None) -> None:
    if save:
        save.mkdir(parents=True, exist_ok=True)
    watch = Monitor(process.find(pid), save)
    watch.view = view or View()
    watch.wait_for_first()
    if once:
        console.print(watch.frame(console))
        return
    flame = Flame(pid, Path.cwd())
    try:
        follow(watch, console, flame)
    finally:
        flame.end()
    if console.is_terminal:  # prints the last frame again, because the view was on an alternate screen
        console.print(watch.frame(console, spare=SHELL_LINES))
    if flame.note:
        console.print(flame.note)
    if not watch.process.alive():
        console.print(f"process {pid} has ended")


def follow(watch: Monitor, console: Console, flame: Flame) -> None:
    """Shows the view until the process ends or the user quits, by a key or Ctrl-C."""
    size = console.size
    with (
        suppress(KeyboardInterrupt),
        keys() as terminal,
        Live(watch.frame(console, keys_shown=terminal), console=console, screen=console.is_terminal, auto_refresh=False) as shown,
    ):
        while watch.process.alive():
            typed = pressed(terminal)
            if not all([obey(key, watch, flame) for key in typed]):
                return
            ended = flame.look()
            if ended:
                watch.view.note = flame.note
            if watch.look() or typed or ended or console.size != size:
                size = console.size
                shown.update(watch.frame(console, keys_shown=terminal), refresh=True)
