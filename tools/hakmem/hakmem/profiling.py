"""Defines the commands for running processes: attach, profile, leaks."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, List, Optional

import typer

from hakmem.trouble import USAGE, Trouble

if TYPE_CHECKING:
    from hakmem.attached import Attached
    from hakmem.profiles import Profile
    from hakmem.sources import Sources

ANSWER_S, DEFAULT_S, ROWS = 1.0, 30.0, 15
SUFFIXES = (".pb.gz", ".heap", ".folded", ".html")
PID_OR_FILE = typer.Argument(..., metavar="FILE|PID", help="A heap profile that HAKMEM or the tool wrote, or a process on HAKMEM.")


def attach(
    pid: int = typer.Argument(..., metavar="PID"),
    sample: Optional[str] = typer.Option(None, metavar="BYTES", help="Mean bytes between two samples; default: 512k, more for a large process."),
    off: bool = typer.Option(False, "--off", help="Switch sampling off again."),
) -> None:
    """Switches sampling on in a running process, for `profile` and `leaks`. Sampling continues after the tool has ended."""
    from hakmem.attached import ENDED, ON, Attached

    process = Attached(pid)
    if off:
        process.end()
        print(f"sampling of process {pid} is off" if process.state in (ENDED, 0) else f"process {pid} sleeps: sampling ends at its next malloc")
        return
    was_on = process.begin(bytes_of(sample))
    process.wait(ANSWER_S)
    if was_on:
        print(f"process {pid} is sampled already")
    elif process.state == ON:
        print(f"process {pid} is sampled from now on: hakmem profile {pid}, hakmem leaks {pid}")
    else:
        print(f"process {pid} sleeps: sampling begins at its next malloc")


def profile(
    target: str = PID_OR_FILE,
    seconds: Optional[float] = typer.Option(None, min=0, help="How long to sample; default: 30, or what is there if the process is sampled already."),
    output: List[Path] = typer.Option([], "--output", "-o", metavar="OUT", help="Write .pb.gz or .heap (pprof), .folded (collapsed stacks), .html (flame graph); repeatable."),
    allocated: bool = typer.Option(False, "--allocated", help="In .folded and in the table: bytes allocated, not bytes live."),
    sample: Optional[str] = typer.Option(None, metavar="BYTES", help="Mean bytes between two samples."),
) -> None:
    """Samples a running process. Shows by stack what is live, and what was allocated during sampling."""
    for path in output:
        check_output(path)
    found = taken(target, seconds, bytes_of(sample))
    sources = sources_of(found, target)
    sources.learn(site.stack for site in found.sites)
    for path in output:
        write(path, found, sources, target, allocated)
    show(found, sources, allocated)
    sources.tell_missing()


def leaks(
    target: str = PID_OR_FILE,
    seconds: Optional[float] = typer.Option(None, min=0, help="How long to sample a process that is not sampled yet; default: 30."),
    most: int = typer.Option(10, "--most", min=1, help="Lines to show."),
    sample: Optional[str] = typer.Option(None, metavar="BYTES", help="Mean bytes between two samples of a process that is not sampled yet."),
) -> None:
    """Lists the lines whose live blocks are older than blocks of the line usually become."""
    from hakmem import leaks as suspects

    found = taken(target, seconds, bytes_of(sample))
    sources = sources_of(found, target)
    print(suspects.text(found, suspects.find(found, sources), most))
    sources.tell_missing()


def sources_of(found: Profile, target: str) -> Sources:
    """Returns the sources of a process, or those of a file of samples, without files that were changed after the samples were written."""
    from hakmem.sources import Sources

    return Sources(found.maps, found.pid) if found.pid is not None else Sources(found.maps, written=Path(target).stat().st_mtime, profile=Path(target))


def bytes_of(text: Optional[str]) -> Optional[int]:
    from hakmem.options import number_of

    found = None if text is None else number_of(text)
    if text is not None and not (found and found < 1 << 40):
        raise Trouble(f"--sample {text}: not a number of bytes (512k, 1m)", USAGE)
    return found


def check_output(path: Path) -> None:
    """Checks that the file can be written, before the process is sampled."""
    if not path.name.endswith(SUFFIXES):
        raise Trouble(f"{path}: the name ends in none of {', '.join(SUFFIXES)}", USAGE)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Trouble(f"{path}: cannot be written", USAGE)


def taken(target: str, seconds: Optional[float], mean: Optional[int]) -> Profile:
    """Returns the profile in a file, or takes one of a process. Sampling is then switched off, unless it was on before."""
    from hakmem import profiles
    from hakmem.attached import Attached

    if not target.isdecimal():
        return profiles.read(Path(target))
    process = Attached(int(target))
    was_on = process.begin(mean)
    try:
        found = sampled(process, was_on, seconds, watch)
    finally:
        if not was_on:
            process.end()
    if found.waiting:
        print(f"hakmem: process {target} called no malloc in this time", file=sys.stderr)
    return found


def sampled(process: Attached, was_on: bool, seconds: Optional[float], wait: Callable[[Attached, float], object]) -> Profile:
    """Returns what the process allocated while `wait` waited, or, without `seconds`, since sampling began."""
    before = process.read() if was_on and seconds is not None else None
    wait(process, seconds if seconds is not None else 0 if was_on else DEFAULT_S)
    found = process.read()
    return found.since(before) if before else found


def watch(process: Attached, seconds: float) -> None:
    """Samples for some seconds. Ctrl-C ends this early, and the samples so far are used."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    shown = sys.stderr.isatty()
    if seconds and not shown:
        print(f"hakmem: sampling process {process.pid} for {seconds:g} s", file=sys.stderr)
    bar = Progress(TextColumn("sampling"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True, disable=not shown)
    try:
        with bar:
            task = bar.add_task("", total=seconds)
            for passed in process.watch(seconds):
                bar.update(task, completed=passed)
    except KeyboardInterrupt:
        print("hakmem: ended early", file=sys.stderr)


def write(path: Path, found: Profile, sources: Sources, target: str, allocated: bool) -> None:
    from hakmem import flame, profiles

    if path.name.endswith(".pb.gz"):
        path.write_bytes(flame.pprof(found, sources))
    elif path.suffix == ".heap":
        path.write_text(profiles.text_of(found) + sources.code_text())
    elif path.suffix == ".html":
        path.write_text(flame.page(found, sources, title(found, target)))
    else:
        measure = profiles.MEASURES["allocated" if allocated else "live"]
        stacks = (([frame.function for frame in sources.frames(one.stack)], measure(one)) for one in found.sums())
        path.write_text(profiles.collapsed(stacks))
    print(f"wrote {path}")


def title(found: Profile, target: str) -> str:
    from hakmem.process import Process

    if found.pid is None:
        return f"Heap profile {target}"
    try:
        name = Process(found.pid).name()
    except OSError:
        name = "ended"
    return f"Heap of process {found.pid} ({name}), {time.strftime('%Y-%m-%d %H:%M:%S')}"


def show(found: Profile, sources: Sources, allocated: bool) -> None:
    from hakmem.figures import bytes_text, count_text
    from hakmem.flame import lines
    from hakmem.sources import BEST_RULE, RULE_TEXT

    print(f"{bytes_text(found.live_bytes)} live of {bytes_text(found.bytes)} allocated in {found.seconds:.1f} s; {count_text(found.samples)} samples")
    if found.unsampled > 0:
        print(f"{bytes_text(found.unsampled)} allocated in sizes too rare for a sample")
    print(f"{'live':>10}  {'allocated':>10}  line")
    for line in sorted(lines(found, sources), key=lambda line: (line.live, line.allocated)[:: -1 if allocated else 1], reverse=True)[:ROWS]:
        rule = "" if line.rule == BEST_RULE else f" (the innermost {line.rule})"
        print(f"{bytes_text(line.live):>10}  {bytes_text(line.allocated):>10}  {line.place}  {line.name}{rule}")
    if found.sites:
        print(RULE_TEXT)
