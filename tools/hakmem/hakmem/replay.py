"""hakmem replay: plays a recording on each allocator of this machine, in interleaved rounds, and compares them.

The player makes the recorded calls of the malloc family, and writes to the pages of the blocks. It does not repeat the rest of the program.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hakmem import allocators
from hakmem.allocators import WIDE, Allocator, Contest, Figure, Played, contest_table, last_line, show_refused, show_verdicts
from hakmem.figures import bytes_text, count_text, short_text
from hakmem.library import find_library
from hakmem.measuring import TIMEOUT_S, Launcher
from hakmem.run import PLAYER, SUFFIX, beside
from hakmem.trouble import FAILED, NO_INPUT, Trouble
from hakmem.tune import MARGIN, progress

ALONE = Allocator("(player alone)", None)
RECORDED = "(as recorded)"
SHORT_US = 100_000  # a CPU time below this is mostly noise


@dataclass(frozen=True)
class Plan:
    recording: Path
    allocators: list[str]
    rounds: int
    cut: bool = False
    output: Path | None = None


FIGURES = (
    Figure("cpu_us", "CPU", lambda value: f"{value / 1e6:.3f} s", "Least CPU time"),
    Figure("heap_kib", "heap", lambda value: bytes_text(value * 1024), "Least memory"),
    Figure("faults", "faults", count_text),
)


def replay(plan: Plan, console: Console) -> None:
    library = find_library()
    player = beside(library, PLAYER)
    members = allocators.named(plan.allocators, library) if plan.allocators else allocators.all_of(library)
    with tempfile.TemporaryDirectory(prefix="hakmem-replay-") as folder:
        prepared = Path(folder, "plan")
        recording, said = choose(plan, player, prepared)
        show_recording(recording, said, console)
        contest, runs = Contest(members, FIGURES), (len(members) + 1) * (plan.rounds + 1)
        with Launcher(library, [str(player), "play", str(prepared)]) as launch, progress(console, runs) as tell:
            launch.warm_bytes = int(said["peak_rss_kib"] * 1024) + MARGIN
            contest.play(plan.rounds, lambda allocator: run(launch, allocator, said), tell, ALONE)
    show(contest, said, plan.rounds, console)
    if plan.output:
        document = {"format": "hakmem-replay/1", "recording": str(recording), "recorded": said, "rounds": plan.rounds,
                    "runs": contest.runs, "refused": contest.refused}
        plan.output.write_text(json.dumps(document, indent=1) + "\n")
    if not contest.runs:
        raise Trouble("no allocator played the recording", FAILED)


def choose(plan: Plan, player: Path, prepared: Path) -> tuple[Path, dict]:
    """Returns the recording to play, and its sums. In a folder, it is the largest file, which is that of the process that allocates most."""
    path = plan.recording
    if path.is_dir():
        files = sorted(path.glob(f"*{SUFFIX}"), key=lambda file: (file.stat().st_size, file.stat().st_mtime_ns))
        if not files:
            raise Trouble(f"{path}: no recordings ({SUFFIX}) in this folder", NO_INPUT)
        path = files[-1]
    words = [str(player), "plan", str(path), str(prepared), *(["--cut"] if plan.cut else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(done.stderr.strip().removeprefix(f"{PLAYER}: ") or f"{path}: cannot be read", NO_INPUT)
    return path, json.loads(done.stdout)


def show_recording(path: Path, said: dict, console: Console) -> None:
    allocs = sum(said["allocs"].values())
    sampled = f", one block in {said['sample']} recorded" if said["sample"] > 1 else ""
    console.print(Text(f"{path}: {said['program'] or 'a program'}, process {said['pid']}{sampled}"), soft_wrap=True)
    console.print(
        f"{short_text(allocs)} allocations, {short_text(said['frees'])} frees, {short_text(said['reallocs'])} reallocs "
        f"of {said['threads']} threads; at most {bytes_text(said['peak_bytes'])} live at once; "
        f"peak RSS {bytes_text(said['peak_rss_kib'] * 1024)}"
    )
    if said["cut"]:
        console.print(Text("The recording stops before the program's end: its disk was full.", style="yellow"))
    if said["unknown"]:
        console.print(f"{short_text(said['unknown'])} frees of blocks from before the recording are left out.")


def run(launch: Launcher, allocator: Allocator, said: dict) -> tuple[Played, str]:
    """Returns the figures of a run, and why it is not a measurement, or an empty text if it is one."""
    command = [*launch.command, *(["--dry"] if allocator is ALONE else [])]
    reply, text = launch.measure(command, allocator.environment(launch.inherited.get("LD_PRELOAD")))
    if reply.get("late"):
        return {}, f"it ran longer than {TIMEOUT_S:.0f} s"
    try:
        played = json.loads(text.rpartition("\n")[2])
        return played, fault_of(allocator, played, said)
    except (ValueError, TypeError):
        return {}, f"it ended with code {reply['code']}: {last_line(text)}"


def fault_of(allocator: Allocator, played: Played, said: dict) -> str:
    """Returns why the run cannot be used as a measurement, or an empty text if it can."""
    if allocator is ALONE:
        return ""
    if not allocator.serves(str(played["malloc_from"])):
        return f"malloc came from {played['malloc_from']}"
    if played["wrong"]:
        return f"{played['wrong']:.0f} blocks overlapped, were not aligned, or lost their bytes"
    if played["failed"]:
        return f"it refused {played['failed']:.0f} allocations"
    expected = {"allocs": sum(said["allocs"].values())} | {key: said[key] for key in ("frees", "reallocs", "bytes")}
    return next((f"it played {played[key]:.0f} {key} of {value}" for key, value in expected.items() if played[key] != value), "")


def show(contest: Contest, said: dict, rounds: int, console: Console) -> None:
    show_refused(contest, console)
    if contest.base is None:
        return
    console.print(Text(f"Medians of {rounds} rounds; ratios to {contest.base} with 95 % intervals", style="bold"))
    table = contest_table(contest, console.width >= WIDE)
    if ALONE.name in contest.runs:
        table.add_row(ALONE.name, FIGURES[0].shown(contest.middle(ALONE.name, FIGURES[0])), style="dim")
    # The peak RSS without pages of files, and without what was resident before main.
    heap_kib = max(0, said["peak_rss_kib"] - said["file_rss_kib"] - said["first_anon_kib"])
    table.add_row(RECORDED, "", "", FIGURES[1].shown(heap_kib), style="dim")
    console.print(table)
    if contest.middle(contest.base, FIGURES[0]) < SHORT_US:
        console.print(Text("The recording is short: its times are of little weight, memory and faults hold.", style="yellow"))
    show_verdicts(contest, console)

