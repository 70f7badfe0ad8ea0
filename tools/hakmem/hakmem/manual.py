"""Makes the man page from the help of the command line:

    python3 -m hakmem.manual man/hakmem.1        writes the page; the test tool_manual fails if it is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from hakmem import __version__
from hakmem.cli import app

# The macro EN makes the entry of an option: its name, and then its meaning.
HEAD = rf'''.TH HAKMEM 1 "" "HAKMEM {__version__}" "User Commands"
.\" Written by hakmem.manual from the help of the commands.
.de EN
.IP "\fB\\$1\fR"
\\$2
..
.SH NAME
hakmem \- runs programs on HAKMEM, monitors and tunes them, and finds problems
.SH SYNOPSIS
.B hakmem
COMMAND [OPTIONS] [ARGUMENTS]
.SH DESCRIPTION
HAKMEM is a memory allocator that takes the place of the C library's malloc.
.B hakmem
runs programs on it, monitors them, shows reports, tunes, and finds problems.
.SH COMMANDS'''
FILES = (
    ("$XDG_RUNTIME_DIR/hakmem/PID.json, /tmp/hakmem-UID/PID.json", "live reports, for hakmem top"),
    ("hakmem.profile", "what hakmem tune writes"),
)
ENVIRONMENT = (
    ("HAKMEM_LIBRARY", "the library; else it is searched beside the tool, in the source tree, in /usr/local and /usr"),
    ("HAKMEM_...", "the options of the library: see docs/OPTIONS.md"),
)
EXITS = (
    ("0", "success; hakmem run: the program's own exit code"),
    ("1", "failure"),
    ("64, 66", "wrong use; a file that cannot be read"),
    ("126, 127", "a program that cannot be started; that is not there"),
)


def roff(text: str) -> str:
    """Escapes the text, so that no line is a roff request, and hyphens and backslashes are printed as they are."""
    clean = re.sub(r"\s+", " ", text).strip().replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + clean if clean.startswith((".", "'")) else clean


def entry(term: str, text: str) -> str:
    term, text = (roff(part).replace('"', "\\(dq") for part in (term, text))
    return f'.EN "{term}" "{text}"'


@dataclass(frozen=True)
class Parameter:
    """A parameter as the command's function declares it. click's own classes are not used, because they differ between its versions."""

    name: str
    kind: object  # the annotation
    info: ArgumentInfo | OptionInfo

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, ArgumentInfo)

    @property
    def value(self) -> str:
        kinds = [kind for kind in (self.kind, *get_args(self.kind)) if isinstance(kind, type) and issubclass(kind, Enum)]
        return self.info.metavar or "|".join(str(member.value) for kind in kinds for member in kind) or self.name.upper().replace("_", "-")

    @property
    def term(self) -> str:
        if self.is_argument:
            return self.value
        names = self.info.param_decls or ["--" + self.name.replace("_", "-")]
        term = ", ".join(sorted(names, key=len)).replace("/", " / ")
        return term if bool in (self.kind, *get_args(self.kind)) else f"{term} {self.value}"

    @property
    def meaning(self) -> str:
        said, default = self.info.help or "", getattr(self.info.default, "value", self.info.default)
        plain = isinstance(default, (str, int, float, Path)) and not isinstance(default, bool)
        return f"{said} Default: {default}." if plain and "efault" not in said else said


def parameters(function: Callable[..., object]) -> list[Parameter]:
    hints = get_type_hints(function)
    given = inspect.signature(function).parameters.values()
    found = [Parameter(one.name, hints[one.name], one.default) for one in given if isinstance(one.default, (ArgumentInfo, OptionInfo))]
    return sorted(found, key=lambda one: not one.is_argument)


def command_lines(name: str, function: Callable[..., object]) -> list[str]:
    given = parameters(function)
    options = ["[OPTIONS]"] if any(not one.is_argument for one in given) else []
    usage = " ".join([f"hakmem {name}", *options, *[one.value for one in given if one.is_argument]])
    head = [f".SS {roff(name)}", f".B {roff(usage)}", ".PP", roff(function.__doc__ or "")]
    return head + [entry(one.term, one.meaning) for one in given if one.meaning]


def page() -> str:
    lines = [HEAD]
    for command in app.registered_commands:
        if command.callback and not command.hidden:
            lines += command_lines(command.name or command.callback.__name__.replace("_", "-"), command.callback)
    for title, rows in (("EXIT STATUS", EXITS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines += [f".SH {title}", *[entry(*row) for row in rows]]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR malloc (3)"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
