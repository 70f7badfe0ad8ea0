#!/usr/bin/env python3
"""Completes the Debian packages that CPack made.   finish_deb.py FILE.deb...

Adds what CPack has no variable for: Multi-Arch, copyright, changelogs and lintian's overrides. Compresses the man pages, and removes the debug data
of the static library. The same input gives the same bytes, because all files get the time SOURCE_DATE_EPOCH, or, without it, the time of the last
entry of the changelog."""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from email.utils import parsedate_to_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "cmake/packages"
MULTI_ARCH = {"libhakmem0": "same", "libhakmem-dev": "same"}


def last_entry() -> int:
    when = re.findall(r"^ -- .*?>  (.*)$", (FILES / "changelog.Debian").read_text(), re.MULTILINE)[0]
    return int(parsedate_to_datetime(when).timestamp())


def compress(path: Path, text: bytes) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(text, 9, mtime=0))
    path.unlink(missing_ok=True)


def changelog(version: str) -> bytes:
    """Returns the changelog. Its first line gets the version that is built, which may have another packaging revision than the file."""
    text = (FILES / "changelog.Debian").read_text()
    return re.sub(r"\(.*?\)", f"({version})", text, count=1).encode()


def add_documents(tree: Path, package: str, version: str) -> None:
    folder = tree / "usr/share/doc" / package
    folder.mkdir(parents=True)
    shutil.copyfile(FILES / "copyright", folder / "copyright")
    compress(folder / "changelog", (ROOT / "CHANGELOG.md").read_bytes())
    compress(folder / "changelog.Debian", changelog(version))
    overrides = tree / "usr/share/lintian/overrides" / package
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(FILES / "lintian-overrides", overrides)


def finish_files(tree: Path) -> None:
    for page in (tree / "usr/share/man").rglob("*.[13]"):
        compress(page, page.read_bytes())
    for archive in tree.rglob("*.a"):
        subprocess.run(["strip", "--strip-debug", "--enable-deterministic-archives", archive], check=True)
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", path], check=True)
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)


def description(text: str) -> str:
    """Returns the wrapped description. CPack does not wrap it, and writes the summary of the project before that of the component."""
    _, summary, *paragraphs = [line.strip() for line in text.splitlines()]
    lines = [line for paragraph in paragraphs for line in (textwrap.wrap(paragraph, 76) if paragraph != "." else ["."])]
    return summary + "".join(f"\n {line}" for line in lines)


def finish_control(tree: Path, package: str) -> None:
    control = tree / "DEBIAN/control"
    text = control.read_text()
    if package in MULTI_ARCH and "Multi-Arch:" not in text:
        text = text.replace("\nSection:", f"\nMulti-Arch: {MULTI_ARCH[package]}\nSection:", 1)
    text = re.sub(r"(?m)^Description:(.*\n(?: .*\n?)*)", lambda found: f"Description: {description(found[1])}\n", text)
    if (tree / "DEBIAN/triggers").exists():  # triggers call ldconfig once for all packages, so the scripts are not needed
        (tree / "DEBIAN/postinst").unlink(missing_ok=True)
        (tree / "DEBIAN/postrm").unlink(missing_ok=True)
    installed = [path for path in tree.rglob("*") if "DEBIAN" not in path.relative_to(tree).parts]
    files = [path for path in installed if path.is_file() and not path.is_symlink()]
    kilobytes = sum((path.stat().st_size + 1023) // 1024 for path in files) + sum(1 for path in installed if path not in files)
    control.write_text(re.sub(r"(?m)^Installed-Size:.*$", f"Installed-Size: {kilobytes}", text))
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in sorted(files)]
    (tree / "DEBIAN/md5sums").write_text("".join(sums))


def finish(deb: Path, when: int) -> None:
    def field(name: str) -> str:
        return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()

    package, version = field("Package"), field("Version")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        add_documents(tree, package, version)
        finish_files(tree)
        finish_control(tree, package)
        for path in sorted(tree.rglob("*"), reverse=True):
            os.utime(path, (when, when), follow_symlinks=False)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "-b", tree, deb], check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | {"SOURCE_DATE_EPOCH": str(when)})


def main() -> None:
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or last_entry())
    for name in sys.argv[1:]:
        finish(Path(name), when)


if __name__ == "__main__":
    main()
