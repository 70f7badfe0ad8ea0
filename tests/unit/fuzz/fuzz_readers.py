#!/usr/bin/env python3
"""Changes at random what the tool reads: reports, the log of decisions, ELF files, /proc and /sys. Each reader shows something or
raises Trouble, which the tool prints as one line; anything else would be a traceback.

    fuzz_readers.py LIBRARY PROGRAM [--rounds N] [--seconds S] [--seed K]    PROGRAM runs on the library and leaves a report and a log

A fault prints its input and ends with 1; --seed with the number of the round makes it again.
"""

import argparse
import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from hakmem import cli, doctor, elf, explain, options, page, reports, top
from hakmem.trouble import Trouble

ODD = (None, True, False, 0, -1, 1.5, 1e308, -1e308, float("nan"), float("inf"), 10**30, 10**400, "", "x", "\u0000", "[bold]", "</script>",
       "\ud800", "STEADY", "%p", [], {}, [[]], {"": None}, {"misses": "x"}, [None, 1, "x"])
PIECES = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"\xff", b"\\ud800", b"\n", b"9" * 5000, b"[" * 3000)
FILES = ("proc/meminfo", "proc/swaps", "proc/self/cgroup", "proc/self/mountinfo", "proc/sys/vm/max_map_count", "proc/sys/vm/overcommit_memory",
         "proc/sys/vm/overcommit_ratio", "proc/pressure/memory", "sys/kernel/mm/transparent_hugepage/enabled",
         "sys/kernel/mm/transparent_hugepage/defrag", "sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "sys/fs/cgroup/memory.max",
         "sys/fs/cgroup/a/memory.max", "sys/fs/cgroup/a/memory.high", "sys/fs/cgroup/a/cpu.max", "proc/version", "proc/sys/vm/swappiness")
WORDS = ("0::/a", "0::/", "max", "1", "0", "-1", "123456789012345678901234567890", "always [madvise] never", "[never]", "MemTotal:", "MemAvailable:  12 kB",
         "MemTotal: x kB", "SwapTotal:", "SwapTotal: 0 kB", "some avg10=0.00 avg60=1.5 avg300=x total=7", "avg10=", "\n", " ", "5000 100000", "max 0", "0 0", "é", "\x00")




def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del data[at : at + rng.choice((1, 2, 40, 4000))]
        elif kind == 1:
            data[at:at] = rng.choice(PIECES)
        elif kind == 2 and data:
            data[at % len(data)] = rng.randrange(256)
        else:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start : start + rng.randrange(60)]
    return bytes(data)


def changed_value(value: object, rng: random.Random, depth: int = 0) -> object:
    """The same with some values replaced, left out, or in another place."""
    if rng.random() < 0.02 * (depth + 1):
        return rng.choice(ODD)
    if isinstance(value, dict):
        kept = {key: changed_value(part, rng, depth + 1) for key, part in value.items() if rng.random() > 0.01}
        if rng.random() < 0.02:
            kept[rng.choice(("", "live", "size", "tier", "\ud800", "[/]"))] = rng.choice(ODD)
        return kept
    if isinstance(value, list):
        return [changed_value(part, rng, depth + 1) for part in value if rng.random() > 0.01] * rng.choice((1, 1, 1, 0, 2))
    return value


def changed_text(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return changed_bytes(data, rng)
    lines = data.splitlines() if data.count(b"\n{") > 3 else [data]
    changed = []
    for line in lines:
        try:
            changed.append(json.dumps(changed_value(json.loads(line), rng)).encode())
        except ValueError:
            changed.append(line)
    return b"\n".join(changed)


def show_reports(folder: Path, seeds: list[bytes], log: bytes, rng: random.Random) -> None:
    files = []
    for number in range(rng.randint(1, 3)):
        files.append(folder / f"{number}.json")
        files[-1].write_bytes(changed_text(rng.choice(seeds), rng))
    (folder / "log").write_bytes(changed_text(log, rng))
    width = rng.choice((20, 60, 100, 200))
    console = cli.console()
    console.file, console.size = io.StringIO(), (width, rng.choice((5, 24, 60)))
    found = reports.read_all(files if rng.random() < 0.7 else [folder])
    decisions = explain.read(folder / "log")
    explain.check_process(folder / "log", found[-1])
    explain.tail(folder / "log", 5)
    page.show(found, decisions, console)
    (folder / "page.html").write_text(page.page(found, decisions))
    for before, now in zip([None, *found], found):
        console.print(top.frame("title", top.step_of(before, now, 1.0), decisions, width, rng.choice((5, 24, 60))))
    console.file.getvalue().encode(errors="surrogatepass")


def read_elf(folder: Path, program: bytes, rng: random.Random) -> None:
    path = folder / "program"
    head = bytearray(program[: rng.choice((70, 500, len(program)))])
    for _ in range(rng.randint(1, 8)):
        if head:
            head[rng.randrange(min(len(head), rng.choice((64, 1024, len(head)))))] = rng.choice((0, 1, 255, rng.randrange(256)))
    path.write_bytes(head)
    elf.read(path)
    elf.why_not_served(path)
    elf.note_on(path)


def read_system(folder: Path, rng: random.Random) -> None:
    for name in FILES:
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.2:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(" ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 5))).encode() + (b"\xff" if rng.random() < 0.05 else b""))
    for line in doctor.environment_lines(doctor.System(folder / "root")):
        assert line.subject, line


def check_option(rng: random.Random) -> None:
    name = rng.choice([*options.table(), "", "nothing"])
    value = "".join(rng.choice((*WORDS, "k", "m", "g", "%", "on", "compact", "/", "9" * 30)) for _ in range(rng.randint(0, 3)))
    options.check(name, value, "it")
    options.option_text(name, rng.choice((None, True, -1, 1.5, 10**15, [], {}, value)))  # as a report holds them


def read_real(library: str, program: str, folder: Path) -> tuple[list[bytes], bytes]:
    """Reports and a log as the library writes them."""
    found = []
    for number, more in enumerate(({}, {"HAKMEM_SITE_RULES": "watch", "HAKMEM_HEAP_SAMPLE": "4k", "HAKMEM_BIN_CAP": "3"})):
        path = folder / f"real{number}.json"
        env = os.environ | {"LD_PRELOAD": library, "HAKMEM_REPORT": str(path), "HAKMEM_EXPLAIN": str(folder / "real.log")} | more
        subprocess.run([program], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        found.append(path.read_bytes())
    path = folder / "real.log"
    log = path.read_bytes() if path.exists() else b""
    decision = {"ms": 900, "who": "phase", "what": "state", "old": "STEADY", "new": "BURST", "unit": "", "seen": {"misses": 1200}, "why": "misses rose"}
    return found, log + b"".join(json.dumps(decision | {"ms": ms, "class": ms % 5}).encode() + b"\n" for ms in range(0, 900, 90))


def one_round(number: int, rng: random.Random, folder: Path, seeds: list[bytes], log: bytes, program: bytes) -> None:
    kind = number % 4
    with contextlib.suppress(Trouble):
        if kind == 0:
            read_elf(folder, program, rng)
        elif kind == 1:
            read_system(folder, rng)
        elif kind == 2:
            check_option(rng)
        else:
            show_reports(folder, seeds, log, rng)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("library")
    given.add_argument("program")
    given.add_argument("--rounds", type=int, default=1 << 60)
    given.add_argument("--seconds", type=float, default=1e9)
    given.add_argument("--seed", type=int, default=int(time.time()))
    given.add_argument("--round", type=int, help="this one alone")
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds, log = read_real(asked.library, asked.program, folder)
        program, until, number = Path(asked.program).read_bytes(), time.monotonic() + asked.seconds, asked.round or 0
        last = number + 1 if asked.round is not None else asked.rounds
        while number < last and time.monotonic() < until:
            try:
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    one_round(number, random.Random(asked.seed * 1000003 + number), Path(work), seeds, log, program)
            except Exception:  # noqa: BLE001  that is what is looked for
                traceback.print_exc()
                sys.exit(f"fuzz_readers: a reader fails: --seed {asked.seed} --round {number}")
            number += 1
    print(f"fuzz_readers: {number} rounds, seed {asked.seed}")


if __name__ == "__main__":
    main()
