#!/usr/bin/env python3
"""Checks the interface of libhakmem.so: its exports, the libraries that it needs, its static TLS, and what the loader writes to.

check_library.py LIBRARY EXPORTS... [--write]
  EXPORTS  one symbol in each line, # for comments; a difference is printed as a diff. The library must export the symbols of all lists
  --write  rewrites the last list from the library, after an intended change
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

MAY_NEED = re.compile(r"libc\.so\.6|ld-linux-[\w-]+\.so\.\d+|libc\.musl-\w+\.so\.1")
STATIC_TLS = 64
RELRO = 4096  # The loader relocates the data in this segment. Each page of it costs every process a page fault and 4 KiB.
HEADER = "# What {} exports{}, and nothing else. Checked by tests/model/rooms/check_library.py."


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(library: str) -> list[str]:
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    return sorted({fields[-1].split("@")[0] for fields in symbols if fields})


def listed(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return sorted(line for line in lines if line)


def check_exports(library: str, paths: list[Path]) -> list[str]:
    wanted, found = sorted(symbol for path in paths for symbol in listed(path)), exports(library)
    return list(difflib.unified_diff(wanted, found, paths[-1].name, Path(library).name, lineterm="", n=0))


def write(library: str, paths: list[Path]) -> None:
    others = {symbol for path in paths[:-1] for symbol in listed(path)}
    beside = " beside " + ", ".join(path.name for path in paths[:-1]) if others else ""
    lines = [HEADER.format(Path(library).name, beside), *(symbol for symbol in exports(library) if symbol not in others)]
    paths[-1].write_text("\n".join(lines) + "\n")


def check_needs(library: str) -> list[str]:
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", library))
    return [f"needs {name}: libc must be enough" for name in needed if not MAY_NEED.fullmatch(name)]


def check_dynamic(library: str) -> list[str]:
    text = run("readelf", "-dW", library)
    wanted = {"NODELETE": "it would be unmapped by dlclose()", "NOW": "it would be bound lazily",
              "STATIC_TLS": "its thread pointer is not initial-exec"}
    said = [f"has no {flag}: {why}" for flag, why in wanted.items() if not re.search(rf"\b{flag}\b", text)]
    return said + (["has TEXTREL: its code is relocated at start"] if "TEXTREL" in text else [])


def check_segments(library: str) -> list[str]:
    said = []
    segments = [line.split() for line in run("readelf", "-lW", library).splitlines()]
    tls = sum(int(fields[5], 16) for fields in segments if fields[:1] == ["TLS"])
    if tls > STATIC_TLS:
        said.append(f"takes {tls} bytes of static TLS, at most {STATIC_TLS}")
    relro = [int(fields[5], 16) for fields in segments if fields[:1] == ["GNU_RELRO"]]
    if not relro:
        said.append("has no RELRO segment")
    elif relro[0] > RELRO:
        said.append(f"has {relro[0]} bytes that the loader relocates, at most {RELRO}: tables need no pointers")
    if any(fields[:1] == ["GNU_STACK"] and "E" in fields[6] for fields in segments):
        said.append("asks for an executable stack")
    return said


def check_undefined(library: str) -> list[str]:
    """References to C++ functions must be weak, because only some programs have a C++ library."""
    undefined = [line.split() for line in run("nm", "-D", "--undefined-only", library).splitlines()]
    return [f"needs {fields[-1]}: a reference into C++ must be weak" for fields in undefined
            if fields[-2] == "U" and re.match(r"_Z|__cxa_(?!finalize|atexit|thread_atexit_impl)|__gxx_", fields[-1])]


def check(library: str, paths: list[Path]) -> list[str]:
    return (check_needs(library) + check_dynamic(library) + check_segments(library) + check_undefined(library)
            + check_exports(library, paths))


def main(arguments: list[str]) -> int:
    library, paths = arguments[0], [Path(argument) for argument in arguments[1:] if argument != "--write"]
    if "--write" in arguments:
        write(library, paths)
    breaches = check(library, paths)
    print("\n".join(breaches) if breaches else f"library: {len(exports(library))} exports as listed, needs libc only")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
