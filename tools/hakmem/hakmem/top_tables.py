"""Reads the threads of a process from /proc. Makes the table of the program's own heaps in hakmem top."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from hakmem.figures import bytes_text, count_text, cut
from hakmem.tables import plain_table

TICKS_S = os.sysconf("SC_CLK_TCK")
NAME, STATE, USER, SYSTEM, START = 1, 2, 13, 14, 21  # numbers of fields of /proc/PID/task/TID/stat, counted from 0


@dataclass(frozen=True)
class Thread:
    number: int
    name: str
    state: str
    cpu_s: float
    start_s: float  # since the boot


@dataclass(frozen=True)
class ThreadRow:
    thread: Thread
    share: float  # of one CPU
    rate: float | None = None  # allocations per second
    cached: float | None = None  # bytes of free blocks that it holds


def parse(text: str) -> Thread | None:
    """Returns the thread that the line describes. The name in the line may contain spaces and parentheses."""
    number, _, rest = text.partition(" (")
    name, closed, fields = rest.rpartition(") ")
    words = fields.split()
    if not closed or len(words) <= START - STATE:
        return None
    ticks = [int(words[at - STATE]) for at in (USER, SYSTEM, START)]
    return Thread(int(number), name, words[0], (ticks[0] + ticks[1]) / TICKS_S, ticks[2] / TICKS_S)


def read(pid: int) -> dict[int, Thread]:
    found = {}
    for name in glob.iglob(f"/proc/{pid}/task/*/stat"):
        try:
            thread = parse(Path(name).read_text(errors="replace"))
        except OSError:  # the thread has ended
            continue
        if thread:
            found[thread.number] = thread
    return found


def rows(before: dict[int, Thread], now: dict[int, Thread], seconds: float, boot_s: float) -> Iterable[ThreadRow]:
    """Yields the threads with their share of a CPU between the two times, or, for a new thread, since its start."""
    for number, thread in now.items():
        earlier = before.get(number)
        if earlier and earlier.start_s == thread.start_s and seconds > 0:
            yield ThreadRow(thread, max(0.0, thread.cpu_s - earlier.cpu_s) / seconds)
        else:
            yield ThreadRow(thread, thread.cpu_s / max(1 / TICKS_S, boot_s - thread.start_s))


COLUMNS = ("name", "heap", "physical", "limit", "peak", "live", "cached", "blocks", "served", "refused", "resets")
# The order in which columns get room if there is not enough for all. After the name, the column to sort by comes first.
WANTED = ("name", "physical", "limit", "blocks", "refused", "live", "peak", "served", "cached", "resets", "heap")
BYTES = ("physical", "limit", "peak", "live", "cached")
# The columns to sort by. The first one shows best which heap is full.
SORTS = ("physical", "limit", "peak", "live", "cached", "blocks", "served", "refused", "resets", "name", "heap")
FIELDS = {"blocks": "live_blocks"}  # names in the report of columns that have a shorter name
LEAST_NAME = 15  # characters with the gap; a longer name is cut if other columns need the room


def value_of(row: dict[str, Any], column: str) -> Any:
    return row.get(FIELDS.get(column, column))


def text_of(row: dict[str, Any], column: str) -> str:
    value = value_of(row, column)
    if column == "name":
        return "".join(letter if letter.isprintable() else " " for letter in str(value or "-"))
    if value is None or (column == "limit" and value == 0):
        return "-"
    return bytes_text(value) if column in BYTES else str(value) if column == "heap" else count_text(value)


def fitting(widths: dict[str, int], sort: str, room: int) -> tuple[list[str], int]:
    """Returns the columns that fit, and the most characters that the column of names may have."""
    least = {**widths, "name": min(widths["name"], LEAST_NAME)}
    chosen = set()
    for name in dict.fromkeys(("name", sort, *WANTED)):
        if least[name] <= room:
            chosen.add(name)
            room -= least[name]
    return [name for name in COLUMNS if name in chosen], least["name"] + max(0, room)


def heap_table(
    heaps: Sequence[dict[str, Any]], sort: str, descending: bool, rows: int, dense: bool, width: int, heading: Callable[[str], str]
) -> Table:
    """Returns the table of the heaps in the report, which has the 32 largest. `width` is the number of columns of the terminal."""
    by_number = sorted(heaps, key=lambda row: row.get("heap") or 0)
    value: Callable[[dict[str, Any]], Any] = lambda row: value_of(row, sort) or ("" if sort == "name" else 0)
    shown = sorted(by_number, key=value, reverse=descending)[:rows]
    texts = [{name: text_of(row, name) for name in COLUMNS} for row in shown]
    gap = 1 if dense else 3
    widths = {name: gap + max([len(heading(name)), *(len(row[name]) for row in texts)]) for name in COLUMNS}
    columns, room = fitting(widths, sort, width + gap)
    cells = [[Text(cut(row[name], room - gap) if name == "name" else row[name]) for name in columns] for row in texts]
    heads = map(heading, columns)
    return plain_table(f"Heaps of its own ({len(heaps)})", *heads, rows=cells or [["-"] * len(columns)], dense=dense)
