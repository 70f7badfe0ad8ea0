"""Live progress on standard error: a bar on a terminal, else plain lines."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Hashable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

PLAIN_INTERVAL_S = 5.0


class Forecast:
    """How long the runs still to come will take, each as long as its like."""

    def __init__(self, planned: list[Hashable]) -> None:
        self._planned, self._done = planned, 0
        self._seconds: dict[Hashable, float] = {}

    def took(self, seconds: float) -> None:
        self._seconds[self._planned[self._done]] = seconds
        self._done += 1

    @property
    def done(self) -> int:
        return self._done

    def seconds_left(self) -> float | None:
        if not self._seconds:
            return None
        usual = statistics.mean(self._seconds.values())
        return sum(self._seconds.get(run, usual) for run in self._planned[self._done :])


class Bar:
    """Counts measured runs; step() says which one begins. It draws between the
    runs only: nothing of the harness runs beside what is measured."""

    def __init__(self, planned: list[Hashable], deadline: float | None = None) -> None:
        self._forecast, self._deadline = Forecast(planned), deadline
        self._total, self._last = len(planned), float("-inf")
        self._began = time.monotonic()
        self._rich = None
        if sys.stderr.isatty():
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._rich = Progress(*columns, console=Console(stderr=True), auto_refresh=False)
            self._task = self._rich.add_task("", total=self._total)

    def __enter__(self) -> Bar:
        if self._rich:
            self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich:
            self._rich.stop()

    def step(self, what: str) -> None:
        self._began = time.monotonic()
        if self._rich:
            self._rich.update(self._task, description=f"{self.left()}  {what}")
            self._rich.refresh()
        elif self._began - self._last >= PLAIN_INTERVAL_S:
            self._last = self._began
            done = f"{self._forecast.done}/{self._total}"
            print(f"bench: {done}, {self.left()}: {what}", file=sys.stderr, flush=True)

    def left(self) -> str:
        seconds = self._forecast.seconds_left()
        if seconds is None:
            return "time left unknown"
        if self._deadline is not None:
            seconds = min(seconds, max(0.0, self._deadline - self._began))
        return f"{int(seconds) // 60}:{int(seconds) % 60:02} left"

    def advance(self) -> None:
        self._forecast.took(time.monotonic() - self._began)
        if self._rich:
            self._rich.advance(self._task)

    def note(self, text: str) -> None:
        if self._rich:
            self._rich.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
