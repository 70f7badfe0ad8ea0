#!/usr/bin/env python3
"""Searches the best fixed settings, the learner's rival.

python3 bench/rival.py programs            one setting for all programs: 220 candidates, some 25 min
python3 bench/rival.py phases              one setting for bench_phases alone: 200 candidates, some 40 min
python3 bench/rival.py gaps                one setting for each of 32 programs, and what learning can gain at most: 200 candidates, some 35 min
python3 bench/rival.py programs --candidates 0 --also before=old/libhakmem.so     builds beside each other, no search

Each candidate is HAKMEM with HAKMEM_LEARN=off and its own values for the knobs. `programs` (contest.py) runs all once on short programs,
and the best quarter again on longer ones; the finals compare the best by CPU x RSS, by faults x RSS and by both with HAKMEM's defaults, with and
without the learner, interleaved.

`phases` does short runs of all, longer ones of the best, and then the finals: the best three beside HAKMEM with its defaults, and beside a second
run with the profile that a first one saved. Throughput is the geometric mean over the phases with operations; faults are page faults for each 1000
operations, over the phases with faults; memory is the mean of RSS over time. A candidate's score is throughput / sqrt(faults x memory).
"""
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table

import contest
import gaps as gap
import machine
import plots
import verdicts
from contest import BUSY, PLAYS, PRODUCTS, Setting, candidates, unique
from measure import Runner
from peers import Allocator
from point import Workload
from programs import NAMED
from progress import Bar

ROOT = Path(__file__).resolve().parent.parent
SHORT, LONG, FINAL = (0.5, 1, 128), (1, 1, 256), (1, 2, 256)  # seconds of a phase, rounds, MiB of a spike
CALM, FLIPS = (2, 2, 256), (0.1, 20, 64)

app = typer.Typer(add_completion=False)
BENCH_DIR = typer.Option(ROOT / "build/bench")
LIBRARY = typer.Option(ROOT / "build/libhakmem.so")
JSON_OUT = typer.Option(None, "--json", help="where the figures are written")
SEED = typer.Option(1, help="of the candidates")
JOBS = typer.Option(2, min=1, help="programs at a time, in the search; the finals run one at a time")
ONLY = typer.Option("", help="these programs, by commas")
FOUND = typer.Option(None, "--found", help="an earlier run's JSON: no search, the finals with what it found")


def figures(sample: dict[str, float], cpu_clock: bool = False) -> dict[str, float]:
    faults, memory = contest.faults_of_phases(sample), sample["rss_mib_mean"]  # of operations done, whatever the clock
    if cpu_clock:
        sample = sample | {f"mops_{phase}": sample[f"cpu_mops_{phase}"] for phase in BUSY}
    throughput = statistics.geometric_mean(sample[f"mops_{phase}"] for phase in BUSY)
    settled = max(sample[f"settled_ms_{phase}"] for phase in BUSY)
    return sample | {"throughput": throughput, "faults": faults, "memory": memory, "faults x memory": faults * memory,
                     "worth": throughput / math.sqrt(faults * memory), "settled": settled}


@dataclass
class Course:
    """Runs of settings in turns, with progress."""

    runner: Runner
    hakmem: Allocator
    scale: float
    cpu_clock: bool = False

    def run(self, settings: list[Setting], plan: tuple[float, int, int], rounds: int) -> None:
        seconds, phase_rounds, mib = plan
        scaled = seconds if plan == FLIPS else seconds * self.scale
        command = f"bench_phases {scaled:.2g} {phase_rounds} {int(mib * self.scale)}"
        work = Workload(command, warm_mib=1024, single_thread=False, series="ms")
        for setting in settings:
            setting.runs = []
        with Bar(rounds * len(settings)) as bar:
            for _ in range(rounds):
                for setting in settings:
                    bar.step(f"{command}: {setting.name}")
                    self.runner.hakmem_env = setting.options
                    setting.runs.append(figures(self.runner.run_once(work, self.hakmem), self.cpu_clock))


def beside(learned: Setting, fixed: Setting, key: str) -> dict[str, float]:
    both = [[run[key] for run in one.runs] for one in (learned, fixed)]
    return contest.told(verdicts.ratio(*both), verdicts.ratio_interval(*both))


def search_phases(course: Course, count: int, seed: int) -> list[Setting]:
    settings = candidates(count, seed)
    course.run(settings, SHORT, 1)
    few = best_of(settings, max(2, count // 16), max(1, count // 40))
    course.run(few, LONG, 2)
    return best_of(few, 1, 1)


def best_of(settings: list[Setting], most_worth: int, fast_or_lean: int) -> list[Setting]:
    """The defaults, and the best of each kind."""
    found = [settings[0]]
    for key, count, more_is_better in (("worth", most_worth, True), ("throughput", fast_or_lean, True), ("faults x memory", fast_or_lean, False)):
        found += sorted(settings, key=lambda setting: setting.median(key), reverse=more_is_better)[:count]
    return unique(found)


def first_and_second(folder: str, **more: str) -> tuple[Setting, Setting]:
    """A run that saves its profile, and one that begins with it: one after the other in each round."""
    profile, name = f"{folder}/{'-'.join(more) or 'plain'}.profile", ", background" if more else ""
    return Setting(f"first run{name}", {"HAKMEM_PROFILE_SAVE": profile, **more}), Setting(f"second run{name}", {"HAKMEM_PROFILE": profile, **more})


def compare(console: Console, title: str, learned: Setting, others: list[Setting], keys: tuple[str, ...], kind: str = "medians",
            value: Callable[[Setting, str], float] = Setting.median,
            ratio: Callable[[Setting, Setting, str], dict[str, float]] = beside) -> list[dict]:
    """Prints a table in which the first cell of each row is that of the learner. Returns the figures of each setting."""
    ratios = {other.name: {key: ratio(learned, other, key) for key in keys} for other in others}

    def cell(other: Setting, key: str) -> str:
        seen = ratios[other.name][key]
        interval = "" if math.isnan(seen["low"]) else f" ({seen['low']:.2f}-{seen['high']:.2f})"
        return f"{value(other, key):.4g}\nx {seen['ratio']:.3f}{interval}"

    table = Table("", *(Column(one.name, justify="right") for one in (learned, *others)), title=title)
    for key in keys:
        table.add_row(key, f"{value(learned, key):.4g}", *(cell(other, key) for other in others))
    console.print(table)
    for other in others:
        console.print(f"{other.name}: {other.told()}")
    return [{"setting": one.name, "options": one.options, "ratios of learned to it": ratios.get(one.name, {}),
             kind: {key: value(one, key) for key in keys}} for one in (learned, *others)]


def compare_means(console: Console, title: str, learned: Setting, others: list[Setting]) -> list[dict]:
    """Geometric means over the programs, and the products of each program."""
    lines = compare(console, title, learned, others, (*PRODUCTS, "cpu", "faults", "rss"), "means", contest.mean, contest.beside)
    return [line | {"programs": {play: contest.of_play(one, play) for play in one.runs[0]}} for line, one in zip(lines, (learned, *others))]


def show_programs(console: Console, learned: Setting, others: list[Setting]) -> None:
    table = Table("", *(other.name for other in others), title="each program: CPU, faults, RSS of learned to it")
    for play in learned.runs[0]:
        mine = contest.of_play(learned, play)
        told = [" ".join(f"{mine[key] / its[key]:.2f}" for key in ("cpu", "faults", "rss"))
                for its in (contest.of_play(other, play) for other in others)]
        table.add_row(play, *told)
    console.print(table)


def write(out: Path | None, said: dict) -> None:
    if out:
        out.write_text(json.dumps(said, indent=1) + "\n")


def saved_finalists(path: Path) -> list[Setting]:
    """The settings found by an earlier run of either kind, to run beside the present HAKMEM."""
    said = json.loads(path.read_text())
    lines = said.get("finals") or said["first run"]
    return [Setting(line["setting"], line["options"]) for line in lines[1:] if line["options"].get("HAKMEM_LEARN") == "off"]


def wanted_here(plays: tuple[contest.Play, ...], only: str) -> list[contest.Play]:
    """Those of `only` (all if it is empty) whose program is installed."""
    here = [play for play in plays if not play.long.program or NAMED[play.long.program].executable()]
    return [play for play in here if not only or play.name in only.split(",")]


def search(course: contest.Course, count: int, seed: int, jobs: int) -> tuple[list[Setting], dict]:
    """The finalists, and the search's figures of all."""
    if count == 0:
        return [candidates(1, seed)[0]], {}
    settings = course.search(candidates(count, seed), long=False, jobs=jobs)
    told = {one.name: {"options": one.options, **{key: contest.mean(one, key) for key in PRODUCTS}} for one in settings}
    few = course.search(contest.best_share(settings, max(2, count // 4)), long=True, jobs=jobs)
    for one in few:
        told[one.name]["again"] = {key: contest.mean(one, key) for key in PRODUCTS}
    return unique([few[0], *contest.rivals(few)]), told


@app.command()
def programs(
    count: int = typer.Option(220, "--candidates", min=0, help="how many fixed settings are tried; 0: no search, the defaults alone"),
    rounds: int = typer.Option(5, min=1, help="of the finals"),
    seed: int = SEED,
    jobs: int = JOBS,
    only: str = ONLY,
    also: list[str] = typer.Option([], help="NAME=LIBRARY: another build, in the finals"),
    found: Path | None = FOUND,
    bench_dir: Path = BENCH_DIR,
    lib: Path = LIBRARY,
    out: Path | None = JSON_OUT,
) -> None:
    """Finds the best fixed settings for many programs, and lets the learner run beside them (L2a)."""
    console = Console()
    wanted = wanted_here(PLAYS, only)
    course = contest.Course(Runner(bench_dir.resolve()), lib.resolve(), wanted, seed)
    finalists, told = (saved_finalists(found), {}) if found else search(course, count, seed, jobs)
    learned = Setting("learned", {})
    builds = [Setting(name, {"library": str(Path(path).resolve())}) for name, _, path in (one.partition("=") for one in also)]
    before = os.getloadavg()
    course.finals([learned, *finalists, *builds], rounds)
    load = {"before the finals": before, "after": os.getloadavg(), "wall for each s of CPU": contest.stretch([learned, *finalists])}
    others = [*finalists, *builds]
    said = {"machine": machine.describe(), "load": load, "candidates": count, "seed": seed, "rounds": rounds,
            "programs": {play.name: play.long.command.replace("{n}", str(play.long.n)) for play in wanted},
            "finals": compare_means(console, f"{len(wanted)} programs, {rounds} rounds: learned, and its ratio to", learned, others),
            "failed": course.failed, "search": told}
    show_programs(console, learned, others)
    console.print(f"{said['machine']['cpu']}; load {load}")
    write(out, said)


@app.command()
def gaps(
    count: int = typer.Option(200, "--candidates", min=2, help="how many fixed settings are tried"),
    rounds: int = typer.Option(8, min=2, help="of the finals; the first half picks the best setting, the other half tells its figures"),
    seed: int = SEED,
    jobs: int = JOBS,
    only: str = ONLY,
    picture: Path | None = typer.Option(None, help="an SVG with a row for each program"),
    bench_dir: Path = BENCH_DIR,
    lib: Path = LIBRARY,
    out: Path | None = JSON_OUT,
) -> None:
    """Finds the best fixed setting for each program, and shows how far the defaults, the learner and the best single setting are from it."""
    console = Console()
    wanted = wanted_here(contest.SINGLE_PLAYS, only)
    course = contest.Course(Runner(bench_dir.resolve()), lib.resolve(), wanted, seed)
    found, single = gap.measured(course, count, seed, jobs, rounds)
    console.print(gap.table(found))
    means = gap.means(found)
    for measure, one in single.items():
        taken = gap.share(means[measure])
        gained = "no setting is better than the defaults" if math.isnan(taken) else f"the learner takes {taken:.0%} of the gap"
        console.print(f"{measure}: {gained}; best single setting: {one.told()}")
    write(out, {"machine": machine.describe(), "candidates": count, "seed": seed, "rounds": rounds, "failed": course.failed,
                "single": {measure: one.options for measure, one in single.items()}, "means": means, "gaps": [vars(one) for one in found]})
    if picture:
        picture.write_text(plots.standalone(gap.picture(found)))


@app.command()
def phases(
    count: int = typer.Option(200, "--candidates", min=2, help="how many fixed settings are tried"),
    rounds: int = typer.Option(7, min=1, help="of the finals"),
    seed: int = SEED,
    scale: float = typer.Option(1, help="of the phases' length, and of the spike"),
    found: Path | None = FOUND,
    cpu: bool = typer.Option(False, help="operations by processor time, for a busy machine"),
    flips: bool = typer.Option(True, help="L3 and L4, too: flips each 100 ms, and how soon a phase settles"),
    bench_dir: Path = BENCH_DIR,
    lib: Path = LIBRARY,
    out: Path | None = JSON_OUT,
) -> None:
    """Finds the best fixed settings for bench_phases, and lets the learner and its second run go beside them (L2b)."""
    console = Console()
    course = Course(Runner(bench_dir.resolve()), Allocator("hakmem", lib.resolve(), "hakmem"), scale, cpu)
    finalists = saved_finalists(found) if found else search_phases(course, count, seed)
    with tempfile.TemporaryDirectory(prefix="hakmem-rival-") as folder:
        first, second = first_and_second(folder)
        background, second_background = first_and_second(folder, HAKMEM_BACKGROUND="1")
        course.run([first, second, background, second_background, *finalists], FINAL, rounds)
    keys = ("throughput", "faults", "memory", "faults x memory", "worth", *(f"mops_{phase}" for phase in BUSY))
    said = {"machine": machine.describe(), "load": os.getloadavg(), "candidates": count, "seed": seed, "scale": scale, "rounds": rounds,
            "clock": "cpu" if cpu else "wall"}
    for one in (first, second, background, second_background):
        said[one.name] = compare(console, f"phases of {scale:g} s: {one.name}", one, finalists, keys)
    write(out, said)
    if flips:
        learned, frozen = Setting("learned", {}), Setting("frozen", {"HAKMEM_LEARN": "frozen"})
        course.run([learned, frozen], FLIPS, rounds)
        said["flips"] = compare(console, "flips each 100 ms: learned beside frozen (L3)", learned, [frozen], keys)
        course.run([learned, frozen], CALM, rounds)
        settled = ("settled", *(f"settled_ms_{phase}" for phase in BUSY))
        said["settles"] = compare(console, "ms until a phase does 95 % of what it ends with (L4)", learned, [frozen], settled)
        write(out, said)


if __name__ == "__main__":
    app()
