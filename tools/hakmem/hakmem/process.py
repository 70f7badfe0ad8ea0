"""Reads facts about a running process from /proc: whether HAKMEM serves it, its options, and its files. Manages the folder of live reports."""

from __future__ import annotations

import os
import pwd
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem import elf
from hakmem.trouble import Trouble

LIBRARIES = ("/libhakmem.so", "/libhakmem-hardened.so")


@dataclass(frozen=True)
class Process:
    pid: int

    @property
    def folder(self) -> Path:
        return Path(f"/proc/{self.pid}")

    def alive(self) -> bool:
        """Returns True if the process has not ended. A zombie counts as ended."""
        try:
            return self.stat_fields()[0] not in "ZX"
        except OSError:
            return False

    def stat_fields(self) -> list[str]:
        """Returns the fields of /proc/PID/stat from the state on. They are split behind the name, which may contain spaces and parentheses."""
        return (self.folder / "stat").read_text().rpartition(")")[2].split()

    def name(self) -> str:
        words = (self.folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(words).strip() or (self.folder / "comm").read_text().strip()

    def seconds_alive(self) -> float:
        ticks = int(self.stat_fields()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))

    def served(self) -> bool:
        """True if the process has loaded the library, or is linked with it statically."""
        maps = (self.folder / "maps").read_bytes().decode(errors="replace")
        if any(library in maps for library in LIBRARIES):
            return True
        program = elf.read(self.folder / "exe")
        return program is not None and program.own_malloc == "HAKMEM"

    def options(self) -> dict[str, str]:
        """Returns the options as the library parses them: HAKMEM_CONF first, then the variables, in upper or lower case."""
        text = (self.folder / "environ").read_bytes().decode(errors="surrogateescape")
        pairs = [entry.partition("=") for entry in text.split("\0")]
        conf = ",".join(value for name, _, value in pairs if name == "HAKMEM_CONF")
        options = {name.lower(): value for name, colon, value in (pair.partition(":") for pair in conf.split(",")) if colon}
        for name, _, value in pairs:
            if name.startswith("HAKMEM_") and name != "HAKMEM_CONF":
                options[name[len("HAKMEM_") :].lower()] = value
        return options

    def memory(self) -> tuple[int, int]:
        """Returns the RSS and the PSS in bytes. The PSS counts a page that n processes share as 1/n of a page."""
        fields = [line.split() for line in (self.folder / "smaps_rollup").read_text().splitlines()[1:]]
        kib = {name: int(value) for name, value, *_ in fields}
        return kib["Rss:"] * 1024, kib["Pss:"] * 1024

    def option(self, name: str) -> str | None:
        """None also if the kernel does not show the environment."""
        try:
            return self.options().get(name)
        except PermissionError:
            return None

    def id_inside(self) -> str:
        """Returns the process id in the process's own namespace, which replaces %p."""
        for line in (self.folder / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1]
        return str(self.pid)

    def path_of(self, name: str) -> Path:
        """Resolves a path as the process does, in its directory and its file system. A child process has its own file, with its id in the name."""
        own = name.replace("%p", self.id_inside()) + (f"{self.id_inside()}.json" if name.endswith("/") else "")
        child = self.place_of("{0}.{2}{1}".format(*os.path.splitext(own), self.id_inside()))
        return child if own == name and child.exists() else self.place_of(own)

    def place_of(self, name: str) -> Path:
        same_root = os.path.samefile(self.folder / "root", "/")
        base = self.folder / "cwd" if not name.startswith("/") else Path("/") if same_root else self.folder / "root"
        return base / name.lstrip("/")


def served_processes() -> Iterator[Process]:
    """Yields the processes that HAKMEM serves, except those whose memory maps may not be read."""
    for folder in Path("/proc").glob("[0-9]*"):
        process = Process(int(folder.name))
        with suppress(OSError):
            if process.served():
                yield process


def find(pid: int) -> Process:
    process = Process(pid)
    if not process.alive():
        raise Trouble(f"there is no process {pid}")
    try:
        if not process.served():
            raise Trouble(
                f"process {pid} is not served by HAKMEM: its memory maps hold no libhakmem.so. "
                "Start it with `hakmem run -- program`; `hakmem doctor -- program` finds the cause"
            )
    except PermissionError:
        raise Trouble(f"process {pid}: its memory maps cannot be read: {refusal_reason(process)}") from None
    return process


def refusal_reason(process: Process) -> str:
    try:
        owner = process.folder.stat().st_uid
    except OSError:
        return "it has ended"
    if os.geteuid() not in (0, owner):
        try:
            user = pwd.getpwuid(owner).pw_name
        except KeyError:
            user = str(owner)
        return f"it belongs to another user ({user})"
    return "the kernel forbids it (ptrace_scope, a container without CAP_SYS_PTRACE, or a process that is not dumpable)"


def report_of(process: Process) -> Path:
    """Returns the report file of the process. Raises Trouble with advice if it writes none."""
    ours = folder_path() / PATTERN.replace("%p", str(process.pid))
    named = process.option("report")
    if not named and not ours.exists():
        raise Trouble(f"process {process.pid} is served by HAKMEM, but writes no report while it runs. Start it with `hakmem run --live -- program`")
    if not named:  # programs that set their title in ps overwrite their environment
        return ours
    if not named.endswith((".json", "/")):
        raise Trouble(f"process {process.pid} reports to {named}, which is not the JSON form (.json). Start it with `hakmem run --live -- program`")
    return process.path_of(named)


def explain_of(process: Process) -> Path | None:
    named = process.option("explain")
    return process.path_of(named) if named and named != "-" else None


PATTERN = "%p.json"


def folder_path() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "hakmem"
    return Path(f"/tmp/hakmem-{os.getuid()}")


def make_folder() -> Path:
    """Creates the folder, removes the reports of ended processes from it, and returns it. It must be private, because in /tmp, another owner of the
    folder could redirect the writes to any file."""
    folder = folder_path()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError as error:
        raise Trouble(f"no folder for live reports: {error}; use --no-live") from None
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise Trouble(f"{folder} is not a private folder of yours (mode 0700): remove it, or use --no-live")
    for file in folder.glob("*.json"):
        if file.stem.isdecimal() and not Path(f"/proc/{file.stem}").exists():
            file.unlink(missing_ok=True)
    return folder
