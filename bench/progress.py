"""Live progress on standard error: a bar on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from types import TracebackType

try:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    HAVE_RICH = True
except ImportError:
    HAVE_RICH = False

PLAIN_INTERVAL_S = 5.0


class Bar:
    """Counts measured runs; step() says which one begins."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._last = total, 0, float("-inf")
        self._rich = None
        if HAVE_RICH and sys.stderr.isatty():
            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            text = TextColumn("{task.description}")
            self._rich = Progress(*columns, text, console=Console(stderr=True))
            self._task = self._rich.add_task("", total=total)

    def __enter__(self) -> Bar:
        if self._rich:
            self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich:
            self._rich.stop()

    def step(self, what: str) -> None:
        if self._rich:
            self._rich.update(self._task, description=what)
        elif time.monotonic() - self._last >= PLAIN_INTERVAL_S:
            self._last = time.monotonic()
            print(f"bench: {self._done}/{self._total} {what}", file=sys.stderr, flush=True)

    def advance(self) -> None:
        self._done += 1
        if self._rich:
            self._rich.advance(self._task)

    def note(self, text: str) -> None:
        if self._rich:
            self._rich.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
