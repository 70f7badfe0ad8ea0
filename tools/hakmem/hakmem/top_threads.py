"""Reads the names, states and CPU times of the threads of a process from /proc."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
