"""Finds the allocators to compare: the C library's own, Debian's packages (unpacked
into a cache if not installed; needs no root), and those built from crates."""
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sources import CACHE, SOURCES, Source, built_library, run, say

APT_TIMEOUT_S = 300


@dataclass(frozen=True)
class Allocator:
    name: str
    library: Path | None  # None: the C library's own
    role: str  # "peer", "limit" or "hakmem"
    search: Path | None = None  # where its own dependencies lie, if unpacked
    version: str = ""
    settings: tuple[tuple[str, str], ...] = ()  # variables that it needs to be itself

    def environment(self) -> dict[str, str]:
        """What makes a program use it."""
        env = {"LD_PRELOAD": str(self.library)} if self.library else {}
        if self.search:
            env["LD_LIBRARY_PATH"] = str(self.search)
        return env | dict(self.settings)


@dataclass(frozen=True)
class Package:
    name: str
    soname: str
    packages: tuple[str, ...]  # the library's, first, and those it needs
    by_default: bool = True


PACKAGES = (
    Package("gperftools", "libtcmalloc.so.4", ("libgoogle-perftools4", "libtcmalloc-minimal4", "libunwind8")),
    Package("onetbb", "libtbbmalloc_proxy.so.2", ("libtbbmalloc2",)),
    Package("mimalloc", "libmimalloc.so.2", ("libmimalloc2.0",)),
    # The crate's is newer: this one by name only.
    Package("jemalloc-debian", "libjemalloc.so.2", ("libjemalloc2",), by_default=False),
)

Finder = Callable[[], Allocator]
Found = TypeVar("Found")


def find_peers(names: list[str] | None = None) -> tuple[list[Allocator], list[str]]:
    """The peers named, or the usual ones, and why some cannot be had."""
    finders, usual = all_finders()
    unknown = set(names or ()) - set(finders)
    if unknown:
        raise SystemExit(f"bench: no peer {', '.join(sorted(unknown))}")
    wanted = usual if names is None else set(names)
    return find_each({name: find for name, find in finders.items() if name in wanted})


def find_each(finders: dict[str, Callable[[], Found]]) -> tuple[list[Found], list[str]]:
    found, missing = [], []
    for name, find in finders.items():
        try:
            found.append(find())
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            missing.append(f"{name}: {error}")
    return found, missing


def all_finders() -> tuple[dict[str, Finder], set[str]]:
    """How each peer is found, in the order of the tables, and which peers run by default."""
    finders: dict[str, Finder] = {"glibc": own_of_c_library}
    finders |= {s.name: lambda s=s: find_built(s) for s in SOURCES}
    finders |= {p.name: lambda p=p: find_packaged(p) for p in PACKAGES}
    return finders, set(finders) - {p.name for p in PACKAGES if not p.by_default}


def own_of_c_library() -> Allocator:
    return Allocator("glibc", None, "peer", version=platform.libc_ver()[1])


def find_built(source: Source) -> Allocator:
    library = built_library(source)
    return Allocator(source.name, library, "peer", version=source.version, settings=source.settings)


def find_packaged(package: Package) -> Allocator:
    installed = find_installed(package.soname)
    if installed:
        return Allocator(package.name, installed, "peer", version=installed_version(package))
    folder = CACHE / package.name
    if not (folder / "version").exists():
        unpack(package)
    library = min(folder.rglob(package.soname), default=None)
    if library is None:
        raise RuntimeError(f"{package.soname} is not in {' '.join(package.packages)}")
    version = (folder / "version").read_text().strip()
    return Allocator(package.name, library, "peer", library.parent, version)


def find_installed(soname: str) -> Path | None:
    roots = [Path("/usr/lib"), Path("/usr/lib64"), Path("/lib"), *sorted(Path("/usr/lib").glob("*-linux-gnu"))]
    return next(((root / soname).resolve() for root in roots if (root / soname).exists()), None)


def installed_version(package: Package) -> str:
    """Empty where another system's packager installed it."""
    try:
        return upstream_version(run(["dpkg-query", "-W", "-f", "${Version}", package.packages[0]], Path("/"), APT_TIMEOUT_S))
    except (OSError, RuntimeError):
        return ""


def upstream_version(debian: str) -> str:
    """1:2.0.9+ds-2 -> 2.0.9"""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", debian)
    return found[1] if found else debian


def unpack(package: Package) -> None:
    """apt-get download and dpkg -x, into a directory that is complete or absent."""
    for tool in ("apt-get", "dpkg"):
        if not shutil.which(tool):
            raise RuntimeError(f"not installed, and there is no {tool}")
    say(f"fetching {' '.join(package.packages)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{package.name}.", dir=CACHE) as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        run(["apt-get", "download", *package.packages], out, APT_TIMEOUT_S)
        first = next(out.glob(f"{package.packages[0]}_*.deb"))
        (out / "version").write_text(upstream_version(run(["dpkg-deb", "-f", first.name, "Version"], out, APT_TIMEOUT_S)))
        for archive in sorted(out.glob("*.deb")):
            run(["dpkg", "-x", archive.name, "."], out, APT_TIMEOUT_S)
            archive.unlink()
        shutil.rmtree(CACHE / package.name, ignore_errors=True)
        out.rename(CACHE / package.name)
