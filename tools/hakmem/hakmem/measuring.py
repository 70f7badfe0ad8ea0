"""Runs programs with the settings of candidates, through the process that starts and measures them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hakmem import launcher
from hakmem.candidates import Candidate
from hakmem.library import preload
from hakmem.options import variable
from hakmem.trouble import Trouble

TIMEOUT_S = 600.0
Run = dict[str, float]


class Launcher:
    """The process that starts and measures programs; see launcher.py."""

    def __init__(self, library: Path, command: list[str], timeout: float = TIMEOUT_S) -> None:
        self.library, self.command, self.timeout, self.warm_bytes = library, command, timeout, 0
        self.inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        own = {name: value for name, value in self.inherited.items() if name != "LD_PRELOAD"}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__],
            stdin=subprocess.PIPE,
            env=own,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()

    def run(self, candidate: Candidate, **more: str) -> Run:
        setting = {variable(name): value for name, value in {**candidate.options, **more}.items()}
        if candidate.hakmem:
            setting["LD_PRELOAD"] = preload(self.library, self.inherited)
        elif "LD_PRELOAD" in self.inherited:
            setting["LD_PRELOAD"] = self.inherited["LD_PRELOAD"]
        reply, said = self.measure(self.command, setting)
        if reply.get("late"):
            raise Trouble(f"with {candidate.name} the program ran longer than {TIMEOUT_S:.0f} s: it must end by itself")
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
