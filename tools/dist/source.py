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


def of_git() -> tuple[list[tuple[tarfile.TarInfo, bytes]], int]:
    entries = []
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", "HEAD"))) as archive:
        for member in archive:
            if not member.isdir():
                file = archive.extractfile(member) if member.isfile() else None
                entries.append((member, file.read() if file else b""))
    return entries, int(git("log", "-1", "--format=%ct"))


def of_tree() -> tuple[list[tuple[tarfile.TarInfo, bytes]], int]:
    entries = []
    for folder, names, files in os.walk(ROOT):
        inside = Path(folder).relative_to(ROOT)
        names[:] = [name for name in names if not LEFT_BY_BUILDS.search(f"{inside / name}/")]
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        for name in files + links:
            path = inside / name
            if not LEFT_BY_BUILDS.search(str(path)):
                entries.append(entry_of(ROOT / path, str(path)))
    return entries, int((ROOT / "CMakeLists.txt").stat().st_mtime)


def entry_of(path: Path, name: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    if path.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
        return member, b""
    member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    return member, path.read_bytes()


def packed(entries: list[tuple[tarfile.TarInfo, bytes]], when: int, prefix: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for given, content in sorted(entries, key=lambda entry: entry[0].name):
            member = tarfile.TarInfo(f"{prefix}/{given.name}")
            member.type, member.linkname, member.mtime, member.size = given.type, given.linkname, when, len(content)
            member.mode = 0o777 if given.issym() else 0o755 if given.mode & 0o100 else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=ROOT / "build-packages")
    output = parser.parse_args().output
    version = re.search(r"project\(hakmem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    if not version:
        sys.exit("source: CMakeLists.txt names no version")
    entries, when = of_git() if has_git() else of_tree()
    when = int(os.environ.get("SOURCE_DATE_EPOCH", when))
    name = f"hakmem-{version[1]}"
    output.mkdir(parents=True, exist_ok=True)
    target = output / f"{name}.tar.gz"
    target.write_bytes(packed(entries, when, name))
    print(f"source: {target.resolve()}")


if __name__ == "__main__":
    main()
