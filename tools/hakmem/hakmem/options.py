"""Reads the library's options and profiles from the tables that the library is built from. The .def files in this folder are links to them."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from hakmem.figures import MISSING, as_number, setting_text, unit_text
from hakmem.trouble import NO_INPUT, USAGE, Trouble

PROFILE_ROW = re.compile(r"^HK_PROFILE\((\w+),", re.MULTILINE)
ROW = re.compile(r"^HK_OPT\((\w+), (\w+), (\d+), (\d+), (\d+), \w+, ([^,]+), \"", re.MULTILINE)
NUMBER = re.compile(r"(\d+)([kmg]?)", re.IGNORECASE)
SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
OTHER_VARIABLES = ("HAKMEM_CONF", "HAKMEM_LIBRARY")  # not options
UNITS = ("bytes", "ms", "percent", "blocks", "events")  # other units only describe the form of a value


@dataclass(frozen=True)
class Option:
    kind: str
    name: str
    default: int
    least: int
    most: int
    unit: str


@functools.lru_cache(maxsize=None)
def table() -> Mapping[str, Option]:
    text = resources.files("hakmem").joinpath("options.def").read_text()
    rows = (Option(kind, name, *map(int, numbers), unit) for kind, name, *numbers, unit in ROW.findall(text))
    return {row.name: row for row in rows}


@functools.lru_cache(maxsize=None)
def profiles() -> tuple[str, ...]:
    return tuple(PROFILE_ROW.findall(resources.files("hakmem").joinpath("profiles.def").read_text()))


def variable(name: str) -> str:
    return f"HAKMEM_{name.upper()}"


def suggestion(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def number_of(text: str) -> int | None:
    """Parses a number as the library does. Returns None if the text is not a number."""
    matched = NUMBER.fullmatch(text)
    return int(matched[1]) * SCALE[matched[2].lower()] if matched else None


def check(name: str, value: str, given_as: str) -> None:
    """Raises Trouble for an option or a value that the library would reject at run time."""
    option = table().get(name)
    if option is None:
        raise Trouble(f"{given_as}: no option is named {name}{suggestion(name, table())}", USAGE)
    if option.kind == "NUMBER":
        number = number_of(value)
        if number is None or not option.least <= number <= option.most:
            least, most = (option_text(name, bound) for bound in (option.least, option.most))
            raise Trouble(f"{given_as}: {value!r} is not a number from {least} to {most}", USAGE)
    words = option.unit.split("|")
    if option.kind == "WORD" and value not in words and {"1": "on", "0": "off"}.get(value) not in words:
        raise Trouble(f"{given_as}: {value!r} is none of {', '.join(words)}{suggestion(value, words)}", USAGE)
    percent = re.fullmatch(r"(\d+)%", value)
    if name == "goal" and value not in ("", "none") and number_of(value) is None and not (percent and 1 <= int(percent[1]) <= 100):
        raise Trouble(f"{given_as}: {value!r} is neither bytes (512m), nor 1% to 100%, nor none", USAGE)
    if name == "profile" and value and value not in profiles() and not Path(value).is_file():
        named = f"{', '.join(profiles())}{suggestion(value, profiles())}"
        raise Trouble(f"{given_as}: {value} is neither a file nor one of {named}", NO_INPUT)


def checked(settings: Mapping[str, object]) -> dict[str, str]:
    """Returns the settings of a Python program as options. Raises Trouble for one that the library would reject."""
    wanted = {name.lower(): str(value) for name, value in settings.items()}
    for name, value in wanted.items():
        check(name, value, f"{name}={value}")
    return wanted


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields one sentence for each HAKMEM_ variable that is not the name of an option."""
    known = [*map(variable, table()), *OTHER_VARIABLES]
    for name in sorted(environment):
        if name.startswith("HAKMEM_") and name.upper() not in known:
            yield f"{name}: no option has this name{suggestion(name, known)}"


def setting_value(name: str, value: object) -> str:
    """Returns the value as the library parses it: for example 12m for bytes, and a plain number for other units."""
    option = table().get(name)
    return setting_text(value) if option is None or option.unit == "bytes" else str(value)


def option_text(name: str, value: object) -> str:
    """Returns the value for people, in the option's form and with its unit, for example 12m, 500 ms or 400 %."""
    option = table().get(name)
    number = as_number(value)
    if number is None and option and option.kind == "NUMBER" and str(value).isdecimal():
        number = int(str(value))
    if number is None:
        return str(value) if value not in (None, "") else MISSING
    return unit_text(number, option.unit if option and option.unit in UNITS else "")
