"""Usage: test_root.py BUILD PROGRAMS
Makes a root folder like that of a container with musl: musl's loader, busybox, HAKMEM, and programs. A script runs in it. It preloads the library
with LD_PRELOAD and with the loader's own option, into programs and their children. Each report must say how many calls were served."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from kit import LOADER, enter, make_root  # noqa: E402

BUILD, PROGRAMS = Path(sys.argv[1]), Path(sys.argv[2])
SCRIPT = """#!/bin/sh
set -e
export TEST_ALLOCATOR=hakmem
echo "glibc: $(ls /lib /usr/lib 2>/dev/null | grep -c -e libc.so.6 -e ld-linux)"
HAKMEM_REPORT=/tmp/preloaded.json LD_PRELOAD=libhakmem.so.0 /bin/entries 5000
HAKMEM_REPORT=/tmp/loader.json /lib/ld-musl-x86_64.so.1 --preload /usr/lib/libhakmem.so.0 /bin/entries 5000
HAKMEM_REPORT=/tmp/hardened.json LD_PRELOAD=/usr/lib/libhakmem-hardened.so.0 /bin/entries 5000
HAKMEM_REPORT=/tmp/static.json /bin/entries_static 5000
LD_PRELOAD=libhakmem.so.0 HAKMEM_REPORT=/tmp/started.%p.json /bin/sh -c '/bin/stress threads=2 generations=2 steps=3000; exit $?'
if LD_PRELOAD=/nowhere.so /bin/entries 0 2>/tmp/said; then echo "the control ran on HAKMEM"; exit 1; fi
echo "script: done"
"""


def fill(root: Path) -> None:
    make_root(root, LOADER, BUILD, "sh ls grep")
    for name in ("entries", "entries_static", "stress"):
        shutil.copy(PROGRAMS / f"test_{name}", root / "bin" / name)
    (root / "script").write_text(SCRIPT)
    (root / "script").chmod(0o755)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        fill(root)
        ended = enter(root, "/script")
        said = ended.stdout + ended.stderr
        if ended.returncode != 0 or "script: done" not in said or "glibc: 0" not in said or "Error" in said:
            sys.exit(f"FAILED: the script ended with {ended.returncode}\n{said}")
        for name in ("preloaded", "loader", "hardened", "static", "started"):
            (report,) = (root / "tmp").glob(f"{name}*.json")
            served = json.loads(report.read_text())["served"]["malloc"]
            if served < 1_500:
                sys.exit(f"FAILED: {name}: {served} calls served\n{said}")
            print(f"{name}: {served} calls served")


main()
