"""Controls the load on the machine: keeps all processors busy, as other programs would, and removes scratch folders that are left."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from .side import Side

# Ends when its parent process changes, because then the harness has ended, even if it was killed.
LOOP = 'while read -r _ _ _ parent _ < /proc/$$/stat && [ "$parent" = "$1" ]; do :; done'


@contextmanager
def busy(processes=None):
    files = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    loops = [subprocess.Popen(["sh", "-c", LOOP, "sh", str(os.getpid())], start_new_session=True, **files) for _ in range(processes or os.cpu_count())]
    Side.live.update({loop.pid: loop for loop in loops})
    try:
        yield loops
    finally:
        for loop in loops:
            Side.kill_session(loop)
            loop.wait()
            Side.live.pop(loop.pid, None)


SCRATCH = "hakmem-programs"


def scratch_folder():
    """Makes a new folder, named after this process."""
    return tempfile.mkdtemp(prefix=f"{SCRATCH}-{os.getpid()}-")


def sweep():
    """Removes scratch folders of harness processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}-*-*"):
        if not Path("/proc", folder.name.removeprefix(f"{SCRATCH}-").partition("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)
