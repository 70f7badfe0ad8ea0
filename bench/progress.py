"""Live progress on standard error: a bar on a terminal, else plain lines."""
import math
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

PLAIN_INTERVAL_S = 5.0


class Bar:
    """Counts measured runs; step() says which one begins, and that the one before has
    ended. It draws between the runs only: nothing of the harness runs beside what is measured."""

    def __init__(self, total: int, deadline: float | None = None) -> None:
        self._console, self._deadline, self._last = Console(stderr=True), deadline, -math.inf
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=self._console, auto_refresh=False, speed_estimate_period=math.inf)
        self._progress.add_task("", total=total)
        (self._runs,) = self._progress.tasks
        self._begun = False

    def __enter__(self) -> "Bar":
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.advance(self._runs.id, self._begun)
            self._progress.stop()

    def step(self, what: str) -> None:
        now = time.monotonic()
        self._progress.advance(self._runs.id, self._begun)
        self._begun = True
        if self._console.is_terminal:
            self._progress.update(self._runs.id, description=f"{self.left(now)}  {what}", refresh=True)
        elif now - self._last >= PLAIN_INTERVAL_S:
            self._last = now
            self.note(f"bench: {self._runs.completed}/{self._runs.total}, {self.left(now)}: {what}")

    def left(self, now: float) -> str:
        seconds = self._runs.time_remaining
        if seconds is None:
            return "time left unknown"
        if self._deadline is not None:
            seconds = min(seconds, max(0.0, self._deadline - now))
        return f"{int(seconds) // 60}:{int(seconds) % 60:02} left"

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
