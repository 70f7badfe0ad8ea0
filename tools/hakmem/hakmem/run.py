"""hakmem run and record: execute a program in place of the tool, so that it has its own exit code, signals and terminal. It runs on HAKMEM, or with
libhakmem-record.so, which notes the calls of the malloc family in one file for each process. This library passes the calls on to the allocator that
the program would have without it. docs/RECORDING.md describes the format."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hakmem import elf, process, protections
from hakmem.library import FOLDER
from hakmem.library import VARIABLE as LIBRARY_VARIABLE
from hakmem.library import find_hardened_library, find_library, find_program, first_preloaded, preload, preloadable
from hakmem.options import unknown_variables, variable
from hakmem.trouble import NO_INPUT, NOT_EXECUTABLE, USAGE, Trouble

EVERY_MS = 1000
RECORDER, PLAYER = "libhakmem-record.so", "hakmem-play"
SUFFIX = ".hkrec"
FOLDER_VARIABLE, SAMPLE_VARIABLE = "HAKRECORD_FOLDER", "HAKRECORD_SAMPLE"
MOST_SAMPLE = 65536
SCRIPTS = {"PYTHONPERFSUPPORT": "1", "PYTHONMALLOC": "malloc"}  # only Python 3.12 or newer obeys the first one
NODE_VARIABLE, NODE_OPTIONS = "NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack"


@dataclass(frozen=True)
class Request:
    """The options of `hakmem run`. If `live` is None, it is True unless a report is requested. Options and environment variables take precedence
    over what --hardened, --guard and --scripts set."""

    options: Mapping[str, str] = field(default_factory=dict)
    report: str | None = None
    live: bool | None = None
    hardened: bool = False
    guard: bool = False
    scripts: bool = False


def run(command: list[str], request: Request) -> None:
    execute(command, lambda: environment_for(request), "served", unknown_variables(os.environ))


def execute(command: list[str], environment_of: Callable[[], dict[str, str]], done: str, warnings: Iterable[str] = ()) -> None:
    """Starts the program in place of this process. Prints a warning if the preload will have no effect on it."""
    program = find_program(command[0])
    environment = environment_of()
    reason = elf.why_not_served(program, first_preloaded(environment))
    for sentence in [*([f"{program} will not be {done}: {reason}"] if reason else []), *warnings]:
        print(f"hakmem: {sentence}", file=sys.stderr)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise Trouble(f"{program}: {error.strerror}", NOT_EXECUTABLE) from None


def environment_for(request: Request) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != LIBRARY_VARIABLE}
    report = absolute(request.report) or environment.get("HAKMEM_REPORT")
    protecting = protections.options(request.hardened, request.guard)
    environment = {variable(name): value for name, value in protecting.items()} | environment
    environment |= {variable(name): value for name, value in request.options.items()}
    if request.scripts:
        environment = SCRIPTS | environment | {NODE_VARIABLE: f"{environment.get(NODE_VARIABLE, '')} {NODE_OPTIONS}".strip()}
    if request.live if request.live is not None else not report:
        report = report or str(process.make_folder() / process.PATTERN)
        if not report.endswith((".json", "/")):
            raise Trouble("--live requires a report that ends in .json, which hakmem top reads", USAGE)
        environment.setdefault("HAKMEM_REPORT_EVERY", str(EVERY_MS))
    if report:
        environment["HAKMEM_REPORT"] = report
    library = find_hardened_library() if request.hardened else find_library()
    return environment | {"LD_PRELOAD": preload(library, environment)}


def absolute(path: str | None) -> str | None:
    """Returns the absolute path, because the program may change its directory before the library opens the file. - is stderr. A path that ends in a
    slash is a folder, which is created."""
    if path is None or path == "-":
        return path
    if path.endswith("/"):
        os.makedirs(path, exist_ok=True)
    return os.path.abspath(path) + ("/" if path.endswith("/") else "")


def parse_setting(setting: str) -> tuple[str, str]:
    matched = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)=(.*)", setting, re.DOTALL)
    if not matched:
        raise Trouble(f"--set {setting}: write name=value", USAGE)
    return matched[1].lower(), matched[2]


def profile_value(profile: str | None) -> str | None:
    """Returns the absolute path if the file exists. Otherwise the value is the name of a profile."""
    return str(Path(profile).resolve()) if profile and Path(profile).is_file() else profile


def beside(library: Path, name: str) -> Path:
    """Returns the file with this name that belongs to the library. It is in the library's folder (a build or a wheel), in bench/ of a build, in the
    package's subfolder, or in bin/ of the same prefix."""
    folder = library.parent
    folders = [folder, folder / FOLDER, folder / "bench", folder.parent / "bin", folder.parent.parent / "bin"]
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if found is None:
        raise Trouble(f"no {name} beside {library}: build it (make), or install it (make install)", NO_INPUT)
    return found


def record(command: list[str], folder: Path, sample: int) -> None:
    execute(command, lambda: recorder_environment(folder, sample), "recorded")


def recorder_environment(folder: Path, sample: int) -> dict[str, str]:
    """Creates the folder. It must not have recordings, because those of two runs would be taken for one run."""
    if not 1 <= sample <= MOST_SAMPLE:
        raise Trouble(f"--sample {sample}: one block in 1 (all) to {MOST_SAMPLE}", USAGE)
    recorder = preloadable(beside(find_library(), RECORDER))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.glob(f"*{SUFFIX}")):
        raise Trouble(f"{folder} holds recordings already: remove it, or name another folder (--output)", USAGE)
    environment = {name: value for name, value in os.environ.items() if name != LIBRARY_VARIABLE}
    environment |= {FOLDER_VARIABLE: str(folder.resolve()), SAMPLE_VARIABLE: str(sample)}
    return environment | {"LD_PRELOAD": preload(recorder, environment)}
