"""A session: the rounds of all runs, in an order that is fair to all."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from measure import BadRun, Runner
from peers import Allocator
from point import Point, Workload
from progress import Bar
from results import Measured, rounded

DIFFERENCE_ROUNDS = 5  # counts of system calls and faults hardly vary

Run = tuple[Workload, Allocator]


@dataclass
class Session:
    runner: Runner
    points: list[Point]
    allocators: list[Allocator]
    rounds: int
    seed: int
    budget: float | None = None  # seconds: no round begins that would not end within
    works: dict[Workload, Measured] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

    def measure(self) -> None:
        order = random.Random(self.seed)
        plan = [self.plan_round(order, number) for number in range(self.rounds + 1)]
        self.works = {p.work: Measured() for p in self.points}
        keys = [(work, allocator.name) for runs in plan for work, allocator in runs]
        deadline = time.monotonic() + self.budget if self.budget else None
        with Bar(keys, deadline) as bar:
            try:
                self._run_rounds(plan, bar, deadline)
            except KeyboardInterrupt:
                self.warned.append("interrupted: fewer rounds than asked for")

    def plan_round(self, order: random.Random, number: int) -> list[Run]:
        """Workloads shuffled, and allocators within each, so that those to be
        compared run close to each other in time."""
        limited = {p.work for p in self.points if p.with_limit}
        works = list(dict.fromkeys(p.work for p in self.points))
        if number > DIFFERENCE_ROUNDS:
            works = [w for w in works if not w.difference]
        order.shuffle(works)
        runs = []
        for work in works:
            able = [a for a in self.allocators if a.role != "limit" or work in limited]
            runs += [(work, a) for a in order.sample(able, len(able))]
        return runs

    def _run_rounds(self, plan: list[list[Run]], bar: Bar, deadline: float | None) -> None:
        for number, runs in enumerate(plan):
            began = time.monotonic()
            self._run_round(number, runs, bar)
            now = time.monotonic()
            if deadline and number < self.rounds and now + (now - began) > deadline:
                self.warned.append(f"{number} rounds fitted into {self.budget:.0f} s")
                return

    def _run_round(self, number: int, runs: list[Run], bar: Bar) -> None:
        """Round 0 warms the machine up: of its times nothing is kept, and so it
        is the one in which system calls are counted, which takes time."""
        name = f"round {number}" if number else "warm-up"
        for work, allocator in runs:
            command = " ".join(work.argv(self.runner.quick))
            measured = self.works[work]
            bar.step(f"{name}: {allocator.name}: {command}")
            if allocator.name not in measured.refused:
                try:
                    self._run(number, work, allocator, measured)
                except BadRun as problem:
                    measured.refused[allocator.name] = str(problem)
                    bar.note(f"bench: {allocator.name}: {command}: REFUSED: {problem}")
            bar.advance()

    def _run(self, number: int, work: Workload, allocator: Allocator, measured: Measured) -> None:
        if number:
            measured.add(allocator.name, self.runner.sample(work, allocator))
        else:
            whole = self.runner.run_once(work, allocator, syscalls=True)
            measured.whole[allocator.name] = rounded(whole)

    def refusals(self) -> list[str]:
        return [
            f"REFUSED {name}: {' '.join(work.argv(self.runner.quick))}: {why}"
            for work, measured in self.works.items()
            for name, why in measured.refused.items()
        ]
