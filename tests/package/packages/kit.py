"""Functions that the tests of the packages share: commands, the folders that they build in, and ways to leave out what this machine cannot do."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[3]
CANNOT_RUN = 77
FOLDER = Path(os.environ.get("HAKDEV_PACKAGES", ROOT / "build/packages-test")).resolve()


def version(root: Path = ROOT) -> str:
    return re.search(r"project\(hakmem VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())[1]


def leave_out(why: str) -> NoReturn:
    print(f"notice: a test of the packages was left out: {why}")
    sys.exit(CANNOT_RUN)


def need(*programs: str) -> None:
    missing = [name for name in programs if not shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if missing:
        leave_out(f"{', '.join(missing)} is missing: tools/setup.sh test installs it")


def must(good: object, what: object) -> None:
    if not good:
        sys.exit(f"FAILED: {what}")


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_", "PYTHON", "DESTDIR"))}
    own["PATH"] = own.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    return own | {"LC_ALL": "C.UTF-8"} | more


def attempt(*words: object, folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], cwd=folder, env=environment(**more), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)


def run(*words: object, folder: Path = ROOT, **more: str) -> str:
    ended = attempt(*words, folder=folder, **more)
    must(ended.returncode == 0, f"{' '.join(map(str, words))} ended with {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def packages(kind: str, root: Path = ROOT, place: Path = FOLDER) -> dict[str, Path]:
    """Builds the packages as `make deb` or `make rpm` does, and returns the file of each package."""
    said = run(root / "tools/dist/packages.sh", kind, folder=root, HAKDEV_PACKAGES=str(place))
    files = [Path(line.partition(": ")[2]) for line in said.splitlines() if line.startswith(f"{kind}: ")]
    must(len(files) == 3, said)
    return {re.split(r"[_-]\d", file.name)[0]: file for file in files}


def step(what: str) -> None:
    print(f"-- {what}", flush=True)
