"""Counts the costs of whole programs: instructions and misses under cachegrind; page faults, system calls and memory of an ordinary run.

No figure is a time, so runs may go on side by side, one a processor, and other programs do not change the result. Sources of variation are fixed:
addresses, the environment (bare, and of one size for all allocators), hash seeds, and under cachegrind, where a program is fifty times slower, the
clock: each call of it returns a microsecond more.
"""
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import cachegrind
from measure import BadRun, Runner, Sample, Trace, check_bound, check_served, mean_kib, parse_object, scratch_folder
from peers import Allocator
from point import Point, Workload
from programs import NAMED, Program
from progress import Bar
from results import Measured, refusals

ORDINARY_RUNS = 3  # their faults and memory vary a little
TRACE_MS = "2"
TIMEOUT_S = 3000
SHELL = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/", "PWD": "/"}
FILLER = "FILLER"
# The looks of a Laboratory at a program that give figures, and one figure of each; first those under cachegrind.
SIMULATED = {"instructions": "instructions_m", "caches": "instructions_m", "tlbs": "tlb_small_k"}
FIGURE = SIMULATED | {"memory": "page_faults", "system_calls": "system_calls"}
LOOKS = ("caches", "tlbs", *("memory",) * ORDINARY_RUNS, "system_calls", "served")


@dataclass
class Laboratory(Runner):
    """A Runner where all is held fast."""

    shell: dict[str, str] | None = field(default_factory=lambda: dict(SHELL))
    timeout_s: float = TIMEOUT_S
    allocators: list[Allocator] = field(default_factory=list)

    def instructions(self, work: Workload, allocator: Allocator) -> Sample:
        return {"instructions_m": self._simulated(work, allocator, ("--cache-sim=no",)).totals["Ir"] / 1e6}

    def caches(self, work: Workload, allocator: Allocator) -> Sample:
        seen = self._simulated(work, allocator, cachegrind.CACHES)
        counts = {"instructions": seen.totals["Ir"], "i1_misses": seen.totals["I1mr"], "d1_misses": seen.misses("D1"),
                  "l2_misses": seen.misses("DL") + seen.totals["ILmr"]}
        return {f"{name}_m": count / 1e6 for name, count in counts.items()}

    def tlbs(self, work: Workload, allocator: Allocator) -> Sample:
        seen = self._simulated(work, allocator, cachegrind.TLBS)
        return {"tlb_small_k": seen.misses("D1") / 1e3, "tlb_huge_k": seen.misses("DL") / 1e3}

    def memory(self, work: Workload, allocator: Allocator) -> tuple[Sample, Trace]:
        """Of an ordinary run, which is looked at from outside."""
        launch = self._ordinary(work, allocator, ("--trace", TRACE_MS, "--own-time"))
        peak = launch["max_rss_kib"]
        trace = launch["rss_trace"] or [[0, peak]]  # a run may end before it was looked at
        mib = {"peak_mib": peak / 1024, "mean_mib": mean_kib(trace) / 1024, "huge_mib": launch["huge_kib"] / 1024}
        return {"page_faults": launch["minor_faults"], **mib}, trace

    def system_calls(self, work: Workload, allocator: Allocator) -> Sample:
        return {"system_calls": self._ordinary(work, allocator, ("--syscalls",))["syscalls"]}

    def served(self, work: Workload, allocator: Allocator) -> Sample:
        """HAKMEM's own count of calls: a run of its own, for the report costs something."""
        made = self._count(work)
        with scratch_folder() as scratch:
            report = scratch / "report.json"
            self._play(work, allocator, ("--env", f"HAKMEM_REPORT={report}"), scratch)
            check_served(made, report)
        return {}

    def check_preload(self, allocator: Allocator) -> None:
        """Under cachegrind, too, malloc is found in the allocator's library."""
        with scratch_folder() as scratch:
            under = cachegrind.command(cachegrind.CACHES, scratch / "out")
            words = self.command(Workload("bench_idle"), self._simulation(allocator.environment()), 1, ())
            at = words.index("--") + 1
            lines, _ = self.launch(words[:at] + under + words[at:])
            check_bound(parse_object(lines[-1], "bench_idle's output"), allocator)

    def _ordinary(self, work: Workload, allocator: Allocator, watch: tuple[str, ...]) -> dict:
        with scratch_folder() as scratch:
            return self._play(work, allocator, watch, scratch)[1]

    def _simulated(self, work: Workload, allocator: Allocator, shape: tuple[str, ...]) -> cachegrind.Counts:
        with scratch_folder() as scratch:
            out = scratch / "out"
            self._play(work, allocator, (), scratch, cachegrind.command(shape, out))
            counts = cachegrind.read(out.read_text(errors="replace"))
        cachegrind.check_ran(counts, allocator.library)
        return counts

    def _watch(self, work: Workload, watch: tuple[str, ...], under: Sequence[str]) -> list[str]:
        warm = [] if under else ["--warm", str(work.warm_mib)]
        return ["--fixed", *watch, *warm]

    def _environment(self, program: Program, allocator: Allocator, scratch: Path, under: Sequence[str] = ()) -> dict[str, str]:
        if allocator.role == "counting":
            return super()._environment(program, allocator, scratch, under)

        def bare(of: Allocator) -> dict[str, str]:
            env = of.environment() | dict(program.env) | (self.hakmem_env if of.role == "hakmem" else {})
            return self._simulation(env) if under else env

        return leveled(bare(allocator), [bare(other) for other in self.allocators])

    def _simulation(self, env: dict[str, str]) -> dict[str, str]:
        clock = str(self.bench_dir / "libslow_clock.so")
        return env | {"LD_PRELOAD": ":".join(filter(None, [env.get("LD_PRELOAD"), clock]))}


def leveled(env: dict[str, str], every: list[dict[str, str]]) -> dict[str, str]:
    """Pads the environment, so that the stack begins at the same place for all."""

    def size(of: dict[str, str]) -> int:
        return sum(len(name) + len(value) for name, value in of.items())

    count = max(len(other) for other in every) + 1
    fillers = {f"{FILLER}{n}": "" for n in range(count - len(env))}
    most = max(size(other) + (count - len(other)) * len(f"{FILLER}0") for other in every)
    fillers[f"{FILLER}0"] = "x" * (most - size(env) - size(fillers))
    return env | fillers


def together(parts: list[Sample]) -> list[Sample]:
    """A sample for each ordinary run: its figures, and those that were counted once (of an allocator that does not start under valgrind those of
    ordinary runs alone). Misses of the TLB are of pages as the process had them: as far as its memory, when it was largest, stood on huge pages,
    the misses of huge ones, and for the rest those of small ones."""
    once = {n: v for part in parts if "page_faults" not in part for n, v in part.items()}
    samples = [once | part for part in parts if "page_faults" in part]
    for sample in samples:
        huge = sample["huge_share"] = min(1.0, sample["huge_mib"] / sample["peak_mib"])
        if "tlb_small_k" in sample:
            sample["tlb_misses_k"] = (1 - huge) * sample["tlb_small_k"] + huge * sample["tlb_huge_k"]
    return samples


Look = Callable[[Workload, Allocator], "Sample | tuple[Sample, Trace]"]


@dataclass
class Exact:
    """All programs on all allocators, one run a processor."""

    laboratory: Laboratory
    points: list[Point]
    looks: tuple[str, ...] = LOOKS
    works: dict[Workload, Measured] = field(default_factory=dict)
    unable: set[str] = field(default_factory=set)  # allocators that do not run under cachegrind
    warned: list[str] = field(default_factory=list)
    interrupted: bool = False

    def measure(self, processors: int = os.cpu_count() or 1) -> None:
        self.works = {p.work: Measured() for p in self.points}
        if not self.works:
            return
        for work in self.works:  # beforehand, because runs are side by side later
            self.laboratory.work_dir(NAMED[work.program])
        self._check_preloads()
        runs = list(self._runs())
        parts: dict[tuple[Workload, str], list[Sample]] = {}
        with Bar(len(runs)) as bar, ThreadPoolExecutor(processors) as pool:
            waiting = {pool.submit(look, work, a): (work, a) for look, work, a in runs}
            bar.step("exact: the first runs")
            try:
                for future in as_completed(waiting):
                    work, allocator = waiting[future]
                    self._take(future, work, allocator, parts, bar)
                    bar.step(f"exact: {allocator.name}: {work.program}: done")
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                self.interrupted = True
                self.warned.append("interrupted: exact rows are left out that lack a run")
        self._put_together(parts)
        if self.interrupted:  # what is not counted is left out
            self.works = {work: seen for work, seen in self.works.items() if seen.samples}
            self.points = [p for p in self.points if p.work in self.works]

    def _check_preloads(self) -> None:
        for allocator in self.laboratory.allocators:
            try:
                self.laboratory.check_preload(allocator)
            except BadRun as problem:
                self.unable.add(allocator.name)
                self.warned.append(f"{allocator.name} is not counted under cachegrind: {problem}")
            try:
                self.laboratory.check_bound(allocator)
            except BadRun as problem:
                for measured in self.works.values():
                    measured.refused[allocator.name] = str(problem)

    def _runs(self) -> Iterator[tuple[Look, Workload, Allocator]]:
        """The long ones of each program first."""
        lab = self.laboratory
        for work, measured in self.works.items():
            able = [a for a in lab.allocators if a.name not in measured.refused]
            for look in self.looks:
                yield from ((getattr(lab, look), work, a) for a in able if self._makes(look, a))

    def _makes(self, look: str, allocator: Allocator) -> bool:
        if look == "served":
            return allocator.role == "hakmem"
        return look not in SIMULATED or allocator.name not in self.unable

    def _take(self, future: Future, work: Workload, allocator: Allocator, parts: dict[tuple[Workload, str], list[Sample]], bar: Bar) -> None:
        measured = self.works[work]
        try:
            seen = future.result()
        except BadRun as problem:
            measured.refused.setdefault(allocator.name, str(problem))
            bar.note(f"bench: {allocator.name}: {work.program}: REFUSED: {problem}")
        else:
            if isinstance(seen, tuple):
                seen, measured.traces[allocator.name] = seen
            parts.setdefault((work, allocator.name), []).append(seen)

    def _put_together(self, parts: dict[tuple[Workload, str], list[Sample]]) -> None:
        """In the order of the tables; only programs whose runs are complete."""
        for work, measured in self.works.items():
            for allocator in self.laboratory.allocators:
                seen = parts.get((work, allocator.name), [])
                needed = {FIGURE[look] for look in self.looks if look in FIGURE and self._makes(look, allocator)}
                if needed <= set().union(*seen) and allocator.name not in measured.refused:
                    for sample in together(seen):
                        measured.add(allocator.name, sample)

    def refusals(self) -> list[str]:
        return refusals(self.works, lambda work: f"exact {work.program}")
