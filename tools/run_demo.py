#!/usr/bin/env python3
"""Demo: runs one real program alternately on glibc's malloc and on HAKMEM, and compares their cost.

run_demo.py --library LIB [--prog "command args"] [--rounds N]

Without --prog, the program is a Python workload with JSON and strings (workload_json.py). Each program runs with PYTHONMALLOC=malloc on both sides,
because Python's own allocator would bypass both. The output mentions this. Exits with 1 if HAKMEM did not serve the program, or if the outputs of
the workload differ.
"""
import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hakmem"))

from hakmem.figures import bytes_text, count_text  # noqa: E402
from hakmem.library import preload  # noqa: E402
from hakmem.measuring import Launcher  # noqa: E402
from hakmem.tables import plain_table  # noqa: E402
from hakmem.trouble import Trouble  # noqa: E402
from hakmem.tune import MARGIN, progress  # noqa: E402

# Is set for the program on both sides, because Python's own pools would bypass either malloc, and its hash order would vary.
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
SAME = 0.02  # smaller differences count as equal, because runs vary by this much
console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)


@dataclass
class Side:
    """An allocator, and what the launcher measured in its runs."""

    name: str
    library: Path | None
    runs: list[dict] = field(default_factory=list)

    def median(self, what: str) -> float:
        return statistics.median(run[what] for run in self.runs)

    def spread(self, what: str) -> float:
        """Returns half the range from the smallest to the largest value, as a fraction of the median."""
        values = [run[what] for run in self.runs]
        return (max(values) - min(values)) / 2 / (statistics.median(values) or 1)


def run(launch: Launcher, side: Side, output: str = os.devnull, **more: str) -> dict:
    variables = ENVIRONMENT | more
    if side.library:
        variables["LD_PRELOAD"] = preload(side.library, launch.inherited)
    elif "LD_PRELOAD" in launch.inherited:
        variables["LD_PRELOAD"] = launch.inherited["LD_PRELOAD"]
    reply, errors = launch.measure(launch.command, variables, output)
    if reply.get("late"):
        raise Trouble(f"on {side.name} it ran longer than {launch.timeout:g} s (--timeout)")
    if "cannot be preloaded" in errors:
        raise Trouble(f"{side.library} could not be preloaded:\n{errors}")
    if reply["code"] < 0:
        raise Trouble(f"on {side.name} it was killed by signal {-reply['code']}:\n{errors[-2000:]}")
    return reply | {"errors": errors}


def rehearse(launch: Launcher, glibc: Side, hakmem: Side, folder: str) -> tuple[dict, bool]:
    """Runs the program once on each side, which does not count. This warms the file cache, and checks that HAKMEM serves the program and that both
    exit codes are equal. Returns HAKMEM's report, and whether the outputs are equal."""
    report, outputs = Path(folder, "rehearsal.json"), [Path(folder, name) for name in ("glibc", "hakmem")]
    plain = run(launch, glibc, str(outputs[0]))
    code = plain["code"]
    if code in (125, 126, 127):
        raise Trouble(f"the program does not run on glibc either:\n{plain['errors']}")
    ours = run(launch, hakmem, str(outputs[1]), HAKMEM_REPORT=str(report))
    if ours["code"] != code:
        raise Trouble(f"exit code {code} on glibc, but {ours['code']} on HAKMEM")
    if not report.exists():
        raise Trouble("HAKMEM left no report: it did not serve this program (is it statically linked, or set-uid?)")
    served = json.loads(report.read_text()).get("served", {})
    if code != 0:
        console.print(f"The program ends with exit code {code} on both.", style="yellow")
    if not served.get("malloc", 0):
        raise Trouble("the program never calls malloc, so that there is nothing to compare")
    launch.warm_bytes = int(max(plain["rss_bytes"], ours["rss_bytes"])) + MARGIN
    return served, outputs[0].read_bytes() == outputs[1].read_bytes()


def compete(launch: Launcher, sides: list[Side], rounds: int) -> None:
    """Runs the program on both sides in each round, and swaps their order after each round."""
    with progress(console, rounds * len(sides)) as tell:
        for at in range(rounds):
            for side in sides if at % 2 == 0 else reversed(sides):
                tell(side.name)
                side.runs.append(run(launch, side))


def seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


ROWS = (
    ("time", "wall_s", seconds),
    ("CPU, user + system", "cpu_s", seconds),
    ("  user", "user_s", seconds),
    ("  system", "system_s", seconds),
    ("peak RSS", "rss_bytes", bytes_text),
    ("page faults", "faults", count_text),
)


def change(before: float, after: float, spread: float) -> Text:
    """Returns the text of a change. It is colored only if the change exceeds the spread among the runs of one allocator."""
    if before <= 0:
        return Text("-", style="dim")
    part = after / before - 1
    style = "dim" if abs(part) <= max(SAME, spread) else "green" if part < 0 else "red"
    return Text(f"{part * 100:+.1f} %", style=style)


def table(glibc: Side, hakmem: Side) -> Table:
    drawn = plain_table("", "", "glibc", "HAKMEM", "change", "spread")
    for title, what, shown in ROWS:
        before, after = glibc.median(what), hakmem.median(what)
        spread = max(glibc.spread(what), hakmem.spread(what))
        drawn.add_row(title, shown(before), Text(shown(after), style="bold"), change(before, after, spread), f"± {spread * 100:.0f} %")
    return drawn


def sentence(glibc: Side, hakmem: Side) -> Text:
    def said(what: str, noun: str) -> str:
        part = hakmem.median(what) / (glibc.median(what) or 1) - 1
        if abs(part) <= SAME:
            return f"the same {noun}"
        return f"{abs(part) * 100:.0f} % {'less' if part < 0 else 'more'} {noun}"
    return Text(f"HAKMEM, against glibc: {said('cpu_s', 'CPU time')}, {said('rss_bytes', 'peak memory')}.", style="bold")


def show_report(launch: Launcher, hakmem: Side, folder: str) -> None:
    report = Path(folder, "report.txt")
    run(launch, hakmem, HAKMEM_REPORT=str(report))
    if not report.exists():
        raise Trouble("HAKMEM left no text report")
    console.print(Rule("HAKMEM's own report of one more run", align="left", style="dim"))
    console.print(Text(report.read_text().rstrip("\n")), soft_wrap=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=Path, default=HERE.parent / "build/libhakmem.so")
    parser.add_argument("--prog", help="any program, with its arguments, in place of the Python workload")
    parser.add_argument("--rounds", type=int, default=5, help="measured runs on each allocator (5)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one run may take (300)")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if not arguments.library.exists():
        raise Trouble(f"{arguments.library} does not exist: run make first")
    workload = [os.path.realpath(sys.executable), str(HERE / "workload_json.py")]
    console.print(Text.assemble(("The program: ", "bold"), arguments.prog or "a Python JSON and string workload (tools/workload_json.py)"))
    settings = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    console.print(f"  with {settings} on both (only Python programs read these)", style="dim")
    glibc, hakmem = Side("glibc", None), Side("HAKMEM", arguments.library.resolve())
    with (
        tempfile.TemporaryDirectory(prefix="hakmem-run-") as folder,
        Launcher(hakmem.library, shlex.split(arguments.prog) if arguments.prog else workload, arguments.timeout) as launch,
    ):
        console.print("  one warm-up run on each ...", style="dim")
        served, same_output = rehearse(launch, glibc, hakmem, folder)
        compete(launch, [glibc, hakmem], arguments.rounds)
        console.print(table(glibc, hakmem))
        console.print(sentence(glibc, hakmem))
        calls = ", ".join(f"{count_text(number)} {name}" for name, number in served.items() if number)
        console.print(f"HAKMEM served {calls}.")
        if same_output:
            console.print("Both outputs are identical.", style="dim")
        elif arguments.prog:
            console.print("The outputs differ (expected if the program prints times or addresses).", style="yellow")
        else:
            raise Trouble("the outputs of the workload on glibc and HAKMEM differ")
        console.print(f"Medians of {arguments.rounds} runs on each, alternating; spread is half the range from fastest to slowest.\n", style="dim")
        show_report(launch, hakmem, folder)


if __name__ == "__main__":
    try:
        main()
    except Trouble as trouble:
        console.print(Text(f"make run: {trouble}", style="red"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
