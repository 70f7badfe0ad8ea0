"""Defines the command line. Each command imports its modules itself, so that `hakmem run` starts programs quickly."""

from __future__ import annotations

import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import List, Optional

import typer
from rich.console import Console
from rich.text import Text

from hakmem import __version__, completing, profiling
from hakmem.interval import LEAST_ROUNDS
from hakmem.library import find_library
from hakmem.trouble import FAILED, USAGE, Trouble

PIPE_WIDTH = 120
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Arguments after the program's name belong to the program.
PROGRAM = {"ignore_unknown_options": False, "allow_interspersed_args": False}


def console() -> Console:
    """Returns a console that does not interpret markup, because a path or a name may contain brackets and colons."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def show_version(wanted: bool) -> None:
    if wanted:
        try:
            library = str(find_library())
        except Trouble:
            library = "no library found"
        print(f"hakmem {__version__} ({library})")
        raise typer.Exit


@app.callback()
def hakmem(
    version: bool = typer.Option(False, "--version", is_eager=True, callback=show_version, help="Show the tool's version and its library.")
) -> None:
    """Runs programs on HAKMEM, monitors and tunes them, and finds problems."""


class Learn(str, Enum):
    on, off, frozen, canary, settle = "on", "off", "frozen", "canary", "settle"


@app.command(context_settings=PROGRAM)
def run(
    command: List[str] = typer.Argument(..., metavar="[--] PROGRAM [ARGS]..."),
    profile: Optional[str] = typer.Option(None, autocompletion=completing.profiles, help="throughput, balanced, compact, debug, or a file."),
    goal: Optional[str] = typer.Option(None, help="Memory goal: bytes (512m) or percent."),
    limit: Optional[str] = typer.Option(None, help="Hard memory limit in bytes."),
    learn: Optional[Learn] = typer.Option(None, help="Whether HAKMEM adapts to the program."),
    explain_file: Optional[str] = typer.Option(None, "--explain", metavar="FILE", help="Log each decision and its reason."),
    report_file: Optional[str] = typer.Option(
        None, "--report", metavar="FILE", help="Write a memory report at exit (.json: for `hakmem report`; -: stderr)."
    ),
    live: Optional[bool] = typer.Option(
        None, "--live/--no-live", help="Write a report each second, for `hakmem top`. Default unless --report is given."
    ),
    hardened: bool = typer.Option(False, "--hardened", help="All protections, by libhakmem-hardened.so."),
    guard: bool = typer.Option(False, "--guard", help="Find mistakes: each free is checked, some blocks lie against guard pages."),
    scripts: bool = typer.Option(False, "--scripts", help="Let Python (3.12 or newer) and Node name their functions for `profile` and `leaks`."),
    setting: List[str] = typer.Option([], "--set", metavar="NAME=VALUE", autocompletion=completing.settings, help="Set any option; repeatable."),
) -> None:
    """Runs a program on HAKMEM, and exits with the program's exit code."""
    from hakmem import run as runs
    from hakmem.options import check

    options = dict(map(runs.parse_setting, setting))
    for name, value in options.items():
        check(name, value, f"--set {name}={value}")
    named = {
        "profile": runs.profile_value(profile),
        "goal": goal,
        "limit": limit,
        "learn": learn.value if learn else None,
        "explain": runs.absolute(explain_file),
    }
    for name, value in named.items():
        if value is not None:
            check(name, value, f"--{name} {value}")
            options[name] = value
    runs.run(command, runs.Request(options, report_file, live, hardened, guard, scripts))


@app.command()
def top(
    pid: Optional[int] = typer.Argument(None, metavar="[PID]", autocompletion=completing.processes),
    once: bool = typer.Option(False, "--once", help="Print one frame and exit."),
    save: Optional[Path] = typer.Option(None, metavar="FOLDER", help="Save every report, for `hakmem report FOLDER`."),
    sort: Optional[str] = typer.Option(None, metavar="COLUMN", autocompletion=completing.columns, help="Sort by this column."),
    threads: bool = typer.Option(False, "--threads", help="Begin with the threads, not the size classes."),
    heaps: bool = typer.Option(False, "--heaps", help="Begin with the heaps of the program's own."),
) -> None:
    """Shows a live view of a process on HAKMEM. The key h lists the keys. Without PID, lists the processes on HAKMEM."""
    from hakmem import top as tops

    if pid is None:
        return tops.show_processes(console())
    tops.top(pid, once, save, console(), tops.view_of(sort, threads, heaps))


@app.command()
def report(
    files: List[Path] = typer.Argument(..., metavar="FILE...", help="JSON reports, or a folder of them (`hakmem top --save`, HAKMEM_REPORT=DIR/)."),
    explain_log: Optional[Path] = typer.Option(None, "--explain", metavar="LOG", help="A log written by HAKMEM_EXPLAIN."),
    html: Optional[Path] = typer.Option(None, metavar="OUT.html", help="Also write a page with plots."),
    json_file: Optional[str] = typer.Option(
        None, "--json", metavar="OUT.json", help="Also write the sums of all processes as JSON; -: JSON alone, to stdout."
    ),
) -> None:
    """Shows where the memory is and was, and the decisions. For several processes, it shows their sums and what each of them has."""
    from hakmem import explain, page, reports, tree

    each = reports.read_each(files)
    if reports.of_many(each) and explain_log:
        raise Trouble("--explain needs the reports of one process: these are of several", USAGE)
    if json_file:
        tree.write_json(json_file, tree.total(tree.last_of_each(each)))
    if json_file == "-":
        return
    found = [tree.total(tree.last_of_each(each))] if reports.of_many(each) else reports.in_order(each)
    decisions = explain.read(explain_log) if explain_log else []
    doubt = explain.check_process(explain_log, found[-1]) if explain_log else None
    if doubt:
        print(f"hakmem: {doubt}", file=sys.stderr)
    page.show(found, decisions, console())
    if html:
        html.write_text(page.page(found, decisions))
        print(f"wrote {html}")


@app.command()
def diff(
    a: str = typer.Argument(..., metavar="A", help="A JSON report, a heap profile, a folder of reports, or a running process's id."),
    b: str = typer.Argument(..., metavar="B", help="The same, later or of another version of the program."),
    json_output: bool = typer.Option(False, "--json", help="Print JSON."),
    html: Optional[Path] = typer.Option(None, metavar="OUT.html", help="Also write a page."),
    most: int = typer.Option(8, min=1, metavar="N", help="Most parts shown of a term."),
    symbols_a: Optional[Path] = typer.Option(None, metavar="FOLDER", help="Where the files that A ran are now, if they have been replaced."),
    symbols_b: Optional[Path] = typer.Option(None, metavar="FOLDER", help="The same of B."),
) -> None:
    """Splits the RSS difference of two reports into its terms."""
    from hakmem import difference, difference_views

    found = difference.between(difference.load(difference.path_of(a), symbols_a), difference.load(difference.path_of(b), symbols_b))
    if json_output:
        print(json.dumps(difference.as_json(found), indent=1))
    else:
        difference_views.show(found, console(), most)
    if html:
        html.write_text(difference_views.page(found))
        print(f"wrote {html}", file=sys.stderr if json_output else sys.stdout)


class Objective(str, Enum):
    time, memory, both = "time", "memory", "both"


@app.command(context_settings=PROGRAM)
def tune(
    command: List[str] = typer.Argument(..., metavar="[--] PROGRAM [ARGS]..."),
    objective: Objective = typer.Option(Objective.both, "--for", help="CPU time, peak memory, or their product."),
    budget: float = typer.Option(10.0, min=0, metavar="MINUTES", help="Time limit."),
    rounds: int = typer.Option(11, min=LEAST_ROUNDS, help="Final rounds of the best against the default and glibc."),
    candidates: Optional[int] = typer.Option(None, min=2, help="Most candidates; default: as the budget allows."),
    output: Path = typer.Option(Path("hakmem.profile"), "--output", "-o", help="The profile to write."),
    seed: int = typer.Option(1, help="Seed of the random search."),
    exit_code: int = typer.Option(0, "--exit-code", help="The program's exit code when it succeeds."),
) -> None:
    """Runs a program under candidate policies and writes the best one as a profile."""
    from hakmem import tune as tunes

    plan = tunes.Plan(command, objective.value, budget * 60, rounds, candidates, output, seed, exit_code)
    tunes.tune(plan, console())


@app.command(context_settings=PROGRAM)
def record(
    command: List[str] = typer.Argument(..., metavar="[--] PROGRAM [ARGS]..."),
    output: Path = typer.Option(Path("hakmem-recording"), "--output", "-o", metavar="FOLDER", help="Where each process leaves its file."),
    sample: int = typer.Option(1, metavar="N", help="Record one block in N; 1: all."),
) -> None:
    """Records a program's calls of the malloc family, without contents, for `hakmem replay`."""
    from hakmem import run as runs

    runs.record(command, output, sample)


@app.command()
def replay(
    recording: Path = typer.Argument(..., metavar="FOLDER|FILE", help="What `hakmem record` wrote; a folder: its largest."),
    allocator: List[str] = typer.Option(
        [], "--allocator", "-a", metavar="NAME|PATH", help="Play on this one; repeatable. Default: all that are installed."
    ),
    rounds: int = typer.Option(7, min=LEAST_ROUNDS, help="Rounds, each of all allocators in another order."),
    cut: bool = typer.Option(False, "--cut", help="Accept a recording that stops where its disk was full."),
    output: Optional[Path] = typer.Option(None, "--json", metavar="FILE", help="Also write all figures."),
) -> None:
    """Plays a recording on each allocator in turns, and shows which one is best for this program."""
    from hakmem import replay as replays

    replays.replay(replays.Plan(recording, allocator, rounds, cut, output), console())


@app.command(context_settings=PROGRAM)
def bench(
    command: Optional[List[str]] = typer.Argument(None, metavar="[[--] PROGRAM [ARGS]...]"),
    only: List[str] = typer.Option([], "--only", metavar="NAME", help="Run only this benchmark; repeatable. Default: all, if no program is given."),
    allocator: List[str] = typer.Option(
        [], "--allocator", "-a", metavar="NAME|PATH", help="Compare this one; repeatable. Default: glibc, hakmem and all that are installed."
    ),
    rounds: int = typer.Option(11, min=LEAST_ROUNDS, help="Rounds, each of all allocators in another order."),
    exit_code: int = typer.Option(0, "--exit-code", help="The program's exit code when it succeeds."),
    html: Optional[Path] = typer.Option(None, metavar="OUT.html", help="Also write a page with plots."),
    output: Optional[Path] = typer.Option(None, "--json", metavar="FILE", help="Also write all figures."),
) -> None:
    """Runs benchmarks, or a program, on each allocator of this machine, and compares them."""
    from hakmem import bench as benches

    benches.bench(benches.Plan(command or [], only, allocator, rounds, exit_code, html, output), console())


@app.command(context_settings=PROGRAM)
def doctor(
    command: Optional[List[str]] = typer.Argument(None, metavar="[[--] PROGRAM [ARGS]...]"),
    try_it: bool = typer.Option(False, "--try", help="Also run the program and check that HAKMEM serves it."),
) -> None:
    """Checks this machine's settings, and that HAKMEM serves programs."""
    from hakmem import doctor as doctors

    if try_it and not command:
        raise Trouble("--try needs a program to run: hakmem doctor --try -- PROGRAM [ARGS]...", USAGE)
    if not doctors.doctor(command or [], try_it, console()):
        raise typer.Exit(FAILED)


@app.command()
def serve(
    pid: Optional[int] = typer.Argument(None, metavar="[PID]", autocompletion=completing.processes, help="Serve only this process; default: all on HAKMEM."),
    host: str = typer.Option("127.0.0.1", help="Address to listen at. Anyone who reaches it can read the profiles."),
    port: int = typer.Option(8620, min=0, max=65535, help="Port; 0: a free one."),
) -> None:
    """Serves profiles of running processes over HTTP: /PID/debug/pprof/heap for pprof, and /PID/flame for browsers."""
    from hakmem import serve as serves

    serves.serve(pid, host, port)


@app.command()
def symbolize(file: Optional[Path] = typer.Argument(None, metavar="[FILE]", help="What a program wrote to stderr; default: standard input.")) -> None:
    """Adds files and lines of the source to the stacks in HAKMEM's messages (HAKMEM_GUARD_SAMPLE)."""
    from hakmem.sources import symbolized

    with open(file, errors="replace") if file else sys.stdin as lines:
        sys.stdout.writelines(symbolized(lines))


@app.command()
def core(
    file: Path = typer.Argument(..., metavar="CORE", help="The core file of a program that ran HAKMEM."),
    exe: Optional[Path] = typer.Argument(None, metavar="[EXE]", help="Where the program is now, if it has been moved."),
    address: List[str] = typer.Option([], "--address", "-a", metavar="A", help="Show only the block of this address; repeatable."),
    symbols: Optional[Path] = typer.Option(None, metavar="FOLDER", help="Where the files that the program ran are now, if they have been replaced."),
) -> None:
    """Shows what the heap held when a program died, and the blocks that the address of the fault and the registers point to."""
    from hakmem import core as cores

    try:
        wanted = [int(one, 16) for one in address]
    except ValueError as error:
        raise Trouble(f"--address: not an address in hexadecimal digits ({error})", USAGE) from None
    for line in cores.core(file, exe, wanted, symbols):
        print(line)


class Shell(str, Enum):
    bash, zsh, fish = completing.SHELLS


@app.command()
def completion(shell: Shell = typer.Argument(..., metavar="bash|zsh|fish")) -> None:
    """Prints the shell's completion script: eval "$(hakmem completion bash)"."""
    print(completing.script(shell.value))


for command in (profiling.attach, profiling.profile, profiling.leaks):
    app.command()(command)


def complain(said: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"hakmem: {said}", style="red"))


def main() -> None:
    completing.begin()
    try:
        app()
    except Trouble as trouble:
        complain(str(trouble))
        sys.exit(trouble.code)
    except BrokenPipeError:  # for example in `hakmem report FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
