"""Runs programs through the process that starts and measures them. Makes the candidates of `hakmem tune`, which are named profiles and random values
of the options that trade memory for time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hakmem import launcher
from hakmem.library import preload
from hakmem.options import option_text, variable
from hakmem.trouble import Trouble

TIMEOUT_S = 600.0
Run = dict[str, float]


class Launcher:
    """The process that starts and measures programs; see launcher.py."""

    def __init__(self, library: Path, command: list[str], timeout: float = TIMEOUT_S) -> None:
        self.library, self.command, self.timeout, self.warm_bytes = library, command, timeout, 0
        self.inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        own = {name: value for name, value in self.inherited.items() if name != "LD_PRELOAD"}
        command = [sys.executable, "-I", "-S", launcher.__file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=own, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()

    def run(self, candidate: Candidate, output: str = os.devnull, **more: str) -> Run:
        setting = {variable(name): value for name, value in {**candidate.options, **more}.items()}
        if candidate.hakmem:
            setting["LD_PRELOAD"] = preload(self.library, self.inherited)
        elif "LD_PRELOAD" in self.inherited:
            setting["LD_PRELOAD"] = self.inherited["LD_PRELOAD"]
        reply, said = self.measure(self.command, setting, output)
        if reply.get("late"):
            raise Trouble(f"with {candidate.name} the program ran longer than {self.timeout:.0f} s: it must end by itself")
        return reply | {"said": said[-1000:]}

    def measure(self, command: list[str], setting: dict[str, str], output: str = os.devnull) -> tuple[Run, str]:
        """Returns the figures of one run, and what it wrote to stderr. Its standard output goes to a file."""
        with tempfile.NamedTemporaryFile(prefix="hakmem-run-") as errors:
            request = {"command": command, "set": setting, "errors": errors.name, "output": output}
            reply = self.ask(request | {"warm_bytes": self.warm_bytes, "timeout": self.timeout})
            return reply, errors.read().decode(errors="replace").strip()

    def ask(self, request: dict) -> dict:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise Trouble("the launcher ended unexpectedly")
        return json.loads(line)


PROFILES = ("throughput", "balanced", "compact")
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Range:
    """A range from which values are drawn log-uniformly. One draw in six gives `also`, a value outside the range, if there is one."""

    low: int
    high: int
    also: int | None = None

    def draw(self, chance: random.Random) -> int:
        if self.also is not None and chance.random() < 1 / 6:
            return self.also
        drawn = round(self.low * (self.high / self.low) ** chance.random())
        return drawn if self.high < 4096 else rounded(drawn)


# The ranges are within the bounds of options.def, and are no wider than useful for a program that ends within minutes.
RANGES = {
    "thread_cache": Range(64 * KIB, 256 * MIB),
    "depot": Range(64 * KIB, 256 * MIB, also=0),
    "refill": Range(10, 100),
    "hot_turns": Range(1, 64),
    "drain_slabs": Range(1, 1024),
    "purge_delay": Range(1, 60_000, also=0),
    "large_cache": Range(1 * MIB, 4096 * MIB, also=0),
    "large_fit": Range(100, 400),
    "huge_pages_from": Range(1 * MIB, 1024 * MIB, also=0),
    "huge_blocks_from": Range(1 * MIB, 64 * MIB, also=0),
}
LEAST_CHANGED, MOST_CHANGED = 1, 4


@dataclass(frozen=True)
class Candidate:
    """The settings of a run, which are options of HAKMEM. If `hakmem` is False, the run uses the system's malloc."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    hakmem: bool = True


DEFAULT = Candidate("default")
GLIBC = Candidate("glibc", hakmem=False)


def rounded(value: int) -> int:
    """Rounds the value down to about three significant bits, so that it is readable."""
    step = 1 << max(0, value.bit_length() - 3)
    return value // step * step


def draw(count: int, chance: random.Random, known: Mapping[str, object]) -> list[Candidate]:
    """Returns distinct random settings of the options that this library has."""
    names = [name for name in RANGES if name in known]
    found: dict[str, Candidate] = {}
    for _ in range(count * 4):
        if len(found) >= count or not names:
            break
        changed = chance.sample(names, min(len(names), chance.randint(LEAST_CHANGED, MOST_CHANGED)))
        options = {name: str(RANGES[name].draw(chance)) for name in sorted(changed)}
        label = ", ".join(f"{name} {option_text(name, value)}" for name, value in options.items())
        found.setdefault(label, Candidate(label, options))
    return list(found.values())


def named(known: Mapping[str, object]) -> list[Candidate]:
    """Returns the named profiles, if the library supports profiles."""
    return [Candidate(name, {"profile": name}) for name in PROFILES] if "profile" in known else []
