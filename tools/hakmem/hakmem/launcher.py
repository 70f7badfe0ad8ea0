"""Starts programs for `hakmem tune` and `hakmem replay`, and measures their resources. Runs in its own minimal interpreter:

    python3 -I -S launcher.py        reads one JSON request per line, and writes one JSON reply per line

The peak RSS of a process begins with the pages copied from its parent, and survives exec. So a direct child of a Python interpreter would
begin with the peak RSS of the interpreter. Therefore a small shell forks the program and exits. This process is the subreaper of its
descendants, so it inherits the program, and its wait4 measures only the program. It uses only the standard library.
"""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PAGE = mmap.PAGESIZE
# The program waits at a gate until the shell has exited, because a running shell might reap it before this process does.
STARTER = 'exec 3>&1 >"$0"; { read go <&4; exec env "$@" 4<&-; } 3>&- & echo $! >&3'


class Late(Exception):
    pass


def prepare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGALRM, raising(Late()))
    signal.signal(signal.SIGTERM, raising(SystemExit(0)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def raising(error: BaseException):
    def handle(*_) -> None:
        raise error

    return handle


def available_bytes() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def warm(size: int) -> None:
    """Touches memory before the measurement, because in a virtual machine, the first touch of memory that was free for a long time is slow."""
    size = min(size, available_bytes() // 2) // PAGE * PAGE
    if size <= 0:
        return
    child = os.fork()
    if child == 0:
        try:
            memory = mmap.mmap(-1, size)
            memory.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, size, PAGE):
                memory[at] = 1
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def start(request: dict) -> tuple:
    """Returns the shell's process group, the program's process id, and the descriptor that opens its gate."""
    reading, writing = os.pipe()
    gate, opener = os.pipe()
    settings = [f"{name}={value}" for name, value in request["set"].items()]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, gate, 4),
        (os.POSIX_SPAWN_OPEN, 2, request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    shell = os.posix_spawn(
        "/bin/sh", ["sh", "-c", STARTER, request["output"], *settings, *request["command"]], dict(os.environ), file_actions=actions, setsid=True
    )
    os.close(writing)
    os.close(gate)
    with os.fdopen(reading) as said:
        program = said.read().strip()
    os.waitpid(shell, 0)
    return shell, int(program), opener


def children() -> list:
    """Returns the children of this process. They include daemons of the program, which have left its group."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def end_group(group: int) -> None:
    """Kills the group and reaps all descendants."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children():
                with contextlib.suppress(PermissionError):  # a program with more privileges is waited for
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def measure(request: dict) -> dict:
    warm(request["warm_bytes"])
    group, program, opener = start(request)
    signal.setitimer(signal.ITIMER_REAL, request["timeout"])
    try:
        began = time.monotonic()
        os.write(opener, b"\n")
        _, status, use = os.wait4(program, 0)
        wall = time.monotonic() - began
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Late:
        return {"late": True}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.close(opener)
        end_group(group)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "wall_s": wall,
        "cpu_s": use.ru_utime + use.ru_stime,
        "user_s": use.ru_utime,
        "system_s": use.ru_stime,
        "rss_bytes": use.ru_maxrss * 1024,
        "faults": use.ru_minflt + use.ru_majflt,
    }


def main() -> None:
    prepare()
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
