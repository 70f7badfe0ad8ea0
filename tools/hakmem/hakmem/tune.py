"""hakmem tune: runs a program under candidate policies, writes the best one as a profile, and reports its gain.

Successive halving: all candidates run a few times, the best third again, twice as often, until one is left. It then
runs against the default and glibc in new rounds, for the rounds that selected it are biased in its favor.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hakmem import launcher
from hakmem.candidates import DEFAULT, GLIBC, Candidate, draw, named
from hakmem.figures import bytes_text, count_text, setting_text, time_text
from hakmem.interval import LEAST_ROUNDS, Ratio, ratio
from hakmem.library import find_library, find_program, preload
from hakmem.reports import Report, read
from hakmem.run import variable
from hakmem.tables import plain_table
from hakmem.trouble import FAILED, Trouble

MOST_CANDIDATES = 200
KEPT = 3  # one in KEPT advances
CLOSING = 3  # programs per final round: glibc, the default, the best
MARGIN = 32 << 20
TIMEOUT_S = 600.0
Run = dict[str, float]


@dataclass(frozen=True)
class Plan:
    command: list[str]
    objective: str
    budget_s: float
    rounds: int
    candidates: int | None
    output: Path
    seed: int


class Launcher:
    """The process that starts and measures programs; see launcher.py."""

    def __init__(self, library: Path, command: list[str]) -> None:
        self.library, self.command, self.warm_bytes = library, command, 0
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
        with tempfile.NamedTemporaryFile(prefix="hakmem-tune-") as errors:
            reply = self.ask(
                {
                    "command": self.command,
                    "set": setting,
                    "unset": [],
                    "errors": errors.name,
                    "warm_bytes": self.warm_bytes,
                    "timeout": TIMEOUT_S,
                }
            )
            said = errors.read().decode(errors="replace").strip()
        if reply.get("late"):
            raise Trouble(
                f"with {candidate.name} the program ran longer than {TIMEOUT_S:.0f} s: tune needs one that ends"
            )
        return reply | {"said": said[-1000:]}

    def ask(self, request: dict) -> dict:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise Trouble("the launcher ended unexpectedly")
        return json.loads(line)


OBJECTIVE: dict[str, Callable[[Run], float]] = {
    "time": lambda run: run["cpu_s"],
    "memory": lambda run: run["rss_bytes"],
    "both": lambda run: run["cpu_s"] * run["rss_bytes"],
}
FIGURES = (
    ("CPU time", lambda run: run["cpu_s"], lambda value: f"{value:.3f} s"),
    ("wall time", lambda run: run["wall_s"], lambda value: f"{value:.3f} s"),
    ("peak RSS", lambda run: run["rss_bytes"], bytes_text),
    ("page faults", lambda run: run["faults"], count_text),
)


@dataclass
class Field:
    """Runs candidates in rounds, each in random order."""

    launch: Launcher
    expected_code: int
    chance: random.Random
    runs: dict[str, list[Run]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def round(self, members: Sequence[Candidate], tell: Callable[[str], None]) -> None:
        for candidate in self.chance.sample(members, len(members)):
            tell(candidate.name)
            run = self.launch.run(candidate)
            if run["code"] == self.expected_code:
                self.runs.setdefault(candidate.name, []).append(run)
            else:
                self.refused[candidate.name] = f"exit code {run['code']:.0f}: {run['said']}"

    def values(self, candidate: Candidate, of: Callable[[Run], float], last: int) -> list[float]:
        return [of(run) for run in self.runs.get(candidate.name, [])[-last:]]

    def score(self, candidate: Candidate, of: Callable[[Run], float], last: int) -> float:
        """The median ratio to the default in the same rounds."""
        values, usual = self.values(candidate, of, last), self.values(DEFAULT, of, last)
        if candidate.name in self.refused or not values:
            return math.inf
        return statistics.median(value / (base or 1e-9) for value, base in zip(values, usual))


def rehearse(launch: Launcher, folder: str) -> tuple[Report, Run]:
    """One uncounted run on glibc and on HAKMEM: warms the file cache, and checks that HAKMEM serves."""
    plain = launch.run(GLIBC)
    if plain["code"] in (126, 127):
        raise Trouble(f"the program cannot be started: {plain['said']}")
    ours = launch.run(DEFAULT, report=f"{folder}/%p.json")
    if ours["code"] != plain["code"]:
        raise Trouble(f"exit code {plain['code']} on glibc, but {ours['code']} on HAKMEM: {ours['said']}")
    reports = [report for report in map(read, Path(folder).glob("*.json")) if report]
    served = max(reports, key=lambda report: report.number("served", "malloc") or 0, default=None)
    if served is None or not served.number("served", "malloc"):
        raise Trouble("HAKMEM did not serve the program: `hakmem doctor -- program` finds the cause")
    launch.warm_bytes = int(max(plain["rss_bytes"], ours["rss_bytes"])) + MARGIN
    return served, ours


def rungs(count: int) -> list[tuple[int, int]]:
    """The steps of successive halving: candidates and rounds."""
    found, rounds = [], 1
    while count > 1:
        found.append((count, rounds))
        count, rounds = math.ceil(count / KEPT), rounds * 2
    return found


def runs_of(count: int) -> int:
    """Counts all runs; the default runs in every round, as the baseline."""
    return sum((members + 1) * rounds for members, rounds in rungs(count))


def within_budget(plan: Plan, run_s: float) -> Plan:
    """Limits the final rounds to half of the budget, but to LEAST_ROUNDS at least."""
    fit = int(plan.budget_s / 2 / run_s / CLOSING)
    return replace(plan, rounds=max(LEAST_ROUNDS, min(plan.rounds, fit)))


def affordable(plan: Plan, run_s: float) -> int:
    """The number of candidates that the budget allows besides the final rounds; at least two."""
    left = plan.budget_s / run_s - CLOSING * plan.rounds
    most = plan.candidates or MOST_CANDIDATES
    return max(2, next((count for count in range(most, 2, -1) if runs_of(count) <= left), 2))


def search(
    contest: Field, members: list[Candidate], of: Callable[[Run], float], tell: Callable[[str], None]
) -> Candidate:
    for count, rounds in rungs(len(members)):
        members = members[:count]
        for _ in range(rounds):
            contest.round([DEFAULT, *members], tell)
        members = sorted(members, key=lambda candidate: contest.score(candidate, of, rounds))
    return members[0]


def tune(plan: Plan, console: Console) -> None:
    find_program(plan.command[0])
    of = OBJECTIVE[plan.objective]
    with Launcher(find_library(), plan.command) as launch, tempfile.TemporaryDirectory(prefix="hakmem-tune-") as folder:
        began = time.monotonic()
        served, usual = rehearse(launch, folder)
        run_s = max((time.monotonic() - began) / 2, 1e-3)
        chance = random.Random(plan.seed)
        known = served.at("options")
        known = known if isinstance(known, dict) else {}
        plan = within_budget(plan, run_s)
        count = affordable(plan, run_s)
        profiles = named(known)[:count]
        members = profiles + draw(count - len(profiles), chance, known)
        if not profiles:
            console.print(Text("This library has no named profiles; searching its numeric options only.", style="dim"))
        contest = Field(launch, int(usual["code"]), chance)
        total = runs_of(len(members)) + CLOSING * plan.rounds
        console.print(
            f"{len(members)} candidates, {total} runs of about {run_s:.2f} s: {time_text(total * run_s)} in total"
        )
        with progress(console, total) as tell:
            best = search(contest, members, of, tell)
            for _ in range(plan.rounds if best.name not in contest.refused else 0):
                contest.round([GLIBC, DEFAULT, best], tell)
        say_refused(contest, console)
        if best.name in contest.refused:
            raise Trouble("no candidate completed as the default does")
        options = effective_options(launch, best, known, folder)
        close(plan, contest, best, options, len(members), console)


class progress:
    """A progress bar on a terminal, otherwise an occasional line."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.console, self.total, self.done = console, total, 0

    def __enter__(self) -> Callable[[str], None]:
        self.bar.start()
        self.task = self.bar.add_task("", total=self.total)
        return self.tell

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, name: str) -> None:
        self.bar.update(self.task, completed=self.done, description=name[:60])
        if not self.console.is_terminal and self.done % max(1, self.total // 10) == 0:
            self.console.print(f"  run {self.done + 1} of {self.total}: {name}", highlight=False)
        self.done += 1


def say_refused(contest: Field, console: Console) -> None:
    for name, why in contest.refused.items():
        console.print(Text(f"excluded: {name} {why}", style="yellow"))


def effective_options(launch: Launcher, best: Candidate, known: dict, folder: str) -> dict[str, str]:
    """Expands a named profile to its options, read from a report of the options in effect."""
    if "profile" not in best.options:
        return dict(best.options)
    place = Path(folder) / "best"
    place.mkdir()
    launch.run(best, report=f"{place}/%p.json")
    report = next((report for report in map(read, place.glob("*.json")) if report), None)
    now = report.numbers("options") if report else {}
    return {name: f"{value:.0f}" for name, value in now.items() if known.get(name) != value}


def close(plan: Plan, contest: Field, best: Candidate, options: dict[str, str], tried: int, console: Console) -> None:
    console.print(figures_table(contest, best, plan.rounds))
    said = [verdict(contest, best, base, plan) for base in (DEFAULT, GLIBC)]
    for sentence in said:
        console.print(Text(sentence, style="bold"))
    if not gained(contest, best, plan):
        console.print("The default is as good for this program: no profile is needed.")
    write_profile(plan, best, options, said)
    console.print(f"{tried} candidates tried; best: {best.name}", highlight=False)
    console.print(
        f"wrote {plan.output}; to use it: hakmem run --profile {plan.output} -- {plan.command[0]}", highlight=False
    )


def figures_table(contest: Field, best: Candidate, rounds: int) -> object:
    table = plain_table(f"Medians of {rounds} rounds", "", "glibc", "default", "best", "best / default", "best / glibc")
    for title, of, shown in FIGURES:
        values = {candidate.name: contest.values(candidate, of, rounds) for candidate in (GLIBC, DEFAULT, best)}
        medians = [shown(statistics.median(figures)) for figures in values.values()]
        ratios = [ratio_text(ratio(values[best.name], values[base.name])) for base in (DEFAULT, GLIBC)]
        table.add_row(title, *medians, *ratios)
    return table


def ratio_text(found: Ratio | None) -> str:
    return "too few rounds" if found is None else f"{found.median:.3f} ({found.low:.3f} … {found.high:.3f})"


def objective_ratio(contest: Field, best: Candidate, base: Candidate, plan: Plan) -> Ratio | None:
    of = OBJECTIVE[plan.objective]
    return ratio(contest.values(best, of, plan.rounds), contest.values(base, of, plan.rounds))


def gained(contest: Field, best: Candidate, plan: Plan) -> bool:
    found = objective_ratio(contest, best, DEFAULT, plan)
    return found is not None and found.better


def verdict(contest: Field, best: Candidate, base: Candidate, plan: Plan) -> str:
    found = objective_ratio(contest, best, base, plan)
    what = {"time": "CPU time", "memory": "peak memory", "both": "CPU time × peak memory"}[plan.objective]
    against = f"Against {base.name}"
    if found is None:
        return f"{against}: too few rounds (at least {LEAST_ROUNDS})."
    if not found.better and not found.worse:
        return f"{against}: no significant change in {what} (ratio {ratio_text(found)})."
    part, way = abs(1 - found.median) * 100, "less" if found.better else "MORE"
    ends = sorted((abs(1 - found.low) * 100, abs(1 - found.high) * 100))
    return f"{against}: {part:.1f} % {way} {what} (95 % confidence: {ends[0]:.1f} to {ends[1]:.1f} %)."


def write_profile(plan: Plan, best: Candidate, options: dict[str, str], said: list[str]) -> None:
    lines = [
        "# hakmem profile",
        f"# tuned for {plan.objective}: {' '.join(plan.command)}".replace("\n", " "),
        *[f"# {sentence}" for sentence in said],
        f"# from: {best.name}",
        *[f"{name} = {setting_text(value)}" for name, value in options.items()],
    ]
    try:
        plan.output.write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise Trouble(f"{plan.output}: {error.strerror}", FAILED) from None
