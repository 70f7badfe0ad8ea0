"""Lists the loops whose costs are locked, and counts their costs."""
import ctypes
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory

import callgrind

# Functions of libc with which src/os enters the kernel, including other names that callgrind may show for them.
KERNEL = re.compile(
    r"_*(mmap|munmap|mremap|mprotect|madvise|syscall|open|read|write|close|getrlimit)(64)?(@.*)?")
ADDR_NO_RANDOMIZE, PR_SET_THP_DISABLE = 0x0040000, 41


@dataclass(frozen=True)
class Loop:
    name: str
    command: str
    step_ms: int = 0  # milliseconds that each look at the clock adds to the time

    def line(self, folder: Path) -> list[str]:
        program, *arguments = self.command.split()
        return [str(folder / program), *arguments]


START = Loop("start", "bench_idle")
LOOPS = [
    START,
    Loop("tiny_hot: 64 B, one by one", "bench_tiny_hot 64 200k 1"),
    Loop("tiny_hot: 64 B, batches of 100", "bench_tiny_hot 64 2k 100"),
    Loop("random_mixed: 256 slots", "bench_random_mixed 200k 256 1"),
    Loop("random_mixed: 8192 slots", "bench_random_mixed 200k 8192 1"),
    Loop("random_mixed: 20000 slots, to 32 KiB", "bench_random_mixed 200k 20000 1 16 32768"),
    Loop("the same while time goes by", "bench_random_mixed 200k 20000 1 16 32768", step_ms=20),
    Loop("random_mixed: 64 slots, to 4 MiB", "bench_random_mixed 1k 64 1 16 4000000"),
    Loop("mid_large: 8 to 32 KiB, in a thread", "bench_mid_large_mt 1 200k 256 8192 32768"),
    Loop("burst: 10000 in order", "bench_burst 10000 64 20 order"),
    Loop("burst: 100000 in random order", "bench_burst 100000 64 2 random 1"),
    Loop("growth: 100000 of 100 B", "bench_growth 100k 100"),
    Loop("small patterns", "bench_comprehensive all 8k"),
    Loop("vectors that grow", "bench_vector all 20k"),
    Loop("zeroed blocks", "bench_calloc all 40k"),
    Loop("scenario: string-builder", "bench_scenario string-builder 30k"),
    Loop("scenario: json", "bench_scenario json 30k"),
    Loop("scenario: mir", "bench_scenario mir 30k"),
    Loop("scenario: vm", "bench_scenario vm 10k"),
    Loop("scenario: mixed", "bench_scenario mixed 30k"),
    Loop("threads that come and go", "bench_threads churn 300"),
]


def steady() -> bool:
    """Gives all programs that are started from now on the same addresses in each run and no huge pages, so that their page faults are the same in
    each run. Returns False if the system refuses this."""
    fixed = ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE) >= 0
    return huge_pages(False) and fixed


def huge_pages(allowed: bool) -> bool:
    """Allows or forbids huge pages for all programs that are started from now on. Returns whether it succeeded."""
    return ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, int(not allowed), 0, 0, 0) == 0


@dataclass(frozen=True)
class Bench:
    library: str
    folder: Path  # the folder of the programs
    clock: str
    present: str = ""

    def environment(self, loop: Loop, library: str) -> dict[str, str]:
        # Without HAKMEM_GOAL=none the library would read files of the control group, and their number depends on the machine.
        return {"LD_PRELOAD": f"{library}:{self.clock}", "CLOCK_STEP_MS": str(loop.step_ms), "HAKMEM_GOAL": "none"}

    def counted(self, loop: Loop) -> tuple[int, int]:
        """Returns the instructions that the library executed, and its system calls."""
        found = callgrind.profile(loop.line(self.folder), self.environment(loop, self.library))
        calls = found.calls_out(self.library)
        system_calls = sum(times for name, times in calls if KERNEL.fullmatch(name))
        return found.instructions(self.library), system_calls

    def faults(self, loop: Loop, library: str) -> int:
        """Returns the page faults of a run. Does not count the faults on the pages of files, because these pages are present at the start."""
        with TemporaryDirectory() as folder:
            present = Path(folder) / "faults"
            environment = self.environment(loop, library)
            environment |= {"LD_PRELOAD": f"{environment['LD_PRELOAD']}:{self.present}", "PRESENT_FAULTS": str(present)}
            settings = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
            command = [self.folder / "launch", *settings, "--", *loop.line(self.folder)]
            outcome = subprocess.run(command, check=True, capture_output=True, text=True, timeout=500, env={})
            said = json.loads(outcome.stdout.splitlines()[-1])
            if said["status"] != 0 or "cannot be preloaded" in outcome.stderr:
                raise SystemExit(f"loops: {loop.name} failed: {outcome.stderr}")
            return said["minor_faults"] - int(present.read_text())

    def faults_beyond_idle(self, loop: Loop) -> int:
        """Returns the page faults beyond those of an idle process without the library. One run in twenty has one fault less, so this is the median of
        three runs."""
        tries = range(3)
        return median_low(self.faults(loop, self.library) - self.faults(START, "") for _ in tries)

    def measured(self, loop: Loop, with_faults: bool) -> dict[str, int]:
        instructions, calls = self.counted(loop)
        found = {"instructions": instructions, "system_calls": calls}
        if with_faults:
            found["page_faults"] = self.faults_beyond_idle(loop)
        return found
