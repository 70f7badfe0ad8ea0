"""The parts of a row of the table: the command to run, the figure to read from its output, and the goal.

A Workload is one command line; a Point is one figure read from its runs. Several points may read one workload (speed and peak RSS).
"""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """One command line. "{n}" in it stands for the amount of work."""

    command: str
    n: int = 0
    quick_n: int = 0
    repeat: int = 1  # runs that make one sample (their median): for short runs
    warm_mib: int = 0  # huge pages touched by a child that ends before the run
    difference: bool = False  # figures per operation from runs of n and of 2n
    single_thread: bool = True  # then processor time may stand for wall time
    trace_rss: bool = False  # once, its resident memory is seen over time
    series: str = ""  # it prints its own, with its live bytes: by "operations" or by "ms"
    program: str = ""  # a real one's name, of programs.py
    exact: bool = False  # its cost is counted once, not timed in rounds
    folios: bool = False  # while it runs, the kernel gives folios of 64 KiB to all memory
    traced: bool = True  # False: thousands of threads, whose system calls would be counted for hours

    def amount(self, quick: bool) -> int:
        return (self.quick_n or self.n // 10 or self.n) if quick else self.n

    def argv(self, quick: bool, factor: int = 1) -> list[str]:
        return self.command.replace("{n}", str(self.amount(quick) * factor)).split()


@dataclass(frozen=True)
class Goal:
    """Bounds; None where there is none. Ratios are > 1 where HAKMEM is better."""

    ratio: float | None = None  # to the best peer
    limit: float | None = None  # to the null allocator
    value: float | None = None  # in the point's unit


@dataclass(frozen=True)
class Point:
    row: str
    label: str
    work: Workload
    metric: str
    unit: str
    higher: bool  # is more better?
    floor: Goal = Goal(ratio=1.0)  # the bound that a release must keep; by default the best peer
    goal: Goal = Goal(ratio=1.0)  # where it is to get
    default: bool = True
    with_limit: bool = False  # is the null allocator run, too?
    repeats: float = 0.0  # a count: from run to run it differs by this share at most
    quick: bool = False  # one of the few of `--quick`

    @property
    def name(self) -> str:
        return f"{self.row} {self.label}"

    @property
    def is_of_memory(self) -> bool:
        """Rows M1, M2 and so on count bytes, faults and system calls, which hardly vary."""
        return re.match(r"M\d", self.row) is not None
