#!/usr/bin/env python3
"""The learner's rival: the best fixed settings for work that shifts, found by search.

python3 bench/rival.py                    200 candidates, some 40 min; then the finals
python3 bench/rival.py --candidates 20 --json rival.json

Each candidate is HAKMEM with HAKMEM_LEARN=off and values of its own for every knob, on bench_phases. Short runs of
all, longer ones of the best, and then the finals: the best three beside HAKMEM as it comes, interleaved. Throughput is
the geometric mean over the phases that do something; faults, over those that fault, of page faults for each 1000
operations; memory is the mean of RSS over time. What a candidate is worth is throughput / sqrt(faults x memory).
"""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

import confidence
import machine
from measure import Runner
from peers import Allocator
from progress import Bar
from rows import Workload

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
BUSY = ("tiny", "remote", "large", "spike")
FAULTING = ("remote", "large", "spike")
# Each knob of scope `policy` in options.def that shapes speed and memory, and the background thread.
SPACE = {
    "thread_cache": [MIB << n for n in range(8)],
    "depot": [0] + [MIB << n for n in range(7)],
    "purge_delay": [25, 50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 4000, 8000, 16000],
    "big_cache": [(4 * MIB) << n for n in range(9)],
    "big_fit": [110, 125, 150, 200, 300, 400],
    "huge_pages_from": [0] + [(2 * MIB) << n for n in range(7)],
    "huge_blocks_from": [0] + [MIB << n for n in range(4)],
    "background": [0, 1],
}
SHORT, LONG, FINAL = (0.5, 1, 128), (1, 1, 256), (1, 2, 256)  # seconds of a phase, rounds, MiB of a spike
CALM, FLIPS = (2, 2, 256), (0.1, 20, 64)
WARM_MIB = 1024


@dataclass
class Setting:
    name: str
    options: dict[str, str]
    runs: list[dict[str, float]] = field(default_factory=list)

    def column(self, key: str) -> list[float]:
        return [run[key] for run in self.runs]

    def median(self, key: str) -> float:
        return statistics.median(self.column(key))


def figures(sample: dict[str, float]) -> dict[str, float]:
    done = {phase: sample[f"mops_{phase}"] for phase in BUSY}
    busy_share = {phase: max(sample[f"faults_{phase}"], 1) / done[phase] for phase in FAULTING}
    throughput = statistics.geometric_mean(done.values())
    faults = statistics.geometric_mean(busy_share.values())
    memory = sample["rss_mib_mean"]
    settled = max(sample[f"settled_ms_{phase}"] for phase in BUSY)
    return sample | {"throughput": throughput, "faults": faults, "memory": memory, "faults x memory": faults * memory,
                     "worth": throughput / math.sqrt(faults * memory), "settled": settled}


def random_settings(count: int, seed: int) -> list[Setting]:
    """The defaults first: what is fixed without a search."""
    dice = random.Random(seed)
    found = [Setting("defaults", {"HAKMEM_LEARN": "off"})]
    while len(found) < count:
        chosen = {f"HAKMEM_{name.upper()}": str(dice.choice(values)) for name, values in SPACE.items()}
        found.append(Setting(f"#{len(found)}", {"HAKMEM_LEARN": "off", **chosen}))
    return found


def best(settings: list[Setting], key: str, count: int) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.median(key), reverse=True)[:count]


def leanest(settings: list[Setting], count: int) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.median("faults x memory"))[:count]


def unique(settings: list[Setting]) -> list[Setting]:
    return list({id(setting): setting for setting in settings}.values())


class Course:
    """Runs of settings in turns, with progress."""

    def __init__(self, runner: Runner, library: Path, scale: float) -> None:
        self.runner, self.hakmem, self.scale = runner, Allocator("hakmem", library, "hakmem"), scale

    def command(self, seconds: float, rounds: int, mib: int) -> str:
        scaled = seconds if (seconds, rounds, mib) == FLIPS else seconds * self.scale
        return f"bench_phases {scaled:.2g} {rounds} {int(mib * self.scale)}"

    def run(self, settings: list[Setting], plan: tuple[float, int, int], rounds: int) -> None:
        command = self.command(*plan)
        work = Workload(command, warm_mib=WARM_MIB, single_thread=False, series="ms")
        for setting in settings:
            setting.runs = []
        with Bar([command] * (rounds * len(settings))) as bar:
            for _ in range(rounds):
                for setting in settings:
                    bar.step(f"{command}: {setting.name}")
                    self.runner.hakmem_env = setting.options
                    setting.runs.append(figures(self.runner.run_once(work, self.hakmem)))
                    bar.advance()


def beside(learned: Setting, fixed: Setting, key: str) -> dict[str, float]:
    ratio = confidence.ratio(learned.column(key), fixed.column(key))
    interval = confidence.ratio_interval(learned.column(key), fixed.column(key))
    return {"ratio": ratio, "low": interval.low if interval else math.nan, "high": interval.high if interval else math.nan}


def finals_of(settings: list[Setting]) -> list[Setting]:
    return unique([settings[0], *best(settings, "worth", 1), *best(settings, "throughput", 1), *leanest(settings, 1)])


def compare(console: Console, title: str, learned: Setting, others: list[Setting], keys: tuple[str, ...]) -> list[dict]:
    table = Table(title=title)
    for head in ("", learned.name, *(other.name for other in others)):
        table.add_column(head, justify="right" if head else "left")
    ratios = {other.name: {key: beside(learned, other, key) for key in keys} for other in others}
    for key in keys:
        told = [ratios[other.name][key] for other in others]
        cells = [f"{other.median(key):.4g}\nx {r['ratio']:.3f} ({r['low']:.2f}-{r['high']:.2f})" for other, r in zip(others, told)]
        table.add_row(key, f"{learned.median(key):.4g}", *cells)
    console.print(table)
    lines = []
    for other in others:
        console.print(f"{other.name}: {' '.join(f'{name}={value}' for name, value in other.options.items())}")
        lines.append({"setting": other.name, "options": other.options, "ratios of learned to it": ratios[other.name],
                      "medians": {key: other.median(key) for key in keys}})
    return [{"setting": learned.name, "medians": {key: learned.median(key) for key in keys}}, *lines]


def main(
    candidates: int = typer.Option(200, min=2, help="how many fixed settings are tried"),
    rounds: int = typer.Option(7, min=1, help="of the finals"),
    seed: int = typer.Option(1, help="of the candidates"),
    scale: float = typer.Option(1, help="of the phases' length, and of the spike"),
    bench_dir: Path = typer.Option(ROOT / "build/bench"),
    lib: Path = typer.Option(ROOT / "build/libhakmem.so"),
    out: Path | None = typer.Option(None, "--json", help="where the figures are written"),
) -> None:
    """Finds the best fixed settings for bench_phases, and lets the learner run beside them."""
    console = Console()
    course = Course(Runner(bench_dir), lib, scale)
    settings = random_settings(candidates, seed)
    course.run(settings, SHORT, 1)
    few = unique([settings[0], *best(settings, "worth", max(2, candidates // 16)), *best(settings, "throughput", max(1, candidates // 40)),
                  *leanest(settings, max(1, candidates // 40))])
    course.run(few, LONG, 2)
    finalists = finals_of(few)
    learned, background = Setting("learned", {}), Setting("learned, background", {"HAKMEM_BACKGROUND": "1"})
    course.run([learned, background, *finalists], FINAL, rounds)
    keys = ("throughput", "faults", "memory", "faults x memory", "worth", *(f"mops_{phase}" for phase in BUSY))
    said = {"machine": machine.describe(), "candidates": candidates, "seed": seed, "scale": scale, "rounds": rounds,
            "finals": compare(console, "phases of a second: learned", learned, finalists, keys),
            "finals, background": compare(console, "the same, with the background thread", background, finalists, keys)}
    frozen = Setting("frozen", {"HAKMEM_LEARN": "frozen"})
    course.run([learned, frozen], FLIPS, rounds)
    said["flips"] = compare(console, "flips each 100 ms: learned beside frozen (L3)", learned, [frozen], keys)
    course.run([learned, frozen], CALM, rounds)
    settled = ("settled", *(f"settled_ms_{phase}" for phase in BUSY))
    said["settles"] = compare(console, "ms until a phase does 95 % of what it ends with (L4)", learned, [frozen], settled)
    if out is not None:
        out.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
