"""Shows progress and one line per program, with rich if it is installed, and otherwise in plain lines."""

import sys
import threading
import time

try:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError:
    Console = None

PLAIN_INTERVAL = 15.0
COLOURS = {"same": "green", "flaky": "yellow", "skipped": "yellow"}


class PlainProgress:
    """Prints a line when a program starts, and sometimes one while it runs."""

    def __init__(self):
        self.lock = threading.Lock()
        self.runs = {}  # {program: [ended runs, all runs]}
        self.last = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def begin(self, name, total, words=""):
        self.runs[name] = [0, total]
        self.last = time.monotonic()
        self.say(f"{name}{words}: {total} runs")

    def end(self, name):
        self.runs.pop(name, None)

    def step(self, name, side):
        with self.lock:
            self.runs[name][0] += 1
            if time.monotonic() - self.last > PLAIN_INTERVAL:
                self.last = time.monotonic()
                self.say(f"{name}: {self.runs[name][0]} of {self.runs[name][1]} ({side})")

    def say(self, words):
        print(f"  .. {words}", flush=True)

    def line(self, words, colour):
        del colour
        print(words, flush=True)


class RichProgress:
    """Shows a bar for each program that runs."""

    def __init__(self):
        self.console = Console(highlight=False)
        self.bar = Progress(TextColumn("{task.description:30}"), BarColumn(), MofNCompleteColumn(),
                            TimeElapsedColumn(), console=self.console, transient=True)
        self.tasks = {}

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()
        return False

    def begin(self, name, total, words=""):
        self.end(name)
        self.tasks[name] = self.bar.add_task(f"{name}{words}", total=total)

    def end(self, name):
        if name in self.tasks:
            self.bar.remove_task(self.tasks.pop(name))

    def step(self, name, side):
        del side
        self.bar.advance(self.tasks[name])

    def say(self, words):
        self.console.print(f"  .. {words}", style="dim", markup=False)

    def line(self, words, colour):
        self.console.print(words, style=colour, markup=False, soft_wrap=True)


def progress():
    return RichProgress() if Console and sys.stdout.isatty() else PlainProgress()


def show_verdict(out, verdict):
    """Prints one line per program, then one per difference."""
    seconds = verdict.seconds
    if verdict.status == "skipped":
        words = f"{verdict.name:12} skipped: {verdict.note}"
    else:
        served = f"served {verdict.served:,} calls in {verdict.reported}/{verdict.processes} processes"
        words = (f"{verdict.name:12} {verdict.checks:7,} checks  {verdict.status:9} {len(verdict.differences)} differ"
                 f"  {served}  {seconds.get('glibc', 0):.0f} s / {seconds.get('preloaded', 0):.0f} s {verdict.note}")
    out.line(words.rstrip(), COLOURS.get(verdict.status, "red"))
    for difference in verdict.differences[:12]:
        out.line(f"    {difference.line()}", "red" if difference.fault else "yellow")
        for said in difference.words[:1]:
            out.line(f"      {said}", "red")
    if len(verdict.differences) > 12:
        out.line(f"    and {len(verdict.differences) - 12} more, see the summary", "red")
    if verdict.logs:
        out.line(f"    outputs: {verdict.logs}", "yellow")
