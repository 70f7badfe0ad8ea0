"""Makes the flame graph of `hakmem top`: runs `hakmem profile PID` in the background, while the view continues."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SECONDS = 5
MOST_NOTE = 200


def command(pid: int, page: Path) -> list[str]:
    return [sys.executable, "-m", "hakmem", "profile", str(pid), "--seconds", str(SECONDS), "--output", str(page)]


class Flame:
    """Makes flame graphs of a process, at most one at a time."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self.folder = pid, folder
        self.running: subprocess.Popen[str] | None = None
        self.page = folder
        self.note = ""

    def begin(self) -> None:
        if self.running:
            return
        self.page = self.folder / f"hakmem-{self.pid}-{time.strftime('%H%M%S')}.html"
        self.note = f"flame graph: sampling for {SECONDS} s"
        self.running = subprocess.Popen(
            command(self.pid, self.page), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def look(self) -> bool:
        """Returns True if the flame graph has just been completed or has failed. The note then says which."""
        if not self.running or self.running.poll() is None:
            return False
        said = self.running.communicate()[1]
        done = self.running.returncode == 0 and self.page.exists()
        self.running = None
        self.note = f"flame graph: wrote {self.page}" if done else f"flame graph: {last_line(said)}"
        return True

    def end(self) -> None:
        if self.running:
            self.running.terminate()
            self.running.communicate()
            self.running = None
            self.note = ""


def last_line(said: str) -> str:
    """Returns the last line of a message. A frame of box characters around it is removed."""
    lines = [line.strip(" │╭╰─╮╯") for line in said.splitlines()]
    return next((line for line in reversed(lines) if line), "it failed")[:MOST_NOTE]
