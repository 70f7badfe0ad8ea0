#!/usr/bin/env python3
"""Is the compiler that CMake calls to build the wheels. It runs clang of the package ziglang, with the headers and symbol versions of an old
glibc, or with those of musl.

zig_cc.py cc|c++|ar|ranlib TARGET WORK ARGUMENT...    TARGET is for example x86_64-linux-gnu.2.17 or x86_64-linux-musl; WORK is a folder for its files

A shared library is linked directly by LLD, because `zig cc` refuses flags that HAKMEM needs (-z initfirst, --defsym, --dynamic-list). It is linked
with the stub libraries that `zig cc` makes for TARGET, which have the names and versions of that glibc, and no code."""

import os
import subprocess
import sys
from pathlib import Path

EMULATIONS = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}
# The constructors of a shared library need no startup files. compiler_rt has the functions for operations that the machine has no instructions for.
LIBRARIES = {"gnu": ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libc_nonshared.a", "libcompiler_rt.a"), "musl": ("libc.so", "libcompiler_rt.a")}
# zig has no libgcc_s.so.1, which lets exceptions pass through C functions. This stub takes its place for the linker, and never runs.
UNWINDER = "libgcc_s.so.1"
UNWINDER_CODE = "void _Unwind_Resume(void) {}\nvoid __gcc_personality_v0(void) {}\n"
UNWINDER_VERSIONS = "GCC_3.0 { global: _Unwind_Resume; };\nGCC_3.3.1 { global: __gcc_personality_v0; };\n"
TAKE_A_WORD = ("-isystem", "-I", "-D", "-MF", "-MT", "-MQ", "-x", "-include")


def zig(*words: str) -> list[str]:
    return [sys.executable, "-m", "ziglang", *words]


def for_musl(target: str) -> bool:
    return target.endswith("musl")


def stubs(target: str, work: Path) -> list[str]:
    """Returns the stub libraries of TARGET. zig makes them in its cache when it links a program, which is done once."""
    names = LIBRARIES["musl" if for_musl(target) else "gnu"]
    found = in_cache(work, names)
    if len(found) < len(names):
        work.mkdir(parents=True, exist_ok=True)
        (work / "seed.c").write_text("int main(void) { return 0; }\n")
        subprocess.run(zig("cc", "-target", target, *(["-dynamic"] if for_musl(target) else []), "-lpthread", "-ldl", "-o", str(work / "seed"), str(work / "seed.c")), check=True)
        found = in_cache(work, names)
    missing = [name for name in names if name not in found]
    if missing:
        sys.exit(f"zig_cc.py: zig made no {', '.join(missing)} for {target} in {work}")
    # A system with musl may have no libgcc_s.so.1, and no cleanup of HAKMEM needs it.
    return [found[name] for name in names] + ([] if for_musl(target) else [str(unwinder(target, work))])


def unwinder(target: str, work: Path) -> Path:
    library, code, versions = work / UNWINDER, work / "unwinder.c", work / "unwinder.map"
    if not library.is_file():
        code.write_text(UNWINDER_CODE)
        versions.write_text(UNWINDER_VERSIONS)
        compiled = str(work / "unwinder.o")
        subprocess.run(zig("cc", "-target", target, "-fPIC", "-fno-sanitize=undefined", "-c", "-o", compiled, str(code)), check=True)
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(zig("ld.lld", "-m", EMULATIONS[target.split("-")[0]], "-shared", f"--version-script={versions}",
                           "-soname", UNWINDER, "-o", str(made), compiled), check=True)
        made.rename(library)  # is atomic, because two links may run at the same time
    return library


def in_cache(work: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {path.name: str(path) for path in sorted(work.glob("cache/o/*/*")) if path.name in names}


def for_the_linker(words: list[str]) -> list[str]:
    """Returns the linker's arguments for these arguments of the compiler."""
    linker: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("-Wl,"):
            linker += word.split(",")[1:]
        elif word == "-o":
            linker += [word, next(rest)]
        elif word in TAKE_A_WORD:
            next(rest)
        elif not word.startswith("-") or word.startswith("-L"):
            linker.append(word)
        elif word.startswith("-l") and word not in ("-lpthread", "-ldl", "-lc"):
            linker.append(word)
    return linker


def link_shared(target: str, work: Path, words: list[str]) -> list[str]:
    emulation = EMULATIONS[target.split("-")[0]]
    # Segments are aligned to the largest page size that a kernel of the machine may have.
    pages = ["-z", "max-page-size=65536"] if target.startswith("aarch64") else []
    return zig("ld.lld", "-m", emulation, "-shared", "--eh-frame-hdr", "--build-id=sha1", "-z", "defs", *pages,
               *for_the_linker(words), "--as-needed", *stubs(target, work))


def command(tool: str, target: str, work: Path, words: list[str]) -> list[str]:
    if tool in ("ar", "ranlib"):
        return zig(tool, *words)
    if "-shared" in words:
        return link_shared(target, work, words)
    # By default, zig adds checks for undefined behaviour, and builds a C++ library for the first C++ program.
    more = ["-nostdlib++"] if tool == "c++" else []
    # By default, programs for musl are static, and a preload could not serve them.
    if for_musl(target) and not {"-c", "-E", "-S"} & set(words):
        more.append("-dynamic")
    return zig(tool, "-target", target, "-fno-sanitize=undefined", *more, *words)


def main() -> None:
    tool, target, work, *words = sys.argv[1:]
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = os.environ["ZIG_LOCAL_CACHE_DIR"] = str(Path(work) / "cache")
    line = command(tool, target, Path(work), words)
    os.execv(line[0], line)


if __name__ == "__main__":
    main()
