"""Makes the rounds of all runs, in an order that is fair to all."""
import random
import time
from dataclasses import dataclass, field
from enum import Enum

from measure import BadRun, Runner
from peers import Allocator
from point import Point, Workload
from progress import Bar
from results import Measured, refusals, rounded

FEW_ROUNDS = 5  # counts of system calls and faults hardly vary, nor does the memory of a trace
MEMORY_ROUNDS = 3  # of works whose rows are all of memory

Run = tuple[Workload, Allocator]
Look = Enum("Look", "FIGURES SYSCALLS MEMORY")  # at what is looked in a run


@dataclass(frozen=True)
class Step:
    name: str
    runs: list[Run]
    look: Look = Look.FIGURES


@dataclass
class Session:
    runner: Runner
    points: list[Point]
    allocators: list[Allocator]
    rounds: int
    seed: int
    budget: float | None = None  # seconds: no round begins that would not end within
    program_rounds: int = 0  # of real programs, if more: malloc is a small part of their time
    works: dict[Workload, Measured] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

    def measure(self) -> None:
        self.works = {p.work: Measured() for p in self.points}
        plan = self.plan()
        deadline = time.monotonic() + self.budget if self.budget else None
        with Bar(sum(len(step.runs) for step in plan), deadline) as bar:
            try:
                self._walk(plan, bar, deadline)
            except KeyboardInterrupt:
                self.warned.append("interrupted: fewer rounds than asked for")

    def plan(self) -> list[Step]:
        """Runs the warm-up, of which only the system calls and the printed memory figures are used. They are measured here because the measurement
        takes time. Series over time are measured here for the same reason. A quick run only loads every library once."""
        order = random.Random(self.seed)
        every, quick = list(self.works), self.runner.quick
        timed = {p.work for p in self.points if not p.is_of_memory}
        most = {w: MEMORY_ROUNDS if w not in timed else FEW_ROUNDS if w.difference or w.series else self.rounds for w in every}
        traced = [w for w in every if w.trace_rss and not quick]
        programs = [w for w in every if w.program]
        rounds = [Step(f"round {n}", self._in_turns([w for w in every if n <= most[w]], order)) for n in range(1, self.rounds + 1)
                  if any(n <= rounds for rounds in most.values())]
        rounds += [Step(f"round {n}", self._in_turns(programs, order)) for n in range(self.rounds + 1, self.program_rounds + 1) if programs]
        return [Step("warm-up", self._in_turns(every[:1] if quick else every, order), Look.SYSCALLS),
                Step("memory over time", self._in_turns(traced, order), Look.MEMORY), *rounds]

    def _in_turns(self, works: list[Workload], order: random.Random) -> list[Run]:
        """Workloads shuffled, and allocators within each, so that those to be compared run close to each other in time."""
        limited = {p.work for p in self.points if p.with_limit}
        runs = []
        for work in order.sample(works, len(works)):
            able = [a for a in self.allocators if a.role != "limit" or work in limited]
            runs += [(work, a) for a in order.sample(able, len(able))]
        return runs

    def _walk(self, plan: list[Step], bar: Bar, deadline: float | None) -> None:
        rounds = 0
        for step in plan:
            began = time.monotonic()
            self._take(step, bar)
            now = time.monotonic()
            rounds += step.look is Look.FIGURES
            left = rounds < sum(other.look is Look.FIGURES for other in plan)
            if deadline and left and now + (now - began) > deadline:
                self.warned.append(f"{rounds} rounds fitted into {self.budget:.0f} s")
                return

    def _take(self, step: Step, bar: Bar) -> None:
        for work, allocator in step.runs:
            command = " ".join(work.argv(self.runner.quick))
            measured = self.works[work]
            bar.step(f"{step.name}: {allocator.name}: {command}")
            if allocator.name not in measured.refused:
                try:
                    self._run(step.look, work, allocator, measured)
                except BadRun as problem:
                    measured.refused[allocator.name] = str(problem)
                    bar.note(f"bench: {allocator.name}: {command}: REFUSED: {problem}")

    def _run(self, look: Look, work: Workload, allocator: Allocator, measured: Measured) -> None:
        if look is Look.FIGURES:
            measured.add(allocator.name, self.runner.sample(work, allocator))
        elif look is Look.SYSCALLS:
            figures, series = self.runner.counted(work, allocator)
            measured.whole[allocator.name] = rounded(figures)
            if series:
                measured.traces[allocator.name] = series
        else:
            measured.traces[allocator.name] = self.runner.trace(work, allocator)

    def refusals(self) -> list[str]:
        return refusals(self.works, lambda work: " ".join(work.argv(self.runner.quick)))
