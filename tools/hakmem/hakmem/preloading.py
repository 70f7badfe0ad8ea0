"""hakmem.preload(): starts the running Python again, on HAKMEM."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Optional, Union

from hakmem import run
from hakmem.library import VARIABLE as LIBRARY_VARIABLE
from hakmem.options import checked
from hakmem.trouble import Trouble

# preload() sets this variable for the Python that it starts. If the preload has no effect, that Python must not start itself again forever.
MARK = "_HAKMEM_PRELOADED"  # does not begin with HAKMEM_, because the library would take it for an option


def runs_on_hakmem() -> bool:
    return hasattr(ctypes.CDLL(None), "hak_malloc")


def preload(*, report: Optional[str] = None, hardened: bool = False, guard: bool = False, **settings: Union[str, int]) -> None:
    """Starts this Python again with the same arguments and environment, and with HAKMEM preloaded. Returns at once if it already runs on HAKMEM.
    A program should call it first, because everything before the call is done again. `settings` are any options (docs/OPTIONS.md), which
    are checked."""
    marked = os.environ.pop(MARK, None) == str(os.getpid())
    if runs_on_hakmem():
        return
    if marked:
        raise Trouble("this Python was started again with HAKMEM preloaded, and does not run on it: `hakmem doctor` says why")
    environment = run.environment_for(run.Request(checked(settings), report, False, hardened, guard))
    command = own_command()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    kept = {name: os.environ[name] for name in (LIBRARY_VARIABLE,) if name in os.environ}
    os.execve(command[0], command[1:], environment | kept | {MARK: str(os.getpid())})


def own_command() -> list[str]:
    """Returns the file to execute, and all its arguments. They include those of the interpreter (-m, -c, -X), which sys.argv does not have."""
    if not sys.argv or sys.argv[0] in ("", "-"):
        raise Trouble("a program that Python reads from standard input cannot be started again: use `hakmem run`")
    words = getattr(sys, "orig_argv", None) or words_of_the_kernel()
    if not words or not sys.executable or not Path(sys.executable).is_file():
        raise Trouble("this program is not started by a Python interpreter that can be executed again: use `hakmem run`")
    # argv[0] is the path of the interpreter, because a Python in a virtual environment finds its libraries by it.
    return [sys.executable, sys.executable, *words[1:]]


def words_of_the_kernel() -> list[str]:
    """Returns the arguments from the kernel, because Python 3.9 has no sys.orig_argv."""
    try:
        return [os.fsdecode(word) for word in Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]]
    except OSError:
        return []
