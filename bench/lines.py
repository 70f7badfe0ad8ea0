"""Counts transfers of cache lines between up to 256 simulated cores: `make bench ROWS=lines`. README.md describes it (Cache lines)."""
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

import cachegrind
import machine
from measure import BadRun, check_bound, parse_object, scratch_folder
from peers import Allocator
from progress import Bar
from tables import Rows

FORMAT = "hakmem-lines/1"
QEMU = "qemu-x86_64"
WORKS = ("own", "larson", "fanin", "ring", "service")
THREADS = (1, 4, 16, 64, 256)
OBJECTS, QUICK_OBJECTS = 1024, 256  # for each thread
SLICE = 64  # accesses between two turns of a thread, on average
PEERS = "glibc,mimalloc3,rpmalloc,jemalloc"
ENTRIES = ("malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign")
TIMEOUT_S = 300


@dataclass(frozen=True)
class Count:
    """One run. Transfers and atomic operations are for each block; `needed` is what the program's own accesses need."""

    work: str
    threads: int
    allocator: str
    blocks: int
    transfers: float
    own_transfers: float
    needed: float
    atomics: float


def is_asked_for(rows: str | None) -> bool:
    return rows is not None and rows.strip().lower() == "lines"


def trouble(bench_dir: Path) -> str:
    """Why nothing can be counted here, or ""."""
    try:
        done = subprocess.run(plugin_command(bench_dir, c_library(), False, Path("/dev/null")) + ["/bin/true"], capture_output=True, timeout=60)
    except OSError as error:
        return str(error)
    return done.stderr.decode(errors="replace").strip() if done.returncode else ""


def c_library() -> Path:
    listed = cachegrind.said_by("ldd", "/bin/sh").split()
    return next(Path(word) for word in listed if word.endswith("/libc.so.6"))


def plugin_command(bench_dir: Path, library: Path, whole: bool, out: Path, average: int = SLICE) -> list[str]:
    symbols = (line.split() for line in cachegrind.said_by("nm", "-D", "--defined-only", "--format=posix", str(library)).splitlines())
    entries = {int(words[2], 16) for words in symbols if words[0].partition("@")[0] in ENTRIES}
    options = [f"lib={library.resolve().name}", f"whole={'on' if whole else 'off'}", *(f"entry={at:x}" for at in sorted(entries))]
    return [QEMU, "-plugin", ",".join([str(bench_dir / "liblines.so"), *options, f"slice={average}", f"out={out}"])]


def run(bench_dir: Path, allocator: Allocator, work: str, threads: int, objects: int, average: int = SLICE) -> tuple[dict, dict]:
    """What the program and the plugin print."""
    library = allocator.library or c_library()
    with scratch_folder() as scratch:
        out = scratch / "out"
        settings = [f"{name}={value}" for name, value in (allocator.environment() | {"LD_BIND_NOW": "1"}).items()]
        command = plugin_command(bench_dir, library, allocator.library is not None, out, average)
        command += [word for setting in settings for word in ("-E", setting)]
        command += [str(bench_dir / "bench_lines"), "--json", work, str(threads), str(objects)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env={"PATH": "/usr/bin:/bin"})
        if done.returncode:
            raise BadRun(f"{allocator.name}, {work}: {done.stderr.strip()}")
        program = parse_object(done.stdout, "bench_lines's output")
        check_bound(program, allocator)
        return program, json.loads(out.read_text())


def counted(bench_dir: Path, allocator: Allocator, work: str, threads: int, objects: int) -> Count:
    program, seen = run(bench_dir, allocator, work, threads, objects)
    blocks, (rest, own) = program["blocks"], seen["parts"]
    figures = (rest["transfers"] + own["transfers"], own["transfers"], seen["needed"], own["atomics"])
    return Count(work, threads, allocator.name, blocks, *(round(figure / blocks, 4) for figure in figures))


def measure(allocators: list[Allocator], bench_dir: Path, library: Path | None, quick: bool) -> dict:
    problem = trouble(bench_dir)
    if problem:
        raise typer.BadParameter(f"{QEMU} with the plugin does not run: {problem}", param_hint="--rows")
    objects, runs, notes = QUICK_OBJECTS if quick else OBJECTS, [], []
    cases = [(work, threads, allocator) for work in WORKS for threads in THREADS for allocator in allocators]
    began = time.strftime("%Y-%m-%d %H:%M:%S %z")
    with Bar(len(cases)) as bar:
        for work, threads, allocator in cases:
            bar.step(f"lines: {work}, {threads} threads, {allocator.name}")
            try:
                runs.append(asdict(counted(bench_dir, allocator, work, threads, objects)))
            except (BadRun, subprocess.TimeoutExpired) as problem:
                notes.append(f"{work}, {threads} threads, {allocator.name}: {problem}"[:300])
    return {"format": FORMAT, "began": began, "machine": machine.describe(), "hakmem": machine.hakmem(library), "objects": objects, "runs": runs,
            "notes": notes}


def table(found: dict, figure: str) -> Rows:
    """The figure of each allocator, and the least that any of them needs."""
    names = list(dict.fromkeys(run["allocator"] for run in found["runs"]))
    rows: list = [("work", "threads", "needed", *names)]
    for work, threads in dict.fromkeys((run["work"], run["threads"]) for run in found["runs"]):
        here = {run["allocator"]: run for run in found["runs"] if (run["work"], run["threads"]) == (work, threads)}
        needed = min(run["needed"] for run in here.values())
        rows.append((work, str(threads), f"{needed:.2f}", *(f"{here[name][figure]:.2f}" if name in here else "" for name in names)))
    return rows


def tables(found: dict) -> Iterator[tuple[str, Rows]]:
    yield "Transfers of cache lines a block", table(found, "transfers")
    yield "of which the allocator's accesses make", table(found, "own_transfers")
    yield "Atomic operations a block, of the allocator", table(found, "atomics")
