#!/usr/bin/env python3
"""Runs every benchmark on HAKMEM and its peers in interleaved rounds, and prints the results. README.md has examples of its use."""
import os
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import digest
import guard
import lines
import machine
import page
import plots
import results
import tables
import thp
import verdicts
from exact import Exact, Laboratory
from measure import Runner, playable
from peers import Allocator, find_peers
from results import Result, Unfit
from rows import select
from session import Session
from verdicts import Met

ROOT = Path(__file__).resolve().parent.parent
QUIET = 0.95  # the share of their time that runs have a processor, if nothing else runs
ROUNDS, PROGRAM_ROUNDS = 7, 11
WIDE = 1000  # columns, of a file

Output = tuple[Callable[[Result, Path], None], "Path | None"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Pages = Enum("Pages", {mode: mode for mode in thp.MODES}, type=str)
Clock = Enum("Clock", {"wall": "wall", "cpu": "cpu"}, type=str)


def assignments(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return dict(text.split("=", 1) for text in texts)


def find_allocators(peers: str | None, lib: Path | None, bench_dir: Path) -> tuple[list[Allocator], list[str]]:
    allocators, missing = find_peers(peers.split(",") if peers else None)
    null = bench_dir / "libnull.so"
    if null.exists():
        allocators.append(Allocator("limit", null.resolve(), "limit"))
    if lib:
        allocators.append(Allocator("hakmem", lib.resolve(), "hakmem"))
    return allocators, missing


def described(allocator: Allocator) -> dict[str, str]:
    settings = " ".join(f"{name}={value}" for name, value in allocator.settings)
    return {"name": allocator.name, "role": allocator.role, "version": allocator.version, "settings": settings}


def show(rows: tables.Rows) -> None:
    """In colour on a terminal; to a file each row on one line."""
    terminal = sys.stdout.isatty()
    colours = {"yes": "green", "NO": "red", "ahead": "green", "behind": "red"}
    table = Table(*rows[0], box=box.HEAVY_HEAD if terminal else box.SIMPLE)
    for row in rows[1:]:
        table.add_row(*(Text(cell, colours.get(cell.split(" ")[0], "")) for cell in row))
    Console(width=None if terminal else WIDE).print(table)


def report(result: Result, outputs: list[Output]) -> None:
    """The tables on standard output, and files."""
    for title, rows in tables.exact(result):
        print(title)
        show(rows)
        print()
    show(tables.judged(result.lines()))
    for note in result.notes:
        print(note)
    for save, path in outputs:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(result, path)
            print(f"written: {path}")


def busy_machine(result: Result) -> list[str]:
    share = result.processor_share()
    stolen = max(part["stolen"] for part in result.parts)
    notes = []
    if share is not None and share < QUIET:
        notes.append(f"the machine was busy: runs of one thread had {share:.0%} of a processor")
    if stolen > 1 - QUIET:
        notes.append(f"the host was busy: it gave {stolen:.0%} of the processors' time to others")
    return notes


def exit_code(result: Result, check: bool) -> int:
    refused = any("hakmem" in measured.refused for measured in result.works.values())
    held = [line.meets(line.point.floor) for line in result.lines()]
    return 1 if refused or (check and any(h in (None, Met.NO) for h in held)) else 0


def destinations(folder: Path, prefix: str, suffixes: tuple[str, ...], asked: tuple[Path | None, ...]) -> tuple[Path | None, ...]:
    """The files that are asked for; if none is, those in the folder, named by the time."""
    stem = folder / time.strftime(f"{prefix}%Y%m%d-%H%M%S")
    return asked if any(asked) else tuple(stem.with_suffix(f".{suffix}") for suffix in suffixes)


@app.callback(invoke_without_command=True)
def measure(
    context: typer.Context,
    lib: str = typer.Option(str(ROOT / "build/libhakmem.so"), help='"none": peers only'),
    bench_dir: Path = typer.Option(ROOT / "build/bench"),
    rows: str | None = typer.Option(None, help='such as P1,P4; "all"; default: all but the slow ones'),
    peers: str | None = typer.Option(None, help="such as glibc,mimalloc; default: all"),
    rounds: int | None = typer.Option(None, min=1, help="default 7, of real programs 11; with --quick 5"),
    budget: float | None = typer.Option(None, help="seconds: fewer rounds, if not all would end within"),
    quick: bool = typer.Option(False, "--quick", help="a tenth of the work: a look, no proof"),
    clock: Clock = typer.Option(Clock.wall, help="cpu: processor time for one-thread rows, on a busy machine"),
    pages: Pages | None = typer.Option(None, "--thp", help="the kernel's mode of huge pages, for this run"),
    env: list[str] = typer.Option([], metavar="HAKMEM_NAME=VALUE", help="option for HAKMEM's runs"),
    seed: int = typer.Option(1, help="of the order of runs"),
    results_dir: Path = typer.Option(ROOT / "build/bench-results", "--results", help="where a result goes, named by its time"),
    json: Path | None = typer.Option(None, metavar="OUT", help="there, in place of --results"),
    markdown: Path | None = typer.Option(None, metavar="OUT", help="likewise"),
    html: Path | None = typer.Option(None, metavar="OUT", help="likewise"),
    check: bool = typer.Option(False, "--check", help="exit 1 if a floor is shown to be missed"),
) -> None:
    """Measure rows on HAKMEM and its peers."""
    if context.invoked_subcommand:
        return
    asked_rounds, program_rounds = rounds, 0 if rounds or quick else PROGRAM_ROUNDS
    rounds = rounds or (verdicts.LEAST_ROUNDS if quick else ROUNDS)
    if check and rounds < verdicts.LEAST_ROUNDS:
        raise typer.BadParameter(f"--check judges by intervals: {verdicts.LEAST_ROUNDS} rounds")
    library = None if lib == "none" else Path(lib)
    for needed in (bench_dir / "launch", library):
        if needed and not needed.exists():
            raise typer.BadParameter(f"{needed} is not there: run make, or see --help")
    if guard.is_asked_for(rows):
        found = guard.measure(rows, library, bench_dir.resolve(), peers, asked_rounds, quick)
        print(guard.guard_tables.page(found))
        json, markdown, picture = destinations(results_dir, "guard-", ("json", "md", "svg"), (json, markdown, html))
        guard.save(found, json, markdown, picture if "outcomes" in found else None)
        return
    if lines.is_asked_for(rows):
        allocators, missing = find_allocators(peers or lines.PEERS, library, bench_dir)
        counted = lines.measure([a for a in allocators if a.role != "limit"], bench_dir.resolve(), library, quick)
        for title, part in lines.tables(counted):
            print(title)
            show(part)
        print(*missing, *counted["notes"], sep="\n")
        (saved,) = destinations(results_dir, "lines-", ("json",), (json,))
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(results.layout(counted) + "\n")
        print(f"written: {saved}")
        return
    options = assignments(env)
    points, absent = playable(select(rows, quick))
    allocators, missing = find_allocators(peers, library, bench_dir)
    runner = Runner(bench_dir.resolve(), quick, clock is Clock.cpu, options)
    timed = [p for p in points if not p.work.exact]
    session = Session(runner, timed, allocators, rounds, seed, budget, program_rounds)
    real = [a for a in allocators if a.role != "limit"]
    laboratory = Laboratory(bench_dir.resolve(), quick, hakmem_env=options, allocators=real)
    exact = Exact(laboratory, [p for p in points if p.work.exact])
    part = {"began": time.strftime("%Y-%m-%d %H:%M:%S %z"), "load": " ".join(f"{average:.2f}" for average in os.getloadavg())}
    ticks = machine.stolen()
    with thp.mode(pages and pages.value) as refused:
        here = machine.describe()
        part["paging"] = machine.paging(bench_dir / "paging_cost")
        exact.measure()
        session.measure()
    part |= {"rounds": rounds, "seed": seed, "stolen": round(machine.stolen_since(ticks), 4)}
    warned = [*filter(None, [refused]), *exact.warned, *session.warned, *absent]
    notes = [*warned, *(f"skipped peer {m}" for m in missing), *exact.refusals(), *session.refusals()]
    result = Result(here, machine.hakmem(library) | options, [described(a) for a in allocators], clock.value, quick, [part],
                    [*exact.points, *timed], exact.works | session.works, notes)
    result.notes += busy_machine(result)
    json, markdown, html = destinations(results_dir, "", ("json", "md", "html"), (json, markdown, html))
    report(result, [(results.save, json), (tables.save, markdown), (page.save, html)])
    raise typer.Exit(exit_code(result, check))


@app.command("page")
def make_page(
    inputs: list[Path] = typer.Argument(..., metavar="RESULT.json..."),
    merge: Path | None = typer.Option(None, metavar="OUT", help="the results, put together as one JSON"),
    markdown: Path | None = typer.Option(None, metavar="OUT"),
    html: Path | None = typer.Option(None, metavar="OUT"),
    picture: Path | None = typer.Option(None, metavar="OUT.svg", help="HAKMEM to the best peer, for the README"),
    paste: list[Path] = typer.Option([], metavar="FILE.md", help="short tables, each between <!-- bench:NAME --> and <!-- /bench -->: "
                                     + ", ".join(digest.PLACES)),
) -> None:
    """Tables and pictures from results, nothing is measured. Several results are merged: rows of parts measured apart are put together, rounds of
    the same rows are added."""
    try:
        result = results.merge(results.load(path) for path in inputs)
        wanted = [(results.save, merge), (tables.save, markdown), (page.save, html)]
        report(result, [*wanted, (plots.save_picture, picture)])
        for path in paste:
            digest.paste(result, path)
    except Unfit as problem:
        raise typer.BadParameter(str(problem)) from None


if __name__ == "__main__":
    app()
