"""Completes words in shells: provides the scripts, most of which typer makes, and the words that the commands accept."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

VARIABLE = "_HAKMEM_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def typers() -> Any:
    return importlib.import_module("typer.completion")  # slow to import


def begin() -> None:
    """Prepares typer if a shell asks for completions."""
    if VARIABLE in os.environ:
        typers().completion_init()


# typer's own script for bash cannot be used. It takes the words as bash splits them, also at the = of NAME=VALUE, and it adds a space after NAME=.
BASH = """_hakmem_completion() {
    local IFS=$'\\n' word words=() glue=
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ $glue || ( $word == = && ${#words[@]} -gt 0 ) ]]; then words[-1]+=$word; else words+=("$word"); fi
        [[ $word == = ]] && glue=1 || glue=
    done
    COMPREPLY=( $( IFS=' '; COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) _HAKMEM_COMPLETE=complete_bash "$1" ) )
    [[ ${words[-1]} == *=* ]] && COMPREPLY=( "${COMPREPLY[@]#*=}" )
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    return 0
}

complete -o default -F _hakmem_completion hakmem
"""


def script(shell: str) -> str:
    if shell == "bash":
        return BASH
    return str(typers().get_completion_script(prog_name="hakmem", complete_var=VARIABLE, shell=shell))


def settings(incomplete: str) -> list[str]:
    """Returns NAME= for each option, or NAME=WORD if the name is complete and the values of the option are words."""
    from hakmem.options import table

    name, given, value = incomplete.partition("=")
    if not given:
        return [f"{option}=" for option in table() if option.startswith(name.lower())]
    option = table().get(name.lower())
    words = option.unit.split("|") if option and option.kind == "WORD" else []
    return [f"{name}={word}" for word in words if word.startswith(value)]


def profiles(incomplete: str) -> list[str]:
    from hakmem.options import profiles as names

    return [name for name in names() if name.startswith(incomplete)]


def processes(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yields the processes that write live reports, with their commands."""
    from hakmem.process import Process, folder_path

    for file in sorted(folder_path().glob("*.json")):
        with suppress(OSError):
            if file.stem.isdecimal() and file.stem.startswith(incomplete) and Process(int(file.stem)).alive():
                yield file.stem, Process(int(file.stem)).name()


def columns(incomplete: str) -> list[str]:
    from hakmem.top import SORTS

    return [name for group in SORTS.values() for name in (column.replace(" ", "-") for column in group) if name.startswith(incomplete)]
