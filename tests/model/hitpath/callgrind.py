"""Runs a program under callgrind, which counts exactly, and reads the output of callgrind."""
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

VALGRIND = shutil.which("valgrind")
MISSING = "no valgrind here (tools/packages/test.txt names it): skipped"


@dataclass
class Profile:
    # object, function, instructions of the function itself
    costs: list[tuple[str, str, int]] = field(default_factory=list)
    # object, called object, called function, number of calls, instructions of the called function and of the functions that it calls
    calls: list[tuple[str, str, str, int, int]] = field(default_factory=list)

    def instructions(self, library: str) -> int:
        """Returns the instructions of the library itself."""
        own = os.path.realpath(library)
        return sum(cost for code, _, cost in self.costs if code == own)

    def in_plt(self) -> int:
        return sum(cost for _, function, cost in self.costs if function.endswith("[PLT]"))

    def calls_out(self, library: str) -> Iterator[tuple[str, int]]:
        """Returns (function, number of calls) of the library's calls to other libraries."""
        own = os.path.realpath(library)
        return ((name, times) for code, called, name, times, _ in self.calls if code == own != called)

    def instructions_with_libc(self, library: str) -> int:
        """Returns the instructions of the library, and of the C library's functions that it calls, for example to copy in realloc."""
        own = os.path.realpath(library)
        return self.instructions(library) + sum(
            cost for code, called, *_, cost in self.calls if code == own and Path(called).name.startswith("libc.so"))


def read(text: str) -> Profile:
    found = Profile()
    code = function = called = callee = ""
    times = 0
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        if kind == "ob":
            code = called = rest
        elif kind == "fn":
            function = rest
        elif kind == "cob":
            called = rest
        elif kind == "cfn":
            callee = rest
        elif kind == "calls":
            times = int(rest.split()[0])
        elif line[:1].isdigit():
            cost = int(line.split()[-1])
            if times > 0:
                found.calls.append((code, called, callee, times, cost))
            else:
                found.costs.append((code, function, cost))
            called, times = code, 0
    return found


def profile(command: list[str], environment: dict[str, str], *options: str) -> Profile:
    """Runs a command with only the given environment, so that the size of the environment is the same everywhere. Valgrind begins as a shell script,
    and the preloaded library serves this shell too. PWD is set because the shell allocates less with it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "profile"
        outcome = subprocess.run(
            [VALGRIND, "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={out}", *options, *command],
            check=False, timeout=500, cwd="/", env={"PWD": "/", **environment},
            capture_output=True, text=True)
        if outcome.returncode != 0 or "cannot be preloaded" in outcome.stderr:
            raise SystemExit(f"callgrind: {' '.join(command)} failed: {outcome.stderr}")
        return read(out.read_text())
