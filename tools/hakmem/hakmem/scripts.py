"""Names the functions of Python and JavaScript by the map of generated code that an interpreter writes for `perf` (/tmp/perf-PID.map)."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

# Python writes "py::Shop.load:/srv/shop.py", and Node "JS:*load /srv/shop.js:12:7". "LazyCompile:*load /srv/shop.js:12" is that of older versions.
ROW = re.compile(r"^(?:# code )?(?:0x)?([0-9a-f]{1,16}) ([0-9a-f]{1,16}) (.+)\n", re.MULTILINE)
PYTHON = re.compile(r"py::([^:]+):(.+)$")
SCRIPT = re.compile(r"\w+:[~^*+]*(.*?) (?:file://)?((?:/|node:|\[|evalmachine\.).*?):(\d+)(?::\d+)?$")
PARTS = re.compile(r"(?:(?:^|\.(?:<locals>\.)?)<\w+>)+$")  # the end of the names of lambdas, comprehensions and modules
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def map_of(pid: int) -> tuple[Path, set[int]]:
    """Returns the path of a process's map, and the users to whom it may belong. In a container, a process has its own number and its own folder /tmp."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    inside = fields.get("NSpid", str(pid)).split()[-1]
    return Path(f"/proc/{pid}/root/tmp/perf-{inside}.map"), set(map(int, fields["Uid"].split()))


def maps_of_file(profile: Path) -> list[tuple[Path, set[int]]]:
    """Returns the maps of processes that may have written the profile, by the numbers in its name. They stay when the process has ended."""
    return [(Path(f"/tmp/perf-{number}.map"), {profile.stat().st_uid}) for number in re.findall(r"\d+", profile.name)]


def read_map(path: Path, owners: set[int]) -> str:
    """Returns the text of the map. Raises an OSError if it is missing, or if it belongs to another user, because anybody can create a file in /tmp. The
    file may also be a link or a pipe."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), errors="replace") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid not in {0, *owners}:
            raise OSError(errno.EPERM, "it belongs to another user" if stat.S_ISREG(state.st_mode) else "it is no regular file")
        return file.read()


def rows(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields the start, the size and the name of each piece of code. The last line has no end while the interpreter is writing it, and is left out."""
    return ((int(row[1], 16), int(row[2], 16), row[3]) for row in ROW.finditer(text))


def function_of(name: str) -> tuple[str, str, int] | None:
    """Returns the function, the file and the line, or None if the name is not that of a script's function. The line is 0 in Python."""
    if python := PYTHON.match(name):
        return python[1], python[2], 0
    found = SCRIPT.match(name)
    return (found[1] or "(anonymous)", found[2], int(found[3])) if found else None


def lines_of(text: str) -> dict[str, int]:
    """Returns the lines at which the functions of a Python program begin, by qualified name. Of two functions with one name, the last one counts."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                found[prefix + child.name] = child.lineno
                inner += f"{child.name}." + ("<locals>." if isinstance(child, FUNCTIONS) else "")
            visit(child, inner)

    try:
        visit(ast.parse(text), "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the program may be for a newer Python than the tool's
        found.clear()
    return found


def line_of(function: str, lines: dict[str, int]) -> int:
    return lines.get(PARTS.sub("", function), 0)
