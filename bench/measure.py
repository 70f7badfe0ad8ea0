"""Makes one measured run, and checks it before its figures count.

A benchmark prints its figures. Of a real program, the launcher does. Three checks prove that the allocator served it: a program of ours finds
malloc in the allocator's library; HAKMEM's own count is equal to that of the program, or of a counting preload; and all allocators are preloaded
alike. HAKMEM counts in a run of its own, whose figures are not used, because counting takes time.
"""
import itertools
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import thp
from peers import Allocator
from point import Point, Workload
from programs import HERE, NAMED, Program

SERVED_SHARE = 0.999
RUN_TIMEOUT_S = 180
CLIENT_TIMEOUT_S = 10
COUNT_SYSCALLS = ("--syscalls",)
TRACE_RSS = ("--trace", "5")
# Options of allocators that the caller's shell may carry would bias the run.
FOREIGN = ("LD_", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "_RJEM_", "GLIBC_TUNABLES", "HAKMEM_")

Sample = dict[str, float]
Trace = list[list[float]]  # [milliseconds, KiB resident], or a program's own series


class BadRun(Exception):
    """A run whose figures must not be used, and why."""


def playable(points: list[Point]) -> tuple[list[Point], list[str]]:
    """The points whose programs are here, and a line for each that is not."""
    rows = {p.row: p.work.program for p in points if p.work.program}
    absent = {name for name in rows.values() if not NAMED[name].executable()}
    lines = [f"skipped {row}: there is no {NAMED[name].wanted}" for row, name in sorted(rows.items()) if name in absent]
    barred = {p.row for p in points if p.work.folios and not os.access(thp.FOLIOS, os.W_OK)}
    lines += [f"skipped {row}: {thp.FOLIOS} cannot be written" for row in sorted(barred)]
    return [p for p in points if p.work.program not in absent and p.row not in barred], lines


@dataclass
class Runner:
    bench_dir: Path
    quick: bool = False
    cpu_clock: bool = False
    hakmem_env: dict[str, str] = field(default_factory=dict)
    shell: dict[str, str] | None = None  # the environment of runs; None: the caller's
    timeout_s: float = RUN_TIMEOUT_S
    work_dirs: dict[str, tempfile.TemporaryDirectory] = field(default_factory=dict)
    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    proved: set[str] = field(default_factory=set)  # the commands whose calls HAKMEM has served

    def sample(self, work: Workload, allocator: Allocator) -> Sample:
        """One round's figures of a workload under an allocator."""
        if work.difference:
            return self._difference(work, allocator)
        runs = [self.run_once(work, allocator) for _ in range(work.repeat)]
        keys = set.intersection(*(set(run) for run in runs))
        return {key: statistics.median(run[key] for run in runs) for key in keys}

    def _difference(self, work: Workload, allocator: Allocator) -> Sample:
        """Start and end cost the same in both runs; the difference is the steady state."""
        once = self.run_once(work, allocator, factor=1, watch=COUNT_SYSCALLS)
        twice = self.run_once(work, allocator, factor=2, watch=COUNT_SYSCALLS)
        ops = twice["ops"] - once["ops"]
        counts = {"syscalls_per_op": "syscalls", "faults_per_op": "page_faults"}
        return {name: max(0.0, twice[count] - once[count]) / ops for name, count in counts.items()}

    def counted(self, work: Workload, allocator: Allocator) -> tuple[Sample, Trace]:
        """The figures of one run with its system calls, and the series that it printed; the times are not to be used."""
        program, launch = self._run(work, allocator, 1, COUNT_SYSCALLS if work.traced else ())
        return self._figures(work, program, launch), program.get("series", [])

    def trace(self, work: Workload, allocator: Allocator) -> Trace:
        """Resident memory over time."""
        _, launch = self._run(work, allocator, 1, TRACE_RSS)
        return launch["rss_trace"]

    def run_once(self, work: Workload, allocator: Allocator, factor: int = 1, watch: tuple[str, ...] = ()) -> Sample:
        program, launch = self._run(work, allocator, factor, watch)
        return self._figures(work, program, launch)

    def _run(self, work: Workload, allocator: Allocator, factor: int, watch: tuple[str, ...]) -> tuple[dict, dict]:
        """A benchmark's own JSON, and the launcher's."""
        made = self._make(work, allocator, factor, watch)
        if allocator.role == "hakmem" and work.command not in self.proved:
            self._make(work, allocator, 1, (), counted=True)
            self.proved.add(work.command)
        return made

    def _make(self, work: Workload, allocator: Allocator, factor: int, watch: tuple[str, ...], counted: bool = False) -> tuple[dict, dict]:
        with scratch_folder() as scratch, folios(work):
            report = {"HAKMEM_REPORT": str(scratch / "report.json")} if counted else {}
            if work.program:
                self.check_bound(allocator)
                program, launch = self._play(work, allocator, watch, scratch, more=report)
            else:
                env = self._environment(None, allocator, scratch) | report
                program, launch = self.execute(self.command(work, env, factor, watch))
                check_bound(program, allocator)
            if counted:
                check_served(self._calls(work) if work.program else program, scratch / "report.json")
        return program, launch

    def check_bound(self, allocator: Allocator) -> None:
        """Once: a preload that fails is only a warning to the loader."""
        if allocator.name not in self.bound:
            line = self.command(Workload("bench_idle"), allocator.environment(), 1, ())
            check_bound(self.execute(line)[0], allocator)
            self.bound.add(allocator.name)

    def _calls(self, work: Workload) -> dict[str, float]:
        if work.program not in self.calls:
            self.calls[work.program] = self._count(work)
        return self.calls[work.program]

    def _count(self, work: Workload) -> dict[str, float]:
        """The program's calls, minus those that may vary from run to run."""
        counting = Allocator("counting", self.bench_dir / "libcounting.so", "counting")
        with scratch_folder() as scratch:
            self._play(work, counting, (), scratch)
            served = json.loads((scratch / "report.json").read_text())["served"]
        share = NAMED[work.program].served_share
        return {f"calls_{call}": served[call] * share for call in ("malloc", "free")}

    def _play(self, work: Workload, allocator: Allocator, watch: tuple[str, ...], scratch: Path, under: Sequence[str] = (),
              more: dict[str, str] | None = None) -> tuple[dict, dict]:
        """Returns the figures that the program prints, and the launcher's. Under: a tool that runs the program, and its options. More: settings of
        the environment."""
        program = NAMED[work.program]
        env = self._environment(program, allocator, scratch, under) | (more or {})
        places = {"here": HERE, "work": self.work_dir(program), "scratch": scratch, "n": work.amount(self.quick)}
        words = [word.format(**places) for word in work.command.split()]
        if program.driver:
            words, env = [*words, *settings(env)], {}
        command = self.launcher(self._watch(work, watch, under), env)
        command += [*under, str(program.executable(words[0])), *words[1:]]
        with beside([word.format(**places) for word in program.client.split()]):
            lines, launch = self.launch(command)
        return parse_object(lines[-1], "the program's output") if program.prints else {}, launch

    def _watch(self, work: Workload, watch: tuple[str, ...], under: Sequence[str]) -> list[str]:
        return [*watch, "--warm", str(work.warm_mib)]

    def _environment(self, program: Program | None, allocator: Allocator, scratch: Path, under: Sequence[str] = ()) -> dict[str, str]:
        env = allocator.environment() | dict(program.env if program else ())
        if allocator.role == "counting":
            env["HAKMEM_REPORT"] = str(scratch / "report.json")
        if allocator.role == "hakmem":
            env |= self.hakmem_env
        if program and program.own_malloc and allocator.role in ("peer", "counting"):
            # The C library's comes before the one that the program is linked with.
            env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), "libc.so.6"]))
        return env

    def work_dir(self, program: Program) -> Path | None:
        if not program.prepare:
            return None
        if program.prepare not in self.work_dirs:
            folder = tempfile.TemporaryDirectory(prefix="hakmem-bench-work-")
            self.work_dirs[program.prepare] = folder
            line = program.prepare.format(here=HERE)
            done = subprocess.run(["sh", "-c", line], cwd=folder.name, env=own_environment(), capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                raise BadRun(f"its preparation failed: {done.stderr.strip()[-200:]}")
        return Path(self.work_dirs[program.prepare].name)

    def command(self, work: Workload, env: dict[str, str], factor: int, watch: tuple[str, ...]) -> list[str]:
        program, *args = work.argv(self.quick, factor)
        warm = ["--warm", str(work.warm_mib)] if work.warm_mib else []
        return [*self.launcher([*watch, *warm], env), str(self.bench_dir / program), "--json", *args]

    def launcher(self, options: list[str], env: dict[str, str]) -> list[str]:
        """What stands before the program in a command."""
        return [str(self.bench_dir / "launch"), *options, *settings(env), "--"]

    def execute(self, command: list[str]) -> tuple[dict, dict]:
        """The program's own JSON and the launcher's."""
        lines, launch = self.launch(command)
        if not lines:
            raise BadRun("the program printed nothing")
        return parse_object(lines[-1], "the program's output"), launch

    def launch(self, command: list[str]) -> tuple[list[str], dict]:
        """The program's lines and the launcher's JSON."""
        try:
            env = own_environment() if self.shell is None else self.shell
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise BadRun(f"no end after {self.timeout_s:.0f} s") from None
        lines = done.stdout.strip().splitlines()
        complaint = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if done.returncode != 0 or not lines:
            raise BadRun(f"the launcher failed: {complaint}")
        launch = parse_object(lines[-1], "the launcher's output")
        if launch["signal"]:
            raise BadRun(f"killed by signal {launch['signal']}: {complaint}")
        if launch["status"] != 0:
            raise BadRun(f"exit status {launch['status']}: {complaint}")
        return lines[:-1], launch

    def _figures(self, work: Workload, program: dict, launch: dict) -> Sample:
        figures = {k: float(v) for k, v in (program | launch).items() if isinstance(v, (int, float))}
        figures["max_rss_mib"] = figures["max_rss_kib"] / 1024
        figures |= mean_rss(launch)
        if work.program:
            return figures | {"cpu_s": launch["user_s"] + launch["system_s"]}
        for name, source in (("rss_mib", "rss_kib"), ("kib_per_thread", "bytes_per_thread")):
            if source in figures:
                figures[name] = figures[source] / 1024
        if self.cpu_clock and work.single_thread:
            cpu = {k: v for k, v in figures.items() if k.startswith("cpu_")}
            figures |= {k.removeprefix("cpu_"): v for k, v in cpu.items()}
            if figures.get("ns_per_op"):
                figures["mops_per_s"] = 1e3 / figures["ns_per_op"]
        return figures


@contextmanager
def folios(work: Workload) -> Iterator[None]:
    """Lets the kernel give folios of 64 KiB to the run. The setting is the whole machine's, so it is put back after each run."""
    with thp.mode("always" if work.folios else None, thp.FOLIOS) as refused:
        if refused:
            raise BadRun(refused)
        yield


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as folder:
        yield Path(folder)


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


def settings(env: dict[str, str]) -> list[str]:
    """Returns the options that set these variables for the measured program."""
    return [word for name, value in env.items() for word in ("--env", f"{name}={value}")]


def own_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}


def mean_rss(launch: dict) -> Sample:
    """Over time, where the launcher saw it."""
    return {"mean_rss_mib": mean_kib(launch["rss_trace"]) / 1024} if launch.get("rss_trace") else {}


def mean_kib(trace: Trace) -> float:
    """Each moment stands for the time until the next."""
    spans = [(after - at, kib) for (at, kib), (after, _) in itertools.pairwise(trace) if after > at]
    whole = sum(span for span, _ in spans)
    return sum(span * kib for span, kib in spans) / whole if whole else trace[-1][1]


def parse_object(text: str, what: str) -> dict:
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    raise BadRun(f"{what} is not a JSON object: {text[:80]!r}")


def check_bound(program: dict, allocator: Allocator) -> None:
    """A preload that fails is a warning to the loader; here it is an error."""
    bound = str(program.get("malloc_from", "?"))
    expected = os.path.realpath(allocator.library) if allocator.library else "libc.so.6"
    if not (os.path.realpath(bound) == expected if allocator.library else os.path.basename(bound).startswith("libc.so")):
        raise BadRun(f"malloc came from {bound}, not from {expected}")


def check_served(program: dict, report: Path) -> None:
    """HAKMEM's own count of calls against the program's. It counts blocks handed
    out, and a realloc in place hands out none: realloc only where it is counted."""
    try:
        served = parse_object(report.read_text(), "the report").get("served")
    except OSError as error:
        raise BadRun(f"no HAKMEM_REPORT: {error.strerror}") from None
    if not isinstance(served, dict):
        raise BadRun('the report has no "served" counts')
    for call in sorted({"malloc", "free"} | served.keys()):
        made, counted = program.get(f"calls_{call}", 0), served.get(call, 0)
        if not isinstance(counted, (int, float)) or counted < made * SERVED_SHARE:
            raise BadRun(f"HAKMEM served {counted} of {made} calls of {call}")
