"""Runs the programs that read heap profiles, and returns the bytes by function that each reports."""
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

UNITS = {"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def output(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=500).stdout


def go_pprof(program: str, profile: str, index: str) -> dict[str, float]:
    text = output("go", "tool", "pprof", "-symbolize=local", "-nodefraction=0", f"-sample_index={index}_space", "-text", program, profile)
    rows = re.findall(r"^\s*([\d.]+)([kMG]?B?)\s+[\d.]+%\s+[\d.]+%\s+[\d.]+[kMG]?B?\s+[\d.]+%\s+(\S+)", text, re.MULTILINE)
    return {name: float(number) * UNITS[unit] for number, unit, name in rows}


def perl_pprof(command: str) -> Callable[[str, str, str], dict[str, float]]:
    def read(program: str, profile: str, index: str) -> dict[str, float]:
        text = output(command, "--text", "--show_bytes", "--nodefraction=0", f"--{index}_space", program, profile)
        rows = re.findall(r"^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+\d+\s+[\d.]+%\s+(\S+)", text, re.MULTILINE)
        return {name: float(number) for number, name in rows}
    return read


@dataclass(frozen=True)
class Reader:
    name: str
    read: Callable[[str, str, str], dict[str, float]]  # takes (program, profile, "inuse" or "alloc") and returns bytes by function


def present() -> list[Reader]:
    found = [Reader(name, perl_pprof(name)) for name in ("google-pprof", "jeprof") if shutil.which(name)]
    return found + ([Reader("go tool pprof", go_pprof)] if shutil.which("go") else [])
