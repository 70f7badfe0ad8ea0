"""Functions that the tests of musl share: they make a root folder like that of a container with musl, and run commands in it."""
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

LOADER = Path("/lib/ld-musl-x86_64.so.1")
LIBRARIES = ("libhakmem.so.0", "libhakmem-hardened.so.0")
CANNOT_RUN = 77
# This folder is beside the files that tests/platform/everywhere fetches.
CACHE = Path(os.environ.get("HAKDEV_EVERYWHERE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakmem/everywhere")


def leave_out(why: str) -> NoReturn:
    print(f"notice: a test on musl was left out: {why}")
    sys.exit(CANNOT_RUN)


def make_root(root: Path, loader: Path, build: Path, tools: str) -> None:
    """Makes a root folder with musl's loader, HAKMEM's libraries, and busybox under the names in `tools`. It has nothing of glibc."""
    busybox = shutil.which("busybox")
    if not busybox or not loader.exists():
        leave_out("no busybox (busybox-static) or no musl (musl-tools)")
    for folder in ("bin", "lib", "usr/lib", "usr/bin", "tmp", "proc", "dev"):
        (root / folder).mkdir(parents=True)
    shutil.copy(loader.resolve(), root / LOADER.relative_to("/"))
    for name in LIBRARIES:
        shutil.copy(build / name, root / "usr/lib" / name)
    shutil.copy(busybox, root / "bin/busybox")
    for name in tools.split():
        (root / "bin" / name).symlink_to("busybox")
    (root / "dev/null").touch()


def enter(root: Path, *words: str, seen: dict[str, Path] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `words` in the root folder, in a new mount namespace. /proc and the folders in `seen` are mounted there."""
    mounts = [f"mount --bind /proc {root}/proc 2>/dev/null || mount --rbind /proc {root}/proc || exit {CANNOT_RUN}"]
    for place, outside in (seen or {}).items():
        (root / place).mkdir(parents=True, exist_ok=True)
        mounts.append(f"mount --rbind '{outside}' '{root}/{place}' || exit {CANNOT_RUN}")
    inside = "\n".join([*mounts, 'exec chroot "$0" "$@"'])
    begin = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
    ended = subprocess.run([*begin, "sh", "-c", inside, str(root), *words], env={"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "LC_ALL": "C"},
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode == CANNOT_RUN or "unshare failed" in ended.stderr:
        leave_out(f"no root of its own can be entered here: {ended.stderr.strip()}")
    return ended
