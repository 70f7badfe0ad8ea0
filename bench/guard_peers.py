"""The protected forms of allocators, the plain forms that they are compared with, and HAKMEM's modes.

The forms that crates carry are built as the crates build them; Scudo is the one of Debian's compiler-rt.
"""
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import peers
from peers import Allocator, Package
from sources import MIMALLOC, MIMALLOC_BUILD, SNMALLOC, SNMALLOC_BUILD, SOURCES, Crate, Source

HARDENED_MALLOC = Crate("hardened-malloc-sys", "16.0.2026071503", "8a634cdd17eb2cea9e8ab0977f9b7401a5882db9fadb594d080bc67f230b6ec2")

MIMALLOC_SECURE = (MIMALLOC_BUILD % "v3").replace("-DNDEBUG", "-DNDEBUG -DMI_SECURE=4")

# The flags of its Makefile, and the configuration that the crate has for the feature. It is written in C23, of which older
# compilers know all but the keyword alignas.
HARDENED_MALLOC_BUILD = """
config=$(sed -n 's/^\\([A-Z_]*=.*\\)/-D\\1/p' config-%s.conf)
cd vendor/hardened-malloc
flags="-D_GNU_SOURCE -O3 -flto -fPIC -fvisibility=hidden -fno-plt -fstack-clash-protection -fstack-protector-strong"
for unit in chacha h_malloc memory pages random util; do
  gcc -std=c2x -include stdalign.h $flags $config -Iinclude -c "$unit.c" -o "$unit.o"
done
g++ -std=c++17 -fsized-deallocation $flags $config -Iinclude -c new.cc -o new.o
g++ -shared $flags -pthread -Wl,-O1,--as-needed,-z,defs,-z,now -o "$OUT/libhardened_malloc.so" *.o
"""

LIBRARY, HARDENED_LIBRARY = "libhakmem.so", "libhakmem-hardened.so"
SCUDO = Package("scudo", "libclang_rt.scudo_standalone-x86_64.so", ("libclang-rt-22-dev",))
MALLOC_CHECK = Path("libc_malloc_debug.so.0")


@dataclass(frozen=True)
class Form:
    """An allocator with a protection, or without any."""

    allocator: Allocator
    base: str  # the form that its cost is relative to; its own name where it is that form
    about: str
    samples: bool = False  # it looks at few of many blocks: programs with one mistake say nothing about it


@dataclass(frozen=True)
class Mode:
    """HAKMEM with options. Left out where the library does not know them."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    library: str = LIBRARY
    samples: bool = False

    @property
    def about(self) -> str:
        words = [f"{name}={value}" for name, value in self.options.items()]
        words += [self.library] if self.library != LIBRARY else []
        return ", ".join(words) or "default"


MODES = (
    Mode("hakmem"),
    Mode("hakmem-safe", {"HAKMEM_SAFE_FREE": "1"}),
    Mode("hakmem-strict", {"HAKMEM_SAFE_FREE": "strict"}),
    Mode("hakmem-sample", {"HAKMEM_GUARD_SAMPLE": "1m"}, samples=True),
    Mode("hakmem-hardened", {"HAKMEM_HARDENED": "1"}),
    Mode("hakmem-copies", library=HARDENED_LIBRARY),
    Mode("hakmem-hardened-copies", {"HAKMEM_HARDENED": "1"}, HARDENED_LIBRARY),
)


PLAIN = {source.name: source for source in SOURCES}


def hardened_malloc(name: str, configuration: str) -> Source:
    return Source(name, HARDENED_MALLOC.version, HARDENED_MALLOC, HARDENED_MALLOC_BUILD % configuration, "libhardened_malloc.so")


# Name, the form without protection, the source, what it is.
BUILT = (
    (PLAIN["mimalloc3"], "mimalloc3", "as released"),
    (Source("mimalloc3-secure", "3.3.2", MIMALLOC, MIMALLOC_SECURE, "libmimalloc.so", settings=(("MIMALLOC_SHOW_ERRORS", "1"),)),
     "mimalloc3", "MI_SECURE=4, MIMALLOC_SHOW_ERRORS=1"),
    (PLAIN["snmalloc"], "snmalloc", "as released"),
    (Source("snmalloc-checks", "0.7.6", SNMALLOC, SNMALLOC_BUILD % {"suffix": "-checks"}, "libsnmallocshim-checks.so"),
     "snmalloc", "SNMALLOC_CHECK_CLIENT"),
    (hardened_malloc("hardened_malloc", "default"), "glibc", "default configuration"),
    (hardened_malloc("hardened_malloc-light", "light"), "glibc", "light configuration"),
)
SCUDO_MORE = "quarantine_size_kb=256:thread_local_quarantine_size_kb=64:zero_contents=true"


def find_forms(names: list[str] | None) -> tuple[list[Form], list[str]]:
    """The forms named, or all, and why some cannot be had."""
    return peers.find_each({name: find for name, find in finders().items() if not names or name in names})


def finders() -> dict:
    """In the order of the tables."""
    found = {"glibc": lambda: Form(peers.own_of_c_library(), "glibc", "as it comes")}
    found["glibc-check"] = checked_glibc
    for source, base, about in BUILT:
        found[source.name] = lambda s=source, b=base, a=about: Form(peers.find_built(s), b, a)
    found["scudo"] = lambda: scudo("scudo", (), "as it comes")
    found["scudo-quarantine"] = lambda: scudo("scudo-quarantine", (("SCUDO_OPTIONS", SCUDO_MORE),), SCUDO_MORE)
    return found


def scudo(name: str, settings: tuple[tuple[str, str], ...], about: str) -> Form:
    return Form(replace(peers.find_packaged(SCUDO), name=name, search=None, settings=settings), "glibc", about)


def checked_glibc() -> Form:
    """The C library's own check: a library of its own since 2.34, switched on by a tunable. It has malloc only in the
    version that programs are linked with, so that a look-up by name finds the C library's."""
    library = peers.find_installed(MALLOC_CHECK.name)
    if library is None:
        raise RuntimeError(f"the C library has no {MALLOC_CHECK}")
    settings = (("LD_PRELOAD", str(library)), ("GLIBC_TUNABLES", "glibc.malloc.check=3"))
    return Form(replace(peers.own_of_c_library(), name="glibc-check", settings=settings), "glibc", f"{MALLOC_CHECK}, glibc.malloc.check=3")


def find_modes(folder: Path, probe: Path) -> tuple[list[Form], list[str]]:
    """HAKMEM's modes that the libraries in the folder know, and the names of the others."""
    known, unknown = [], []
    for mode in MODES:
        library = folder / mode.library
        settings = tuple(mode.options.items())
        if library.exists() and knows(library, mode.options, probe):
            allocator = Allocator(mode.name, library.resolve(), "hakmem", settings=settings)
            known.append(Form(allocator, "hakmem", mode.about, mode.samples))
        else:
            unknown.append(f"{mode.name}: this build has no {mode.about}")
    return known, unknown


def knows(library: Path, options: dict[str, str], probe: Path) -> bool:
    """By the options of a report, and by silence: an option or a word that is unknown is complained about."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
        report = Path(scratch) / "report.json"
        env = {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": str(library), "HAKMEM_REPORT": str(report)}
        done = subprocess.run([probe], env=env | options, capture_output=True, text=True, timeout=30)
        if done.returncode != 0 or "hakmem:" in done.stderr or not report.exists():
            return False
        listed = json.loads(report.read_text()).get("options", {})
    return all(name.removeprefix("HAKMEM_").lower() in listed for name in options)
