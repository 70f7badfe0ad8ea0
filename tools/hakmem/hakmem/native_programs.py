"""Has the entry points hakmem-run, hakmem-play and hakmem-replay of the wheel. Each one executes a file of native/ in place of Python."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import NoReturn

from hakmem.library import NATIVE


def execute(name: str) -> NoReturn:
    os.execv(NATIVE / name, [name, *sys.argv[1:]])


run, play, replay = (partial(execute, f"hakmem-{name}") for name in ("run", "play", "replay"))
