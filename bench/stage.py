"""Prepares the run of a real program, and checks it.

The program prints no figures: the launcher does. Three checks prove that the
allocator served it: a program of ours finds malloc in the allocator's library;
HAKMEM's own count for the real one is equal to that of a counting preload; and
all allocators are preloaded alike.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from measure import BadRun, Runner, Sample, check_bound, check_served, mean_rss, own_environment
from peers import Allocator
from point import Point, Workload
from programs import HERE, NAMED, Program

PREPARE_TIMEOUT_S = 120
CLIENT_TIMEOUT_S = 10


def playable(points: list[Point]) -> tuple[list[Point], list[str]]:
    """The points whose programs are here, and a line for each that is not."""
    rows = {p.row: p.work.program for p in points if p.work.program}
    absent = {name for name in rows.values() if not NAMED[name].executable()}
    lines = [f"skipped {row}: there is no {NAMED[name].wanted}" for row, name in sorted(rows.items()) if name in absent]
    return [p for p in points if p.work.program not in absent], lines


@dataclass
class Stage(Runner):
    """A Runner that knows real programs, too."""

    work_dirs: dict[str, tempfile.TemporaryDirectory] = field(default_factory=dict)
    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)

    def _run(self, work: Workload, allocator: Allocator, factor: int, watch: tuple[str, ...]) -> tuple[dict, dict]:
        if not work.program:
            return super()._run(work, allocator, factor, watch)
        self._check_bound(allocator)
        if allocator.role == "hakmem" and work.program not in self.calls:
            self.calls[work.program] = self._count(work)
        with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
            launch = self._play(work, allocator, watch, Path(scratch))
            if allocator.role == "hakmem":
                check_served(self.calls[work.program], Path(scratch) / "report.json")
        return {}, launch

    def _figures(self, work: Workload, program: dict, launch: dict) -> Sample:
        if not work.program:
            return super()._figures(work, program, launch)
        figures = {k: float(v) for k, v in launch.items() if isinstance(v, (int, float))}
        return figures | {
            "cpu_s": launch["user_s"] + launch["system_s"],
            "max_rss_mib": launch["max_rss_kib"] / 1024,
            **mean_rss(launch),
        }

    def _check_bound(self, allocator: Allocator) -> None:
        """Once: a preload that fails is only a warning to the loader."""
        if allocator.name not in self.bound:
            line = self.command(Workload("bench_idle"), allocator.environment(), 1, ())
            check_bound(self.execute(line)[0], allocator)
            self.bound.add(allocator.name)

    def _count(self, work: Workload) -> dict[str, float]:
        """The program's calls, minus those that may vary from run to run."""
        counting = Allocator("counting", self.bench_dir / "libcounting.so", "counting")
        with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
            self._play(work, counting, (), Path(scratch))
            served = json.loads((Path(scratch) / "report.json").read_text())["served"]
        share = NAMED[work.program].served_share
        return {f"calls_{call}": served[call] * share for call in ("malloc", "free")}

    def _play(self, work: Workload, allocator: Allocator, watch: tuple[str, ...], scratch: Path, under: Sequence[str] = ()) -> dict:
        """Under: a tool that runs the program, and its options."""
        program = NAMED[work.program]
        env = self._environment(program, allocator, scratch, under)
        places = {"here": HERE, "work": self._work_dir(program), "scratch": scratch}
        words = fill(work.argv(self.quick), places)
        command = self.launcher(self._watch(work, watch, under), env)
        command += [*under, str(program.executable(words[0])), *words[1:]]
        client = program.client.replace("{n}", str(work.amount(self.quick))).split()
        with beside(fill(client, places)):
            return self.launch(command)[1]

    def _watch(self, work: Workload, watch: tuple[str, ...], under: Sequence[str]) -> list[str]:
        return [*watch, "--warm", str(work.warm_mib)]

    def _environment(self, program: Program, allocator: Allocator, scratch: Path, under: Sequence[str] = ()) -> dict[str, str]:
        env = allocator.environment() | dict(program.env)
        if allocator.role == "counting":
            env["HAKMEM_REPORT"] = str(scratch / "report.json")
        if allocator.role == "hakmem":
            env |= self.hakmem_env | {"HAKMEM_REPORT": str(scratch / "report.json")}
        if program.own_malloc and allocator.role in ("peer", "counting"):
            # The C library's comes before the one that the program is linked with.
            env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), "libc.so.6"]))
        return env

    def _work_dir(self, program: Program) -> Path | None:
        if not program.prepare:
            return None
        if program.prepare not in self.work_dirs:
            folder = tempfile.TemporaryDirectory(prefix="hakmem-bench-work-")
            self.work_dirs[program.prepare] = folder
            line = program.prepare.replace("{here}", str(HERE))
            done = subprocess.run(
                ["sh", "-c", line], cwd=folder.name, env=own_environment(), capture_output=True, text=True, timeout=PREPARE_TIMEOUT_S
            )
            if done.returncode != 0:
                raise BadRun(f"its preparation failed: {done.stderr.strip()[-200:]}")
        return Path(self.work_dirs[program.prepare].name)


def fill(words: list[str], places: dict[str, Path | None]) -> list[str]:
    for name, place in places.items():
        words = [word.replace(f"{{{name}}}", str(place)) for word in words]
    return words


@contextmanager
def beside(words: list[str]) -> Iterator[None]:
    """A client of the program: all its requests must succeed."""
    if not words:
        yield
        return
    client = subprocess.Popen(words, env=own_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with client:
        try:
            yield
            _, complaint = client.communicate(timeout=CLIENT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BadRun("its client did not end") from None
        finally:
            client.kill()
    if client.returncode != 0:
        raise BadRun(f"its client failed: {complaint.strip()[-200:]}")
