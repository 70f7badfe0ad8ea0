"""Which allocators run: where their libraries are, and how one is had that is
not installed (Debian's package, unpacked into a cache; no root needed)."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakmem" / "peers"


@dataclass(frozen=True)
class Allocator:
    name: str
    library: Path | None  # None: the C library's own
    role: str  # "peer", "limit" or "hakmem"
    search: Path | None = None  # where its own dependencies lie, if unpacked

    def environment(self) -> dict[str, str]:
        """What makes a program use it."""
        env = {"LD_PRELOAD": str(self.library)} if self.library else {}
        if self.search:
            env["LD_LIBRARY_PATH"] = str(self.search)
        return env

    def expected_object(self) -> str:
        """The file that the program must find malloc in."""
        return os.path.realpath(self.library) if self.library else "libc.so.6"


@dataclass(frozen=True)
class Package:
    name: str
    soname: str
    packages: tuple[str, ...]  # the library's and those it needs


PACKAGES = (
    Package("mimalloc", "libmimalloc.so.2", ("libmimalloc2.0",)),
    Package("jemalloc", "libjemalloc.so.2", ("libjemalloc2",)),
    Package(
        "gperftools",
        "libtcmalloc.so.4",
        ("libgoogle-perftools4", "libtcmalloc-minimal4", "libunwind8"),
    ),
)


def find_peers(names: list[str] | None = None) -> tuple[list[Allocator], list[str]]:
    """glibc and every peer that can be had, and why the others cannot."""
    unknown = set(names or ()) - {"glibc", *(p.name for p in PACKAGES)}
    if unknown:
        raise SystemExit(f"bench: no peer {', '.join(sorted(unknown))}")
    found, missing = [Allocator("glibc", None, "peer")], []
    for package in PACKAGES:
        if names is not None and package.name not in names:
            continue
        try:
            found.append(find_peer(package))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            missing.append(f"{package.name}: {error}")
    if names is not None and "glibc" not in names:
        found = found[1:]
    return found, missing


def find_peer(package: Package) -> Allocator:
    installed = find_installed(package.soname)
    if installed:
        return Allocator(package.name, installed, "peer")
    library = find_below(CACHE / package.name, package.soname)
    if library is None:
        unpack(package)
        library = find_below(CACHE / package.name, package.soname)
    if library is None:
        raise RuntimeError(f"{package.soname} is not in {' '.join(package.packages)}")
    return Allocator(package.name, library, "peer", library.parent)


def find_installed(soname: str) -> Path | None:
    roots = [Path("/usr/lib"), Path("/usr/lib64"), Path("/lib")]
    for root in roots + sorted(Path("/usr/lib").glob("*-linux-gnu")):
        if (root / soname).exists():
            return (root / soname).resolve()
    return None


def find_below(directory: Path, soname: str) -> Path | None:
    return next(iter(sorted(directory.rglob(soname))), None)


def unpack(package: Package) -> None:
    """apt-get download and dpkg -x, into a directory that is complete or absent."""
    for tool in ("apt-get", "dpkg"):
        if not shutil.which(tool):
            raise RuntimeError(f"not installed, and there is no {tool}")
    target = CACHE / package.name
    partial = CACHE / f"{package.name}.partial.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        run_quietly(["apt-get", "download", *package.packages], partial)
        for archive in sorted(partial.glob("*.deb")):
            run_quietly(["dpkg", "-x", archive.name, "."], partial)
            archive.unlink()
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def run_quietly(command: list[str], where: Path) -> None:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{' '.join(command[:2])} failed: {reason[-1] if reason else '?'}")
