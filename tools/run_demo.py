#!/usr/bin/env python3
"""Demo: runs one real program alternately on glibc's malloc and on HAKMEM, and compares their cost.

run_demo.py --library LIB --launch LAUNCH [--prog "command args"] [--rounds N]

Without --prog, the program is a Python workload with JSON and strings (workload_json.py). Each program runs with PYTHONMALLOC=malloc on both sides,
because Python's own allocator would bypass both. The output mentions this. Exits with 1 if HAKMEM did not serve the program, or if the outputs of
the workload differ.
"""
import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hakmem"))

from hakmem.figures import count_text  # noqa: E402
from hakmem.trouble import Trouble  # noqa: E402

# Is set for the program on both sides, because Python's own pools would bypass either malloc, and its hash order would vary.
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
SAME = 0.02  # smaller differences count as equal, because runs vary by this much
console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)


@dataclass
class Side:
    """An allocator and its runs."""
    name: str
    library: str | None
    runs: list[dict] = field(default_factory=list)  # what the launcher measured, and `output`, `errors` and sums

    def median(self, what: str) -> float:
        return statistics.median(run[what] for run in self.runs)

    def spread(self, what: str) -> float:
        """Returns half the range from the smallest to the largest value, as a fraction of the median."""
        values = [run[what] for run in self.runs]
        return (max(values) - min(values)) / 2 / (statistics.median(values) or 1)


class Job:
    """Runs a program through the launcher, because a child of this large process would inherit its peak RSS."""

    def __init__(self, launch: Path, command: list[str], seconds: float):
        self.launch, self.command, self.seconds = launch, command, seconds
        self.warm_mib = 0

    def run(self, side: Side, **more: str) -> dict:
        variables = ENVIRONMENT | more
        if side.library:
            variables["LD_PRELOAD"] = ":".join(filter(None, [side.library, os.environ.get("LD_PRELOAD")]))
        arguments = [str(self.launch)]
        if self.warm_mib:
            arguments += ["--warm", str(self.warm_mib)]
        for name, value in variables.items():
            arguments += ["--env", f"{name}={value}"]
        return self._measured(side, arguments + ["--"] + self.command)

    def _measured(self, side: Side, arguments: list[str]) -> dict:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", start_new_session=True)
        try:
            output, errors = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Trouble(f"on {side.name} it ran longer than {self.seconds:g} s (--timeout)") from None
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if "cannot be preloaded" in errors:
            raise Trouble(f"{side.library} could not be preloaded:\n{errors.strip()}")
        at = output.rfind('{"status"')
        if process.returncode != 0 or at < 0:
            raise Trouble(f"cannot be started:\n{errors.strip()}")
        use = json.loads(output[at:])
        if use["signal"]:
            raise Trouble(f"on {side.name} it was killed by signal {use['signal']}:\n{errors.strip()[-2000:]}")
        sums = {"cpu_s": use["user_s"] + use["system_s"], "faults": use["minor_faults"] + use["major_faults"]}
        return {**use, **sums, "output": output[:at], "errors": errors}


def rehearse(job: Job, glibc: Side, hakmem: Side, folder: str) -> tuple[dict, bool]:
    """Runs the program once on each side, which does not count. This warms the file cache, and checks that HAKMEM serves the program and that both
    exit codes are equal. Returns HAKMEM's report, and whether the outputs are equal."""
    plain = job.run(glibc)
    report = Path(folder, "rehearsal.json")
    code = plain["status"]
    if code in (125, 126, 127):
        raise Trouble(f"the program does not run on glibc either:\n{plain['errors'].strip()}")
    ours = job.run(hakmem, HAKMEM_REPORT=str(report))
    if ours["status"] != code:
        raise Trouble(f"exit code {code} on glibc, but {ours['status']} on HAKMEM")
    if not report.exists():
        raise Trouble("HAKMEM left no report: it did not serve this program (is it statically linked, or set-uid?)")
    served = json.loads(report.read_text()).get("served", {})
    if code != 0:
        console.print(f"The program ends with exit code {code} on both.", style="yellow")
    if not served.get("malloc", 0):
        raise Trouble("the program never calls malloc, so that there is nothing to compare")
    # In a virtual machine, the first touch of long-free memory is slow, which would penalize the first run.
    # Therefore a separate process touches as much memory as the program will use before each run, but not more than half of what is free.
    job.warm_mib = max(plain["max_rss_kib"], ours["max_rss_kib"]) // 1024 + 32
    return served, plain["output"] == ours["output"]


def compete(job: Job, sides: list[Side], rounds: int) -> None:
    """Runs the program on both sides in each round, and swaps their order after each round."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=40),
               TextColumn("{task.completed:.0f} of {task.total:.0f} runs"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=rounds * len(sides))
        for at in range(rounds):
            for side in sides if at % 2 == 0 else reversed(sides):
                progress.update(task, description=f"round {at + 1}: {side.name:<7}")
                side.runs.append(job.run(side))
                progress.advance(task)
            if not console.is_terminal:
                console.print(f"  round {at + 1} of {rounds}: " + ", ".join(f"{s.name} {s.runs[-1]['wall_s']:.2f} s" for s in sides))


def seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


ROWS = (
    ("time", "wall_s", seconds),
    ("CPU, user + system", "cpu_s", seconds),
    ("  user", "user_s", seconds),
    ("  system", "system_s", seconds),
    ("peak RSS", "max_rss_kib", lambda kib: f"{kib / 1024:.1f} MiB"),
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
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 2), title_justify="left")
    drawn.add_column("")
    for title in ("glibc", "HAKMEM", "change"):
        drawn.add_column(title, justify="right", style="bold" if title == "HAKMEM" else "")
    drawn.add_column("spread", justify="right", style="dim")
    for title, what, shown in ROWS:
        before, after = glibc.median(what), hakmem.median(what)
        spread = max(glibc.spread(what), hakmem.spread(what))
        drawn.add_row(title, shown(before), shown(after), change(before, after, spread), f"± {spread * 100:.0f} %",
                      style="dim" if title.startswith(" ") else "")
    return drawn


def sentence(glibc: Side, hakmem: Side) -> Text:
    def said(what: str, noun: str) -> str:
        part = hakmem.median(what) / (glibc.median(what) or 1) - 1
        if abs(part) <= SAME:
            return f"the same {noun}"
        return f"{abs(part) * 100:.0f} % {'less' if part < 0 else 'more'} {noun}"
    return Text(f"HAKMEM, against glibc: {said('cpu_s', 'CPU time')}, {said('max_rss_kib', 'peak memory')}.", style="bold")


def show_report(job: Job, hakmem: Side, folder: str) -> None:
    report = Path(folder, "report.txt")
    job.run(hakmem, HAKMEM_REPORT=str(report))
    if not report.exists():
        raise Trouble("HAKMEM left no text report")
    console.print(Rule("HAKMEM's own report of one more run", align="left", style="dim"))
    console.print(Text(report.read_text().rstrip("\n")), soft_wrap=True)


def command_of(arguments: argparse.Namespace) -> tuple[list[str], str]:
    if arguments.prog:
        return shlex.split(arguments.prog), arguments.prog
    python = os.path.realpath(sys.executable)
    return [python, str(HERE / "workload_json.py")], "a Python JSON and string workload (tools/workload_json.py)"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=Path, default=HERE.parent / "build/libhakmem.so")
    parser.add_argument("--launch", type=Path, default=HERE.parent / "build/bench/launch")
    parser.add_argument("--prog", help="any program, with its arguments, in place of the Python workload")
    parser.add_argument("--rounds", type=int, default=5, help="measured runs on each allocator (5)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one run may take (300)")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    command, title = command_of(arguments)
    for needed in (arguments.library, arguments.launch):
        if not needed.exists():
            raise Trouble(f"{needed} does not exist: run make first")
    glibc, hakmem = Side("glibc", None), Side("HAKMEM", str(arguments.library.resolve()))
    job = Job(arguments.launch.resolve(), command, arguments.timeout)
    console.print(Text.assemble(("The program: ", "bold"), title))
    settings = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    console.print(f"  with {settings} on both (only Python programs read these)", style="dim")
    with tempfile.TemporaryDirectory(prefix="hakmem-run-") as folder:
        console.print("  one warm-up run on each ...", style="dim")
        served, same_output = rehearse(job, glibc, hakmem, folder)
        compete(job, [glibc, hakmem], arguments.rounds)
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
        show_report(job, hakmem, folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        console.print(Text(f"make run: {trouble}", style="red"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
