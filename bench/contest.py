"""Compares settings over many programs: finds the best fixed setting for all of them, and places HAKMEM with its defaults beside it.

A run's figures are CPU (user and system time; of bench_phases, which runs for a given time, CPU time for an operation), RSS (the
geometric mean of the peak and of the mean over time) and minor faults. Of the runs of one setting on one program, the least CPU
counts, for disturbances only add to it, and the medians of RSS and faults. A setting's scores are the geometric means over the
programs of CPU x RSS and of faults x RSS; less is better.
"""
import math
import os
import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import verdicts
from measure import BadRun, Runner, Sample
from peers import Allocator
from point import Workload
from programs import NAMED
from progress import Bar

SEE_RSS = ("--trace", "2")
TRIES = 3
BUSY = ("tiny", "remote", "large", "spike")
FAULTING = ("remote", "large", "spike")
PRODUCTS = ("cpu x rss", "faults x rss")
PHASES = "phases"
Figures = dict[str, float]

# ---- fixed settings ----------------------------------------------------------
# The learner is compared with them: HAKMEM_LEARN=off, and a value for each knob. The first is the defaults; then each knob moved alone, for the best
# is often near the defaults; then random ones, in which each knob is moved or not at random.

MIB = 1 << 20
Value = int | str
OFF = {"HAKMEM_LEARN": "off"}
# Each knob of scope `policy` in src/policy/options.def that shapes speed and memory, and the background thread (test_rival.py checks that).
SPACE: dict[str, list[Value]] = {
    "thread_cache": [0] + [(MIB // 4) << n for n in range(10)],
    "depot": [0] + [MIB << n for n in range(7)],
    "refill": [10, 25, 50, 75, 100],
    "hot_turns": [1, 2, 4, 8, 16, 64, 1000000],
    "drain_slabs": [1, 4, 16, 64, 256],
    "purge_delay": [25, 50, 100, 150, 200, 300, 500, 700, 1000, 2000, 4000, 16000],
    "large_cache": [0] + [(4 * MIB) << n for n in range(9)],
    "large_fit": [110, 125, 150, 200, 300, 400],
    "huge_pages_from": [0] + [MIB << n for n in range(8)],
    "huge_blocks_from": [0] + [MIB << n for n in range(6)],
    "background": [0, 1, "auto"],
}
DEFAULTS: dict[str, Value] = {
    "thread_cache": 8 * MIB,
    "depot": 8 * MIB,
    "refill": 50,
    "hot_turns": 1,
    "drain_slabs": 16,
    "purge_delay": 500,
    "large_cache": 128 * MIB,
    "large_fit": 400,
    "huge_pages_from": 4 * MIB,
    "huge_blocks_from": 4 * MIB,
    "background": "auto",
}


@dataclass
class Setting:
    """A way to run HAKMEM, and the figures of its runs."""

    name: str
    options: dict[str, str]
    runs: list[dict] = field(default_factory=list)

    def median(self, key: str) -> float:
        return statistics.median(run[key] for run in self.runs)

    def told(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items()) or "defaults"


def fixed(name: str, knobs: dict[str, Value]) -> Setting:
    return Setting(name, OFF | {f"HAKMEM_{knob.upper()}": str(value) for knob, value in knobs.items()})


def candidates(count: int, seed: int) -> list[Setting]:
    """The defaults first, which need no search."""
    dice = random.Random(seed)
    singles = [{knob: value} for knob, values in SPACE.items() for value in values if value != DEFAULTS[knob]]
    dice.shuffle(singles)
    chosen: list[dict[str, Value]] = [{}, *singles[: (count - 1) // 3]]
    while len(chosen) < count:
        moved = {knob: dice.choice(values) for knob, values in SPACE.items() if dice.random() < 0.5}
        if moved not in chosen:
            chosen.append(moved)
    return [fixed(f"#{n}" if n else "defaults", knobs) for n, knobs in enumerate(chosen)]


def unique(settings: list[Setting]) -> list[Setting]:
    return list({id(setting): setting for setting in settings}.values())


# ---- programs ----------------------------------------------------------------

@dataclass(frozen=True)
class Play:
    """A program in two sizes: for the search, and for the finals."""

    name: str
    short: Workload | None  # None: in the finals, and in the round before them, only
    long: Workload


def real(name: str, short: int, long: int) -> Play:
    """Of P16. Its memory is not warmed: 64 MiB and more each time take longer than so short a run."""
    work = replace(NAMED[name].workload(long), quick_n=long, warm_mib=0)
    return Play(name, replace(work, n=short, quick_n=short) if short else None, work)


def trace(name: str, short: int, long: int) -> Play:
    work = Workload(f"bench_traces {name} {{n}}", long, long, single_thread=False, series="operations")
    return Play(f"{name} trace", replace(work, n=short, quick_n=short), work)


def phases(short: str, long: str) -> Play:
    work = Workload(f"bench_phases {long}", single_thread=False, series="ms")
    return Play(PHASES, replace(work, command=f"bench_phases {short}"), work)


# Sizes of 0.03 to 0.1 s of CPU for the search, 0.1 to 0.5 s for the finals (n = 1 is what a program has).
PLAYS = (
    phases("0.1 1 64", "0.3 1 128"),
    *(real(name, 0, 1) for name in ("cc1plus-syntax", "git-log", "sqlite", "z3")),
    real("ruby", 3, 3),
    real("rocksdb", 5000, 10_000),
    real("python-json", 2, 5),
    real("python-strings", 2, 4),
    *(real(f"python-{name}", 1, 2) for name in ("dicts", "objects")),
    real("python-regex", 1, 4),
    real("python-pickle", 10, 30),
    *(real(name, 4, 10) for name in ("lua", "perl")),
    real("jq", 2000, 6000),
    trace("matrix", 5, 15),
    *(trace(name, 5, 20) for name in ("drift", "lru", "json", "compiler", "sessions")),
)
# The programs of gaps.py, each of which is searched alone. bench_phases is none, because its phases are the learner's own.
SINGLE_PLAYS = tuple(replace(one, short=one.short or one.long) for one in (
    *PLAYS[1:],
    *(real(name, 1, 1) for name in ("cc1plus-O1", "clang-O1", "git-pack")),
    real("redis", 5000, 10_000),
    real("service", 2, 6),
    *(trace(name, 5, 20) for name in ("pages", "sqlite", "mstress", "redis", "log_ring", "strings")),
))


def figures(sample: Sample) -> Figures:
    peak = sample["max_rss_mib"]
    mean_rss = sample.get("mean_rss_mib", peak)  # a short run may have ended before the launcher looked
    cpu, faults = sample["user_s"] + sample["system_s"], sample["minor_faults"]
    if "cpu_mops_tiny" in sample:
        cpu = 1 / statistics.geometric_mean(sample[f"cpu_mops_{phase}"] for phase in BUSY)
        faults = faults_of_phases(sample)
    return {"cpu": cpu, "faults": faults, "rss": math.sqrt(peak * mean_rss), "peak": peak, "mean": mean_rss,
            "stretch": sample["wall_s"] / max(sample["user_s"] + sample["system_s"], 1e-9)}


def faults_of_phases(sample: Sample) -> float:
    """For each 1000 operations, over the phases that fault."""
    return statistics.geometric_mean(max(sample[f"faults_{phase}"], 1) / sample[f"mops_{phase}"] for phase in FAULTING)


class Course:
    """Runs of settings on programs. A run's figures are kept in setting.runs[round][program]."""

    def __init__(self, runner: Runner, library: os.PathLike, plays: list[Play], seed: int = 1) -> None:
        self.runner, self.library, self.plays = runner, library, plays
        self.dice = random.Random(seed)
        self.failed: dict[str, str] = {}

    def one(self, setting: Setting, work: Workload) -> Figures:
        options = dict(setting.options)
        hakmem = Allocator("hakmem", options.pop("library", self.library), "hakmem")
        runner = replace(self.runner, hakmem_env=options)
        for _ in range(TRIES):
            try:
                return figures(runner.run_once(work, hakmem, watch=SEE_RSS))
            except BadRun as problem:
                bad = problem
        raise BadRun(f"{setting.name}, {work.program or work.command}: {bad}") from bad

    def prepare(self, setting: Setting, long: bool) -> dict[str, Workload]:
        """What is done once for a program and a size, one after the other. The programs that have this size."""
        self.runner.calls.clear()
        works = {play.name: work for play in self.plays if (work := play.long if long else play.short)}
        for work in works.values():
            self.one(setting, work)
        return works

    def search(self, settings: list[Setting], long: bool, jobs: int) -> list[Setting]:
        """Each setting once on each program, some at a time. Those that ran."""
        works = self.prepare(settings[0], long)
        with Bar(len(settings)) as bar, ThreadPoolExecutor(jobs) as pool:
            for setting in settings:
                bar.step(f"{len(works)} programs: {setting.name}")
                try:
                    done = pool.map(lambda work: self.one(setting, work), works.values())
                    setting.runs = [dict(zip(works, done))]
                except BadRun as bad:
                    self.failed[setting.name] = str(bad)
                    bar.note(f"dropped {bad}")
        return [setting for setting in settings if setting.name not in self.failed]

    def finals(self, settings: list[Setting], rounds: int) -> None:
        """All settings in turns on a program, in an order new each time."""
        works = self.prepare(settings[0], long=True)
        for setting in settings:
            setting.runs = [{} for _ in range(rounds)]
        with Bar(len(works) * rounds) as bar:
            for number in range(rounds):
                for name, work in works.items():
                    bar.step(f"finals, round {number + 1}: {name}")
                    for setting in self.dice.sample(settings, len(settings)):
                        setting.runs[number][name] = self.one(setting, work)


def of_play(setting: Setting, play: str) -> Figures:
    """Least CPU, median RSS and faults; and the two products."""
    runs = [run[play] for run in setting.runs]
    cpu = min(run["cpu"] for run in runs)
    faults, rss = (statistics.median(run[key] for run in runs) for key in ("faults", "rss"))
    return {"cpu": cpu, "faults": faults, "rss": rss, "cpu x rss": cpu * rss, "faults x rss": faults * rss}


def mean(setting: Setting, key: str) -> float:
    """Geometric, over the programs."""
    return statistics.geometric_mean(of_play(setting, play)[key] for play in setting.runs[0])


def worth(setting: Setting) -> float:
    return math.prod(mean(setting, key) for key in PRODUCTS)


def ranked(settings: list[Setting]) -> list[list[Setting]]:
    """By both products, and by each alone; the best first."""
    keys = [worth, *(lambda setting, key=key: mean(setting, key) for key in PRODUCTS)]
    return [sorted(settings, key=key) for key in keys]


def best_share(settings: list[Setting], count: int) -> list[Setting]:
    """By both products and by each alone, in turns; the defaults stay in."""
    in_turns = (one for place in zip(*ranked(settings)) for one in place)
    return unique([settings[0], *in_turns])[:count]


def rivals(settings: list[Setting]) -> list[Setting]:
    return unique([order[0] for order in ranked(settings)])


def round_ratios(learned: Setting, other: Setting, key: str) -> list[float]:
    """Round by round, the geometric mean over the programs: a busy machine slows both."""
    parts = key.split(" x ")
    value = lambda run: math.prod(run[part] for part in parts)  # noqa: E731
    return [statistics.geometric_mean(value(mine[play]) / value(its[play]) for play in mine) for mine, its in zip(learned.runs, other.runs)]


def beside(learned: Setting, other: Setting, key: str) -> dict[str, float]:
    return told(mean(learned, key) / mean(other, key), verdicts.median_interval(round_ratios(learned, other, key)))


def told(ratio: float, interval: verdicts.Interval | None) -> dict[str, float]:
    low, high = interval or (math.nan, math.nan)
    return {"ratio": ratio, "low": low, "high": high}


def stretch(settings: list[Setting]) -> float:
    """How long runs took by the clock, for each second of CPU: above 1 others ran meanwhile."""
    return statistics.median(run[play]["stretch"] for one in settings for run in one.runs for play in run if play != PHASES)
