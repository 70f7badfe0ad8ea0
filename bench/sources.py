"""Builds peers from source: crates carry the newest sources of C and C++ libraries whole. Cargo fetches them; each is built once, with its own
recipe and the flags of its release, into a folder named by the recipe."""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakmem" / "peers"
FETCH_TIMEOUT_S = 300
BUILD_TIMEOUT_S = 1800
# What a caller's shell may carry and no recipe asks for.
FOREIGN = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "LD_PRELOAD")


@dataclass(frozen=True)
class Crate:
    name: str
    version: str
    sha256: str

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}"


MIMALLOC = Crate("libmimalloc-sys", "0.1.49", "6a45a52f43e1c16f667ccfe4dd8c85b7f7c204fd5e3bf46c5b0db9a5c3c0b8e9")
JEMALLOC = Crate("tikv-jemalloc-sys", "0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
                 "1a2825c78386b4ae0314074867860ba9577875de945f05992c38815cbec327f0")
SNMALLOC = Crate("snmalloc-sys", "0.7.6", "f09c93c55f9a2b8dab75738a83c771231c5f408af65b8657433fe5bc93cc76cb")
RPMALLOC = Crate("rpmalloc-sys", "0.2.3+b097fd0", "8d4b7d5e225a53887ee57fcec492eaf114b8e290f7072d035adc6ddd6810b67b")
TCMALLOC = Crate("libtcmalloc-sys", "0.1.14", "33e204268a3b09862788a2894346c768b95b2cb29cba42c5e2bb9ea7f48fa317")

# Recipes: shell, run in the unpacked crate; $OUT is where the library goes.

# The crate lacks files that mimalloc's CMakeLists.txt includes: these are the units and flags it names for a shared release build.
MIMALLOC_BUILD = """
cd c_src/mimalloc/%s
units=$(sed -n '/^set(mi_sources/,/)/p' CMakeLists.txt | grep -o 'src/[a-z/-]*[.]c')
gcc -std=gnu11 -O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_CMAKE_BUILD_TYPE=release \
  -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -DMI_MALLOC_OVERRIDE \
  -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc \
  -Iinclude $units -shared -pthread -o "$OUT/libmimalloc.so"
"""

JEMALLOC_BUILD = """
cp configure/configure jemalloc/
cd jemalloc
sh ./configure --with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 \
  --disable-stats --disable-static --disable-doc
make -j"$JOBS" build_lib_shared
cp lib/libjemalloc.so.2 "$OUT/libjemalloc.so"
"""

# The suffix of the target: the plain one, or one with checks.
SNMALLOC_BUILD = """
cmake -S upstream -B build -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF
cmake --build build -j "$JOBS" --target snmallocshim%(suffix)s
cp build/libsnmallocshim%(suffix)s.so "$OUT/libsnmallocshim%(suffix)s.so"
"""

RPMALLOC_BUILD = """
cd rpmalloc/rpmalloc
gcc -std=c11 -O3 -funroll-loops -D_GNU_SOURCE -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 \
  -DBUILD_RELEASE=1 -fPIC -shared -pthread rpmalloc.c -o "$OUT/librpmalloc.so" -ldl
"""

# Bazel's -c opt. The parts of Abseil go through an archive, so that the library holds only what TCMalloc uses.
TCMALLOC_BUILD = """
cd c_src
{ find abseil-cpp/absl tcmalloc/tcmalloc -name '*.cc'
  echo tcmalloc/tcmalloc/internal/percpu_rseq_asm.S; } |
  grep -Ev 'test|mock|benchmark|matchers|/(flags|log|random)/|want_|profile_[mb]' >units
xargs -P "$JOBS" -I{} sh -c 'g++ -std=c++17 -O2 -DNDEBUG -fPIC -fno-omit-frame-pointer -w \
  -Iabseil-cpp -Itcmalloc -c "$1" -o "$(echo "$1" | tr / _).o"' unit {} <units
ar rcs libabsl.a abseil-cpp_*.o
g++ -shared -pthread -Wl,--no-undefined -o "$OUT/libtcmalloc.so" tcmalloc_*.o libabsl.a
"""

# What a loaded library says of its own version: Python, run under the preload.
MIMALLOC_SAYS = """
v = lib.mi_version()
print(f"{v // 10000}.{v // 100 % 100}.{v % 100}")
"""
JEMALLOC_SAYS = """
v = ctypes.c_char_p()
lib.mallctl(b"version", ctypes.byref(v), ctypes.byref(ctypes.c_size_t(8)), None, 0)
print(v.value.decode().split("-")[0])
"""


@dataclass(frozen=True)
class Source:
    name: str
    version: str
    crate: Crate
    recipe: str
    library: str
    says: str = ""  # empty: it carries no version, and its sources' SHA-256 must do
    settings: tuple[tuple[str, str], ...] = ()

    def fingerprint(self) -> str:
        text = "\n".join((self.crate.stem, self.crate.sha256, self.recipe, self.library))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def folder(self) -> Path:
        return CACHE / f"{self.name}-{self.version}-{self.fingerprint()}"


SOURCES = (
    Source("mimalloc2", "2.3.2", MIMALLOC, MIMALLOC_BUILD % "v2", "libmimalloc.so", MIMALLOC_SAYS),
    Source("mimalloc3", "3.3.2", MIMALLOC, MIMALLOC_BUILD % "v3", "libmimalloc.so", MIMALLOC_SAYS),
    Source("jemalloc", "5.3.1", JEMALLOC, JEMALLOC_BUILD, "libjemalloc.so", JEMALLOC_SAYS),
    Source("snmalloc", "0.7.6", SNMALLOC, SNMALLOC_BUILD % {"suffix": ""}, "libsnmallocshim.so"),
    # No crate has 2.0: this is 1.4.3 and the commits up to that one.
    Source("rpmalloc", "1.4.3-b097fd0", RPMALLOC, RPMALLOC_BUILD, "librpmalloc.so"),
    # Google's, of that day. Its caches by processor need restartable sequences, which the C library takes for itself unless told not to.
    Source("tcmalloc", "2025-06-16", TCMALLOC, TCMALLOC_BUILD, "libtcmalloc.so", settings=(("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),)),
)

def built_library(source: Source) -> Path:
    """The library, built first if no build of this very recipe is there."""
    library = source.folder() / source.library
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f".{source.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be building it
        if not library.exists():
            build(source)
    return library


def build(source: Source) -> None:
    """Into a folder that is complete or absent."""
    archive = find_crate(source.crate)
    say(f"building {source.name} {source.version}, this once")
    with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=CACHE) as scratch:
        tree, out = Path(scratch) / "tree", Path(scratch) / "out"
        tree.mkdir()
        out.mkdir()
        run(["tar", "-xzf", str(archive)], tree, BUILD_TIMEOUT_S)
        settings = {"OUT": str(out), "JOBS": os.environ.get("JOBS") or str(os.cpu_count() or 1)}
        run(["sh", "-euc", source.recipe], tree / source.crate.stem, BUILD_TIMEOUT_S, settings)
        if not (out / source.library).exists():
            raise RuntimeError(f"its recipe made no {source.library}")
        check_version(source, out / source.library)
        out.rename(source.folder())


def find_crate(crate: Crate) -> Path:
    """The archive in Cargo's own cache, put there by Cargo if it is not."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    pattern = f"registry/cache/*/{crate.stem}.crate"
    if not any(home.glob(pattern)):
        say(f"fetching crate {crate.stem}")
        fetch(crate)
    for archive in home.glob(pattern):
        if hashlib.sha256(archive.read_bytes()).hexdigest() == crate.sha256:
            return archive
    raise RuntimeError(f"crate {crate.stem} does not have the SHA-256 that it should")


def fetch(crate: Crate) -> None:
    if not shutil.which("cargo"):
        raise RuntimeError("its sources are a crate, and there is no cargo (rustup brings it)")
    with tempfile.TemporaryDirectory(prefix="hakmem-crate-") as scratch:
        root = Path(scratch)
        (root / "lib.rs").touch()
        (root / "Cargo.toml").write_text('[package]\nname = "peer"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
                                         f'[dependencies.{crate.name}]\nversion = "={crate.version.split("+")[0]}"\n')
        run(["cargo", "fetch", "--quiet"], root, FETCH_TIMEOUT_S)


def check_version(source: Source, library: Path) -> None:
    if not source.says:
        return
    probe = f"import ctypes\nlib = ctypes.CDLL(None)\n{source.says}"
    said = run([sys.executable, "-c", probe], library.parent, 60, {"LD_PRELOAD": str(library)})
    if said.strip() != source.version:
        raise RuntimeError(f"it says that it is {said.strip()}, not {source.version}")


def run(command: list[str], where: Path, timeout: float, settings: dict[str, str] | None = None) -> str:
    """Its output; on failure, its last error message is the reason."""
    env = {k: v for k, v in os.environ.items() if k not in FOREIGN} | (settings or {})
    done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{' '.join(command[:2])} failed: {reason[-1] if reason else '?'}")
    return done.stdout


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
