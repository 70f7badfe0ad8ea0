"""Describes the machine and the software of a result."""
import hashlib
import json
import os
import platform
import re
import subprocess
from pathlib import Path

import thp

CPU = Path("/sys/devices/system/cpu")


def describe() -> dict[str, str]:
    """What does not change between two runs on one machine."""
    return {
        "cpu": re.sub(r"\s+", " ", cpu_field("model name")),
        "processors": str(os.cpu_count()),
        "caches": caches(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "virtual": "yes" if "hypervisor" in cpu_field("flags").split() else "no",
        "frequency governor": first_line(CPU / "cpu0/cpufreq/scaling_governor", "none"),
        "kernel": platform.release(),
        "system": system_name(),
        "libc": " ".join(platform.libc_ver()),
        "compiler": output(["cc", "--version"]).split("\n")[0] or "none",
        "huge pages": thp.current() or "unknown",
        "huge pages, defrag": thp.current(thp.FILE.with_name("defrag")) or "unknown",
        "python": platform.python_version(),
    }


def paging(program: Path) -> dict[str, float]:
    """What a fault and a miss in the TLB take here, in ns; -1: pages of that size are not to be had."""
    said = output([str(program)])
    return json.loads(said) if said else {}


def stolen() -> tuple[int, int]:
    """Ticks of all processors since the start: those that the host gave to other guests, and all."""
    ticks = [int(word) for word in first_line(Path("/proc/stat"), "cpu").split()[1:9]]
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


def stolen_since(before: tuple[int, int]) -> float:
    now = stolen()
    return (now[0] - before[0]) / max(1, now[1] - before[1])


def hakmem(library: Path | None) -> dict[str, str]:
    """The library, and the state of the tree that it lies in."""
    if library is None:
        return {}
    tree = library.resolve().parent
    version = re.search(r"\.so\.(\d+\.\d+.*)", library.resolve().name)
    changed = output(["git", "-C", str(tree), "status", "--porcelain", "--untracked-files=no"])
    return {
        "version": version[1] if version else "unknown",
        "commit": output(["git", "-C", str(tree), "rev-parse", "HEAD"]) or "unknown",
        "uncommitted changes": "yes" if changed else "no",
        "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
    }


def cpu_field(name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1].strip() if found else "unknown"


def caches() -> str:
    """Of the first processor: "L1d 32K, L1i 32K, L2 1024K, L3 33792K"."""
    found = []
    for cache in sorted((CPU / "cpu0/cache").glob("index*")):
        kind = {"Data": "d", "Instruction": "i"}.get(first_line(cache / "type"), "")
        found.append(f"L{first_line(cache / 'level')}{kind} {first_line(cache / 'size')}")
    return ", ".join(found) or "unknown"


def system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def first_line(path: Path, otherwise: str = "unknown") -> str:
    try:
        return path.read_text().splitlines()[0]
    except (OSError, IndexError):
        return otherwise


def output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
