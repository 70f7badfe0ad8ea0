#!/usr/bin/env python3
"""Writes the source tarball, hakmem-VERSION.tar.gz. It has the files that git has at HEAD, or, without git, the tree without files of builds.

source.py [--output FOLDER]

The same tree gives the same bytes, because names are sorted, all files have the same time, and no owner is stored."""

import argparse
import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_BY_BUILDS = re.compile(r"(^|/)(\.git|__pycache__|\.cache|\.mypy_cache|[\w.-]+\.egg-info|target)(/|$)|^build(-|/|$)|^tools/hakmem/build/|\.pyc$|(^|/)compile_commands\.json$"
                           r"|^examples/rust/Cargo\.lock$")


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def has_git() -> bool:
    """Returns True if this tree is the root of a git repository. A repository around it does not count."""
    try:
        return Path(git("rev-parse", "--show-toplevel").decode().strip()).resolve() == ROOT
    except (OSError, subprocess.CalledProcessError):
        return False


def unpacked(folder: str) -> Path:
    """Unpacks the files that git has at HEAD, and returns the folder."""
    subprocess.run(["tar", "-x", "-C", folder], input=git("archive", "--format=tar", "HEAD"), check=True)
    return Path(folder)


def files_of(tree: Path) -> Iterator[str]:
    for folder, names, files in os.walk(tree):
        inside = Path(folder).relative_to(tree)
        names[:] = [name for name in names if not LEFT_BY_BUILDS.search(f"{inside / name}/")]
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        yield from (path for path in (str(inside / name) for name in files + links) if not LEFT_BY_BUILDS.search(path))


def packed(tree: Path, when: int, prefix: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(files_of(tree)):
            path, member, content = tree / name, tarfile.TarInfo(f"{prefix}/{name}"), b""
            if path.is_symlink():
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
            else:
                content = path.read_bytes()
                member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            member.mtime, member.size = when, len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=ROOT / "build-packages")
    output = parser.parse_args().output
    version = re.search(r"project\(hakmem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    if not version:
        sys.exit("source: CMakeLists.txt names no version")
    of_git = has_git()
    when = int(git("log", "-1", "--format=%ct")) if of_git else int((ROOT / "CMakeLists.txt").stat().st_mtime)
    when = int(os.environ.get("SOURCE_DATE_EPOCH", when))
    name = f"hakmem-{version[1]}"
    output.mkdir(parents=True, exist_ok=True)
    target = output / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        target.write_bytes(packed(unpacked(folder) if of_git else ROOT, when, name))
    print(f"source: {target.resolve()}")


if __name__ == "__main__":
    main()
