"""Runs programs with one mistake each, and tells how they end. Needs only Python itself: the tests use it, too.

The kinds are the rows of mistakes/mistakes.def. An outcome is a word:

  message   the allocator complained, or ended the program with a message
  ended     it ended the program by abort or a trap, without a word
  fault     the wrong step itself was an access to memory that the allocator keeps inaccessible
  absent    the step went through, and had no effect (kinds of rule EFFECT)
  crashed   the program broke down later, by SIGSEGV or SIGBUS and without a word: the heap was damaged, not guarded
  hung      it did not end
  unnoticed it ended as if nothing had been wrong
  none      the allocator has no such call

The first four are caught. A message counts whenever it comes, as late as at exit.
"""
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "mistakes/mistakes.def"
ROW = re.compile(r'^MISTAKE\((\w+), (\w+), (TOLD|EFFECT), (\w+), (\w+), "(.*)"\)$', re.MULTILINE)
ALL_SIZES = (8, 24, 100, 1024, 4096, 32768, 262144, 2097152)
SIZES = {"ALL": ALL_SIZES, "FROM_24": ALL_SIZES[1:], "FROM_32K": ALL_SIZES[5:], "ONE": (24,)}
WAYS = {"ANY": ("once", "later", "thread"), "ONCE": ("once",)}
CAUGHT = frozenset(("message", "ended", "fault", "absent"))
FAULTS = (signal.SIGSEGV, signal.SIGBUS)
TIMEOUT_S = 5
FAMILIES = {
    "free": "Freed twice, or never allocated",
    "forms": "Freed in another form",
    "bounds": "Outside a block",
    "life": "After a block's end, before its first write",
    "secrets": "What an attacker may count on",
    "use": "Right use, and use at the limits",
}


@dataclass(frozen=True)
class Kind:
    name: str
    family: str
    rule: str
    sizes: tuple[int, ...]
    ways: tuple[str, ...]
    title: str

    def cases(self) -> "Iterator[Case]":
        return (Case(self, size, way) for way in self.ways for size in self.sizes)


@dataclass(frozen=True)
class Case:
    kind: Kind
    size: int
    way: str

    def words(self) -> list[str]:
        return [self.kind.name, str(self.size), self.way]

    def __str__(self) -> str:
        return " ".join(self.words())


@dataclass(frozen=True)
class Outcome:
    word: str
    when: str  # at the "step", "later" or at "exit"; empty where nobody noticed
    said: str  # the allocator's own lines
    signal: int = 0

    @property
    def caught(self) -> bool:
        return self.word in CAUGHT


def kinds() -> tuple[Kind, ...]:
    rows = ROW.findall(TABLE.read_text())
    return tuple(Kind(name, family, rule, SIZES[sizes], WAYS[ways], title) for name, family, rule, sizes, ways, title in rows)


def run(program: Path, case: Case, env: Mapping[str, str], sound: bool = False) -> Outcome:
    """One program. Its marks and the allocator's lines come through one pipe: so their order is known."""
    command = [str(program), *(["--sound"] if sound else []), *case.words()]
    try:
        done = subprocess.run(command, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Outcome("hung", "", "")
    return outcome(case.kind, done.stdout.decode(errors="replace").splitlines(), done.returncode)


def outcome(kind: Kind, lines: list[str], status: int) -> Outcome:
    marks = [line for line in lines if line.startswith("mistake: ")]
    said = "\n".join(line for line in lines if line and not line.startswith("mistake: "))
    number = -status if status < 0 else 0
    if "mistake: not offered" in marks:
        return Outcome("none", "", said)
    if said:
        return Outcome("message", moment(lines), said, number)
    if status != 0:
        when = moment(lines)
        if number in FAULTS:
            return Outcome("fault" if when == "step" else "crashed", when, "", number)
        return Outcome("ended", when, "", number)
    if kind.rule == "EFFECT" and "mistake: no effect" in marks:
        return Outcome("absent", "step", "")
    return Outcome("unnoticed", "", "")


def moment(lines: list[str]) -> str:
    """Of the first line of the allocator's, or of the end."""
    words = {"mistake: made": "later", "mistake: ended": "exit"}
    when = "step"
    for line in lines:
        if line and not line.startswith("mistake: "):
            break
        when = words.get(line, when)
    return when


def complaint_when_sound(kind: Kind, seen: Outcome) -> str:
    """What is wrong with the end of a program without the mistake; empty: nothing."""
    if seen.word in ("none", "absent") or (seen.word == "unnoticed" and kind.rule == "TOLD"):
        return ""
    return f"{seen.word} {seen.when} {seen.said}".strip()


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Bare, so that no option of the caller's shell has a say."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", **extra}


def run_all(
    program: Path,
    cases: Iterable[Case],
    env: Mapping[str, str],
    tries: int = 1,
    sound: bool = False,
    at_end: Callable[[], None] = lambda: None,
) -> dict[Case, list[Outcome]]:
    """Each case so many times, one a processor."""

    def one(case: Case) -> list[Outcome]:
        seen = [run(program, case, env, sound) for _ in range(tries)]
        at_end()
        return seen

    every = list(cases)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(zip(every, pool.map(one, every)))
