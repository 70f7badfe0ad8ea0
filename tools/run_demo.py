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
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hakmem"))

from hakmem.figures import bytes_text, count_text  # noqa: E402
from hakmem.measuring import GLIBC, Candidate, Launcher  # noqa: E402
from hakmem.tables import plain_table  # noqa: E402
from hakmem.trouble import Trouble  # noqa: E402
from hakmem.tune import MARGIN, progress  # noqa: E402

# Is set for the program on both sides, because Python's own pools would bypass either malloc, and its hash order would vary.
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
SIDES = (GLIBC, Candidate("HAKMEM"))
SAME = 0.02  # smaller differences count as equal, because runs vary by this much
console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)


def run(launch: Launcher, side: Candidate, output: str = os.devnull, **more: str) -> dict:
    reply = launch.run(side, output, **more)
    if "cannot be preloaded" in reply["said"]:
        raise Trouble(f"{launch.library} could not be preloaded:\n{reply['said']}")
    if reply["code"] < 0:
        raise Trouble(f"on {side.name} it was killed by signal {-reply['code']}:\n{reply['said']}")
    return reply


def rehearse(launch: Launcher, folder: str) -> tuple[dict, bool]:
    """Runs the program once on each side, which does not count. This warms the file cache, and checks that HAKMEM serves the program and that both
    exit codes are equal. Returns HAKMEM's report, and whether the outputs are equal."""
    report, outputs = Path(folder, "rehearsal.json"), [Path(folder, side.name) for side in SIDES]
    plain = run(launch, SIDES[0], str(outputs[0]))
    code = plain["code"]
    if code in (125, 126, 127):
        raise Trouble(f"the program does not run on glibc either:\n{plain['said']}")
    ours = run(launch, SIDES[1], str(outputs[1]), report=str(report))
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


def compete(launch: Launcher, rounds: int) -> dict[str, list[dict]]:
    """Runs the program on both sides in each round, and swaps their order after each round."""
    runs: dict[str, list[dict]] = {side.name: [] for side in SIDES}
    with progress(console, rounds * len(SIDES)) as tell:
        for at in range(rounds):
            for side in SIDES[:: -1 if at % 2 else 1]:
                tell(side.name)
                runs[side.name].append(run(launch, side))
    return runs


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


def table(runs: dict[str, list[dict]]) -> Table:
    drawn = plain_table("", "", *runs, "change", "spread")
    for title, what, shown in ROWS:
        values = [[run[what] for run in side] for side in runs.values()]
        before, after = map(statistics.median, values)
        spread = max((max(side) - min(side)) / 2 / (statistics.median(side) or 1) for side in values)
        drawn.add_row(title, shown(before), Text(shown(after), style="bold"), change(before, after, spread), f"± {spread * 100:.0f} %")
    return drawn


def sentence(runs: dict[str, list[dict]]) -> Text:
    def said(what: str, noun: str) -> str:
        before, after = (statistics.median(run[what] for run in side) for side in runs.values())
        part = after / (before or 1) - 1
        return f"the same {noun}" if abs(part) <= SAME else f"{abs(part) * 100:.0f} % {'less' if part < 0 else 'more'} {noun}"

    return Text(f"HAKMEM, against glibc: {said('cpu_s', 'CPU time')}, {said('rss_bytes', 'peak memory')}.", style="bold")


def show_report(launch: Launcher, folder: str) -> None:
    report = Path(folder, "report.txt")
    run(launch, SIDES[1], report=str(report))
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
    os.environ.update(ENVIRONMENT)
    command = shlex.split(arguments.prog) if arguments.prog else workload
    with tempfile.TemporaryDirectory(prefix="hakmem-run-") as folder, Launcher(arguments.library.resolve(), command, arguments.timeout) as launch:
        console.print("  one warm-up run on each ...", style="dim")
        served, same_output = rehearse(launch, folder)
        runs = compete(launch, arguments.rounds)
        console.print(table(runs), sentence(runs), sep="\n")
        calls = ", ".join(f"{count_text(number)} {name}" for name, number in served.items() if number)
        console.print(f"HAKMEM served {calls}.")
        if same_output:
            console.print("Both outputs are identical.", style="dim")
        elif arguments.prog:
            console.print("The outputs differ (expected if the program prints times or addresses).", style="yellow")
        else:
            raise Trouble("the outputs of the workload on glibc and HAKMEM differ")
        console.print(f"Medians of {arguments.rounds} runs on each, alternating; spread is half the range from fastest to slowest.\n", style="dim")
        show_report(launch, folder)


if __name__ == "__main__":
    try:
        main()
    except Trouble as trouble:
        console.print(Text(f"make run: {trouble}", style="red"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
