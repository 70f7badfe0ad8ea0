"""Usage: test_cxx.py BUILD [NAME...]
Tests C++ on musl, compiled by zig's clang with its libc++: include/hakmem.hpp, containers, std::pmr, exceptions, threads, heaps, and refusals. The
programs are linked with libhakmem.so, linked statically with hakmem.o, and preloaded. HAKMEM's reports must say that it served them."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from kit import CACHE, LOADER, leave_out  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(sys.argv[1]).resolve()
TARGET = ["-target", "x86_64-linux-musl"]
OPTIONS = ["-std=c++17", "-O1", "-pthread", "-fno-builtin", "-fno-sanitize=undefined", "-D_GNU_SOURCE", f"-I{ROOT}/include", f"-I{ROOT}/tests"]
# The smallest number of allocations that each program makes, according to the exit report or to what the program prints about its heaps. Programs
# that call hak_ functions cannot be preloaded.
PROGRAMS = {
    "api/cxx/containers": (1_000, {}),
    "api/cxx/heaps": (1_000, {}),
    "api/cxx/refusals": (1_000, {"HAKMEM_LIMIT": "64m", "HAKMEM_OOM_REPORT": "0"}),
    "api/cxx/refused_new": (1, {"HAKMEM_OOM_REPORT": "0"}),
    "process/linked_cxx": (10_000, {}),
}
# zig's libc++ is hidden inside the program. HAKMEM finds the function that throws std::bad_alloc in the symbol table of the program.
WAYS = {"shared": ["-dynamic", BUILD / "libhakmem.so", f"-Wl,-rpath,{BUILD}"], "static": ["-static", BUILD / "hakmem.o"]}


def zig(folder: Path, *words: object) -> None:
    """Runs zig. The cache keeps what zig builds for a target, mainly its C++ library, but not what it builds for a program."""
    kept = {"ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig-musl"), "ZIG_LOCAL_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "ziglang", "c++", *TARGET, *(str(word) for word in words)]
    ended = subprocess.run(command, env=os.environ | kept, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{ended.stdout}{ended.stderr}")


def served(program: Path, report: Path, **more: str) -> int:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_"))}
    ended = subprocess.run([program], env=kept | {"HAKMEM_REPORT": str(report)} | more, capture_output=True, text=True)
    if ended.returncode != 0 or "cannot be preloaded" in ended.stderr:
        sys.exit(f"FAILED: {program.name} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    text = report.read_text() if report.exists() else ""
    report.unlink(missing_ok=True)
    found = re.search(r"the heap handed out (\d+) blocks", ended.stdout) or re.search(r"served (\d+)", text)
    return int(found[1]) if found else 0


def check(folder: Path, name: str) -> None:
    least, more = PROGRAMS[name]
    code = folder / "program.o"
    zig(folder, *OPTIONS, "-c", ROOT / f"tests/{name}.cpp", "-o", code)
    for way, libraries in WAYS.items():
        if way == "shared" and name == "process/linked_cxx":
            continue
        program = folder / f"{Path(name).name}_{way}"
        zig(folder, code, *libraries, "-o", program)
        found = served(program, folder / "report", **more)
        print(f"{name}, {way}: served {found}", flush=True)
        if found < least:
            sys.exit(f"FAILED: {name}, {way}: less than {least} calls served")


def check_preloaded(folder: Path) -> None:
    """Runs a program that does not use HAKMEM's header: alone, as the negative control, and with each of the two libraries."""
    source = ROOT / "tests/platform/musl/plain.cpp"
    program = folder / "plain"
    zig(folder, *OPTIONS, source, "-dynamic", "-o", program)
    if served(program, folder / "report") != 0:
        sys.exit("FAILED: a report without HAKMEM")
    for library in ("libhakmem.so", "libhakmem-hardened.so"):
        found = served(program, folder / "report", LD_PRELOAD=str(BUILD / library))
        print(f"plain, {library}: served {found}")
        if found < 100_000:
            sys.exit(f"FAILED: {found} calls served")


def main() -> None:
    if not importlib.util.find_spec("ziglang"):
        leave_out("this Python has no ziglang: tools/setup.sh test installs it where the Python package index can be reached")
    if not LOADER.exists():
        leave_out("no musl (musl-tools)")
    with tempfile.TemporaryDirectory() as place:
        for name in sys.argv[2:] or PROGRAMS:
            check(Path(place), name)
        check_preloaded(Path(place))
    print("C++ on musl: all right")


main()
