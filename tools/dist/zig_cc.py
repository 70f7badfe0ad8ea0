#!/usr/bin/env python3
"""The compiler that CMake calls to build the wheels: clang of the package ziglang, with the headers and symbol versions of an old glibc, or with musl's.

zig_cc.py cc|c++|ar|ranlib TARGET WORK ARGUMENT...    TARGET such as x86_64-linux-gnu.2.17 or x86_64-linux-musl; WORK: a folder of its own

A shared library is linked by LLD itself: `zig cc` refuses flags that HAKMEM needs (-z initfirst, --defsym, --dynamic-list). What it is linked
with is what `zig cc` makes for TARGET: libraries with the names and versions of that glibc, and no code."""

import os
import subprocess
import sys
from pathlib import Path

EMULATIONS = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}
# The constructors of a shared library need no startup files; compiler_rt has what the machine has no instructions for.
LIBRARIES = {"gnu": ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libc_nonshared.a", "libcompiler_rt.a"), "musl": ("libc.so", "libcompiler_rt.a")}
# zig has no libgcc_s.so.1, which lets exceptions pass through C functions: this stands for it, and is not run.
UNWINDER = "libgcc_s.so.1"
UNWINDER_CODE = "void _Unwind_Resume(void) {}\nvoid __gcc_personality_v0(void) {}\n"
UNWINDER_VERSIONS = "GCC_3.0 { global: _Unwind_Resume; };\nGCC_3.3.1 { global: __gcc_personality_v0; };\n"
TAKE_A_WORD = ("-isystem", "-I", "-D", "-MF", "-MT", "-MQ", "-x", "-include")


def zig(*words: str) -> list[str]:
    return [sys.executable, "-m", "ziglang", *words]


def for_musl(target: str) -> bool:
    return target.endswith("musl")


def stubs(target: str, work: Path) -> list[str]:
    """The libraries of TARGET. A program that is linked makes them, once, in the cache of zig."""
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
    # musl's users have no libgcc_s.so.1 for certain, and no cleanup of HAKMEM's needs one.
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
        made.rename(library)  # at once: two links may run beside each other
    return library


def in_cache(work: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {path.name: str(path) for path in sorted(work.glob("cache/o/*/*")) if path.name in names}


def for_the_linker(words: list[str]) -> list[str]:
    """What the compiler was told, as the linker is told it."""
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
    # Sections begin on pages of the largest size that a kernel of the machine has.
    pages = ["-z", "max-page-size=65536"] if target.startswith("aarch64") else []
    return zig("ld.lld", "-m", emulation, "-shared", "--eh-frame-hdr", "--build-id=sha1", "-z", "defs", *pages,
               *for_the_linker(words), "--as-needed", *stubs(target, work))


def command(tool: str, target: str, work: Path, words: list[str]) -> list[str]:
    if tool in ("ar", "ranlib"):
        return zig(tool, *words)
    if "-shared" in words:
        return link_shared(target, work, words)
    # zig adds checks for undefined behaviour of its own accord, and builds a C++ library for the first C++ program.
    more = ["-nostdlib++"] if tool == "c++" else []
    # Programs for musl are static by default, and could not be preloaded.
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
