"""Usage: test_libcs.py old-headers|static-musl
Tests HAKMEM on C libraries that this system does not have.

old-headers  all sources of the libraries and of the recorder compile with the headers of Debian 11 (glibc 2.31)
static-musl  zig compiles the library into a static program on musl, for x86-64 and for aarch64, which tests sigaction()"""
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CANNOT_RUN = 77
CACHE = Path(os.environ.get("HAKDEV_EVERYWHERE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakmem/everywhere")
FLAGS = ["-std=gnu11", "-O2", "-fexceptions", "-fno-builtin", "-fvisibility=hidden", "-ftls-model=initial-exec", "-D_GNU_SOURCE", "-DHK_DEBUG=0",
         "-DHK_OVERRIDE=1", '-DHK_VERSION="0"', f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{ROOT}/tools/record"]
# Negative control: only newer headers declare this.
NEWER = "#include <malloc.h>\nsize_t arena(struct mallinfo2 *info) { return info->arena; }\n"


def leave_out(why: str) -> NoReturn:
    print(f"notice: a test of other C libraries was left out: {why}")
    sys.exit(CANNOT_RUN)


def attempt(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], env=os.environ | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(*words: object, **more: str) -> str:
    ended = attempt(*words, **more)
    if ended.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, words))} ended with {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def unity_file(folder: Path) -> Path:
    """Writes the file that includes every C file of the library, as cmake/HakmemLibrary.cmake does."""
    unit = folder / "hakmem.c"
    names = sorted(str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").glob("*/*.c") if path.parent.name != "checked")
    unit.write_text("#define HK_UNITY 1\n" + "".join(f'#include "{name}"\n' for name in ("base/base.h", *names)))
    return unit


def old_headers(folder: Path) -> None:
    made = attempt(HERE / "cached.sh", "headers-bullseye", "bullseye", "amd64", "libc6-dev", "linux-libc-dev")
    if made.returncode == CANNOT_RUN:
        leave_out(made.stdout.strip())
    old, compiler = Path(made.stdout.strip()) / "usr/include", os.environ.get("CC", "cc")
    own = run(compiler, "-print-file-name=include").strip()
    command = [compiler, "-nostdinc", "-isystem", own, "-isystem", old, "-isystem", old / "x86_64-linux-gnu", *FLAGS, "-Wno-pedantic", "-o", folder / "made.o", "-c"]
    (folder / "newer.c").write_text(NEWER)
    if "mallinfo2" not in attempt(*command, folder / "newer.c").stdout:
        sys.exit("FAILED: the control: these headers are not old")
    sources = [unity_file(folder), *(ROOT / "src/checked").glob("*.c"), *(ROOT / "tools/record").glob("*.c")]
    for source in sources:
        run(*command, source)
    run(*command, "-DHK_HARDENED_LIBRARY=1", sources[0])
    print(f"{len(sources)} sources compile with the headers of {old}")


def static_musl(folder: Path) -> None:
    if not importlib.util.find_spec("ziglang"):
        leave_out("this Python has no ziglang: tools/setup.sh test installs it where the Python package index can be reached")
    emulator = attempt(HERE / "emulator.sh")
    for machine in ("x86_64", "aarch64"):
        start = []
        if machine != os.uname().machine:
            if emulator.returncode != 0:
                leave_out(f"no emulator: {emulator.stdout.strip()}")
            start = [emulator.stdout.strip()]
        program = folder / f"signals_{machine}"
        run(sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl", "-static", "-fno-sanitize=undefined", *FLAGS, unity_file(folder),
            ROOT / "tests/platform/musl/signals.c", "-o", program, ZIG_GLOBAL_CACHE_DIR=str(CACHE / "zig-musl"), ZIG_LOCAL_CACHE_DIR=str(folder / "cache"))
        print(f"{machine}: {run(*start, program, HAKMEM_REPORT=str(folder / 'report'))}", end="")
        if "HAKMEM" not in (folder / "report").read_text():
            sys.exit(f"FAILED: {machine}: no report: HAKMEM did not serve")
        (folder / "report").unlink()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        {"old-headers": old_headers, "static-musl": static_musl}[sys.argv[1]](Path(place))


main()
