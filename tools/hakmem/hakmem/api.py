"""Has the functions for Python programs, which `import hakmem` provides. On failure, they raise Trouble with a message."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path
from typing import Optional, Union

from hakmem import difference, options, process, reports, run
from hakmem.difference import Difference, Part, Term
from hakmem.library import VARIABLE as LIBRARY_VARIABLE
from hakmem.reports import Report
from hakmem.trouble import Trouble

__all__ = ["Difference", "Part", "Report", "Source", "Term", "Trouble", "diff", "environment", "preload", "report", "series"]

# A JSON report, a folder of reports, or the id of a running process that writes them.
Named = Union[str, "os.PathLike[str]"]
Source = Union[Named, int]


def report(source: Optional[Source] = None) -> Report:
    """Returns the report in a file, or the last report of a folder or of a running process. Without a source, makes a report of this process."""
    if source is None:
        return report_of_this_process()
    return series(source)[-1]


def series(*sources: Source) -> list[Report]:
    """Returns the reports of one process in the order of time. A source is a file or a folder of files."""
    return reports.read_all(map(path_of, sources))


def diff(a: Source, b: Source, *, symbols_a: Optional[Named] = None, symbols_b: Optional[Named] = None) -> Difference:
    """Returns the difference of RSS between two reports, split into terms that add up to it, or that of live bytes between two heap profiles.
    symbols_a and symbols_b are folders with the files that A and B ran, and are needed if these files have been replaced."""
    return difference.between(*(difference.load(path_of(one), Path(folder) if folder else None) for one, folder in ((a, symbols_a), (b, symbols_b))))


def environment(
    *, report: Optional[str] = None, live: bool = False, hardened: bool = False, guard: bool = False, **settings: Union[str, int]
) -> dict[str, str]:
    """Returns a copy of this process's environment in which a program runs on HAKMEM, for example for subprocess. `settings` are any options
    (docs/OPTIONS.md), which are checked. If `live`, the program writes a report each second, for report(PID) and `hakmem top`."""
    return run.environment_for(run.Request(options.checked(settings), report, live, hardened, guard))


def path_of(source: Source) -> Path:
    return process.report_of(process.find(source)) if isinstance(source, int) else Path(source)


def report_of_this_process() -> Report:
    """Returns a new report of this process, which it lets the loaded library write."""
    try:
        write = ctypes.CDLL(None).hak_report
    except AttributeError:
        raise Trouble("this process does not run on HAKMEM: start it by `hakmem run`") from None
    write.argtypes, write.restype = [ctypes.c_char_p], ctypes.c_int
    with tempfile.TemporaryDirectory(prefix="hakmem-") as folder:
        path = Path(folder) / "report.json"
        if write(os.fsencode(path)) != 0:
            raise Trouble(f"HAKMEM could not write its report to {path}")
        found = reports.read(path)
    if found is None:
        raise Trouble("HAKMEM's report of this process cannot be read")
    return found


# preload() sets this variable for the Python that it starts. If the preload has no effect, that Python must not start itself again forever.
MARK = "_HAKMEM_PRELOADED"  # does not begin with HAKMEM_, because the library would take it for an option


def preload(*, report: Optional[str] = None, hardened: bool = False, guard: bool = False, **settings: Union[str, int]) -> None:
    """Starts this Python again with the same arguments and environment, and with HAKMEM preloaded. Returns at once if it already runs on HAKMEM.
    A program should call it first, because everything before the call is done again. `settings` are any options (docs/OPTIONS.md), which
    are checked."""
    marked = os.environ.pop(MARK, None) == str(os.getpid())
    if hasattr(ctypes.CDLL(None), "hak_malloc"):
        return
    if marked:
        raise Trouble("this Python was started again with HAKMEM preloaded, and does not run on it: `hakmem doctor` says why")
    environment = run.environment_for(run.Request(options.checked(settings), report, False, hardened, guard))
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
