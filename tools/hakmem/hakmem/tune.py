"""hakmem tune: runs a program under candidate policies, writes the best one as a profile, and reports its gain.

It searches by successive halving: all candidates run, then the best third of them runs in twice as many rounds, until one is left. This one
is then compared with the default and glibc in new rounds, because the rounds that selected it are biased in its favor.
"""

from __future__ import annotations

import itertools
import math
import random
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hakmem.figures import bytes_text, count_text, time_text
from hakmem.interval import LEAST_ROUNDS, Ratio, ratio
from hakmem.library import find_library, find_program
from hakmem.measuring import DEFAULT, GLIBC, Candidate, Launcher, Run, draw, named
from hakmem.options import setting_value
from hakmem.reports import Report, read
from hakmem.tables import plain_table
from hakmem.trouble import FAILED, Trouble

MOST_CANDIDATES = 200
KEPT = 3  # one in KEPT advances
CLOSING = 3  # runs in each final round: glibc, the default, the best
MARGIN = 32 << 20


@dataclass(frozen=True)
class Plan:
    command: list[str]
    objective: str
    budget_s: float
    rounds: int
    candidates: int | None
    output: Path
    seed: int
    expected_code: int = 0
    linked: bool = False  # the program is linked with HAKMEM, and cannot run on glibc

    @property
    def bases(self) -> tuple[Candidate, ...]:
        return (DEFAULT,) if self.linked else (DEFAULT, GLIBC)


OBJECTIVE: dict[str, Callable[[Run], float]] = {
    "time": lambda run: run["cpu_s"],
    "memory": lambda run: run["rss_bytes"],
    "both": lambda run: run["cpu_s"] * run["rss_bytes"],
}
WHAT = {"time": "CPU time", "memory": "peak memory", "both": "CPU time × peak memory"}
REPORTING = ("report", "profile")  # these options are not written to a profile
FIGURES = (
    ("CPU time", lambda run: run["cpu_s"], lambda value: f"{value:.3f} s"),
    ("wall time", lambda run: run["wall_s"], lambda value: f"{value:.3f} s"),
    ("peak RSS", lambda run: run["rss_bytes"], bytes_text),
    ("page faults", lambda run: run["faults"], count_text),
)


@dataclass
class Field:
    """Runs candidates in rounds. Each round has a random order."""

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
            elif candidate in (GLIBC, DEFAULT):
                raise Trouble(f"{unsteady(self.expected_code, run)} (on {candidate.name})")
            else:
                self.refused[candidate.name] = f"exit code {run['code']:.0f}: {run['said']}"

    def values(self, candidate: Candidate, of: Callable[[Run], float], last: int) -> list[float]:
        return [of(run) for run in self.runs.get(candidate.name, [])[-last:]]

    def score(self, candidate: Candidate, of: Callable[[Run], float], last: int) -> float:
        """Returns the median ratio to the default in the same rounds, or infinity if the candidate was refused or did not run."""
        values, usual = self.values(candidate, of, last), self.values(DEFAULT, of, last)
        if candidate.name in self.refused or not values or not usual:
            return math.inf
        return statistics.median(value / (base or 1e-9) for value, base in zip(values, usual))

    def best_so_far(self, members: Sequence[Candidate], of: Callable[[Run], float]) -> tuple[Candidate, float] | None:
        """Returns the candidate with the smallest ratio of medians to the default. It must have the most runs, or one less, because the last round
        may have been interrupted."""
        usual = [of(run) for run in self.runs.get(DEFAULT.name, [])]
        able = [member for member in members if member.name not in self.refused]
        counts = [(member, len(self.runs.get(member.name, []))) for member in able]
        enough = max(1, max((count for _, count in counts), default=0) - 1)
        rated = [(member, statistics.median(self.values(member, of, count)) / (statistics.median(usual) or 1e-9))
                 for member, count in counts if count >= enough and usual]
        return min(rated, key=lambda pair: pair[1], default=None)


def unsteady(expected: float, run: Run) -> str:
    return f"the program does not end alike each time: exit code {expected:.0f}, then {run['code']:.0f}: {run['said']}"


def rehearse(launch: Launcher, folder: str, expected: int) -> tuple[Report, bool]:
    """Runs the program once on glibc and once on HAKMEM. These runs do not count. They warm the file cache, and check that the program ends as
    expected and that HAKMEM serves it. Returns its report, and whether the program is linked with HAKMEM, which is so if it writes a report
    without a preload."""
    plain = launch.run(GLIBC, report=f"{folder}/linked-%p.json")
    linked = any(Path(folder).glob("linked-*.json"))
    if plain["code"] in (126, 127):
        raise Trouble(f"the program cannot be started: {plain['said']}")
    if plain["code"] != expected:
        raise Trouble(
            f"the program fails without HAKMEM too, with exit code {plain['code']}: {plain['said'] or 'no message'}. "
            f"If this is its success, add --exit-code {plain['code']}"
        )
    ours = launch.run(DEFAULT, report=f"{folder}/%p.json")
    if ours["code"] != expected:
        again = launch.run(GLIBC)
        if again["code"] != expected:
            raise Trouble(unsteady(expected, again))
        raise Trouble(f"exit code {expected} on glibc, but {ours['code']} on HAKMEM: {ours['said']}")
    reports = [report for report in map(read, Path(folder).glob("*.json")) if report]
    served = max(reports, key=lambda report: report.number("served", "malloc") or 0, default=None)
    if served is None or not served.number("served", "malloc"):
        raise Trouble("HAKMEM did not serve the program: `hakmem doctor -- program` finds the cause")
    launch.warm_bytes = int(max(plain["rss_bytes"], ours["rss_bytes"])) + MARGIN
    return served, linked


def rungs(count: int) -> list[tuple[int, int]]:
    """Returns the number of candidates and of rounds for each step of successive halving."""
    found, rounds = [], 1
    while count > 1:
        found.append((count, rounds))
        count, rounds = math.ceil(count / KEPT), rounds * 2
    return found


def runs_of(count: int) -> int:
    """Returns the number of all runs of the search. The default also runs in each round, as the baseline."""
    return sum((members + 1) * rounds for members, rounds in rungs(count))


def within_budget(plan: Plan, run_s: float) -> Plan:
    """Limits the final rounds to half of the budget, but never to less than LEAST_ROUNDS."""
    fit = int(plan.budget_s / 2 / run_s / CLOSING)
    return replace(plan, rounds=max(LEAST_ROUNDS, min(plan.rounds, fit)))


def affordable(plan: Plan, run_s: float) -> int:
    """Returns the number of candidates that the budget allows in addition to the final rounds, which is at least two."""
    left = plan.budget_s / run_s - CLOSING * plan.rounds
    most = plan.candidates or MOST_CANDIDATES
    return max(2, next((count for count in range(most, 2, -1) if runs_of(count) <= left), 2))


def search(contest: Field, members: list[Candidate], of: Callable[[Run], float], tell: Callable[[str], None]) -> Candidate:
    for count, rounds in rungs(len(members)):
        members = members[:count]
        for _ in range(rounds):
            contest.round([DEFAULT, *members], tell)
        members = sorted(members, key=lambda candidate: contest.score(candidate, of, rounds))
    return members[0]


@dataclass
class Race:
    """Has all that the search needs, and its results when it is interrupted."""

    plan: Plan
    contest: Field
    members: list[Candidate]
    of: Callable[[Run], float]

    @property
    def total(self) -> int:
        return runs_of(len(self.members)) + (len(self.plan.bases) + 1) * self.plan.rounds


def tune(plan: Plan, console: Console) -> None:
    find_program(plan.command[0])
    check_output(plan.output)
    library = find_library()
    with Launcher(library, plan.command) as launch:
        race = prepare(plan, launch, console)
        best = compete(race, console)
    for name, why in race.contest.refused.items():
        console.print(Text(f"excluded: {name} {why}", style="yellow"))
    if best is None:
        close_early(race, library, console)
        raise KeyboardInterrupt
    if best.name in race.contest.refused:
        raise Trouble("no candidate completed as the default does")
    close(race.plan, race.contest, best, effective_options(library, best), len(race.members), console)


def check_output(output: Path) -> None:
    """Checks before the first run that the profile can be written, because otherwise the result of all runs would be lost."""
    try:
        if output.exists():
            output.open("a").close()
        else:
            tempfile.TemporaryFile(dir=output.parent).close()
    except OSError as error:
        raise Trouble(f"cannot write the profile to {output}: {error.strerror}") from None


def prepare(plan: Plan, launch: Launcher, console: Console) -> Race:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hakmem-tune-") as folder:
        served, linked = rehearse(launch, folder, plan.expected_code)
    if linked:
        console.print("The program is linked with HAKMEM: it cannot run on glibc, and is compared with the default alone.")
    run_s, chance, known = max((time.monotonic() - began) / 2, 1e-3), random.Random(plan.seed), served.options
    plan = replace(within_budget(plan, run_s), linked=linked)
    count = affordable(plan, run_s)
    profiles = named(known)[:count]
    members = profiles + draw(count - len(profiles), chance, known)
    if not profiles:
        console.print(Text("This library has no named profiles; searching its numeric options only.", style="dim"))
    race = Race(plan, Field(launch, plan.expected_code, chance), members, OBJECTIVE[plan.objective])
    console.print(f"{len(members)} candidates, {race.total} runs of about {run_s:.2f} s: {time_text(race.total * run_s)} in total")
    return race


def compete(race: Race, console: Console) -> Candidate | None:
    """Returns the best candidate, or None if the user interrupts the search."""
    try:
        with progress(console, race.total) as tell:
            best = search(race.contest, race.members, race.of, tell)
            for _ in range(race.plan.rounds if best.name not in race.contest.refused else 0):
                race.contest.round([*race.plan.bases, best], tell)
        return best
    except KeyboardInterrupt:
        return None


@contextmanager
def progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Shows a progress bar on a terminal, and otherwise prints a line from time to time."""
    columns, runs = (BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")), itertools.count()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        def tell(name: str) -> None:
            done = next(runs)
            bar.update(task, completed=done, description=name[:60])
            if not console.is_terminal and done % max(1, total // 10) == 0:
                console.print(f"  run {done + 1} of {total}: {name}", highlight=False)
        yield tell


def effective_options(library: Path, best: Candidate) -> dict[str, str]:
    """Returns the options of a candidate. The options of a named profile are read from the reports of a small program with and without it."""
    if "profile" not in best.options:
        return dict(best.options)
    known, now = (options_under(library, candidate) for candidate in (DEFAULT, best))
    return {name: str(value) for name, value in now.items() if name not in REPORTING and known.get(name) != value}


def options_under(library: Path, candidate: Candidate) -> dict:
    with tempfile.TemporaryDirectory(prefix="hakmem-tune-") as folder, Launcher(library, [sys.executable, "-I", "-S", "-c", ""]) as launch:
        launch.run(candidate, report=f"{folder}/%p.json")
        report = next((report for report in map(read, Path(folder).glob("*.json")) if report), None)
    return report.options if report else {}


def close(plan: Plan, contest: Field, best: Candidate, options: dict[str, str], tried: int, console: Console) -> None:
    console.print(figures_table(contest, best, plan))
    said = [verdict(contest, best, base, plan) for base in plan.bases]
    for sentence in said:
        console.print(Text(sentence, style="bold"))
    console.print(f"{tried} candidates tried; best: {best.name}", highlight=False)
    found = objective_ratio(contest, best, DEFAULT, plan)
    if found is not None and found.better:
        deliver(plan, best, options, said, console)
    else:
        console.print("The default is as good for this program: no profile is needed, and none is written.")


def close_early(race: Race, library: Path, console: Console) -> None:
    found = race.contest.best_so_far(race.members, race.of)
    done = sum(map(len, race.contest.runs.values()))
    console.print(f"Interrupted after {done} of {race.total} runs.")
    if found is None or found[1] >= 1:
        console.print("No candidate was better than the default so far: no profile is written.")
        return
    best, share = found
    said = f"Best so far: {best.name}; {share:.3f} of the default's {WHAT[race.plan.objective]}, not confirmed."
    console.print(Text(said, style="bold"))
    deliver(race.plan, best, effective_options(library, best), ["Interrupted.", said], console)


def deliver(plan: Plan, best: Candidate, options: dict[str, str], said: list[str], console: Console) -> None:
    write_profile(plan, best, options, said)
    use = shlex.join(["hakmem", "run", "--profile", str(plan.output), "--", *plan.command])
    console.print(Text(f"wrote {plan.output}; to use it: {use}"), soft_wrap=True)


def figures_table(contest: Field, best: Candidate, plan: Plan) -> object:
    names = [base.name for base in plan.bases]
    table = plain_table(f"Medians of {plan.rounds} rounds", "", *names[::-1], "best", *(f"best / {name}" for name in names))
    for title, of, shown in FIGURES:
        values = {candidate.name: contest.values(candidate, of, plan.rounds) for candidate in (*plan.bases[::-1], best)}
        medians = (shown(statistics.median(figures)) for figures in values.values())
        table.add_row(title, *medians, *(ratio_text(ratio(values[best.name], values[name])) for name in names))
    return table


def ratio_text(found: Ratio | None) -> str:
    return "too few rounds" if found is None else f"{found.median:.3f} ({found.low:.3f} … {found.high:.3f})"


def objective_ratio(contest: Field, best: Candidate, base: Candidate, plan: Plan) -> Ratio | None:
    of = OBJECTIVE[plan.objective]
    return ratio(contest.values(best, of, plan.rounds), contest.values(base, of, plan.rounds))


def verdict(contest: Field, best: Candidate, base: Candidate, plan: Plan) -> str:
    found, what, against = objective_ratio(contest, best, base, plan), WHAT[plan.objective], f"Against {base.name}"
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
        *[f"{name} = {setting_value(name, value)}" for name, value in options.items()],
    ]
    text = "\n".join(lines) + "\n"
    try:
        plan.output.write_text(text)
    except OSError as error:
        print(text)  # so that the result is not lost
        raise Trouble(f"{plan.output}: {error.strerror}; the profile is printed above", FAILED) from None
