"""Makes the candidates of `hakmem tune`, which are named profiles and random values of the options that trade memory for time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from hakmem.options import option_text

PROFILES = ("throughput", "balanced", "compact")
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Range:
    """A range from which values are drawn log-uniformly. One draw in six gives `also`, a value outside the range, if there is one."""

    low: int
    high: int
    also: int | None = None

    def draw(self, chance: random.Random) -> int:
        if self.also is not None and chance.random() < 1 / 6:
            return self.also
        drawn = round(self.low * (self.high / self.low) ** chance.random())
        return drawn if self.high < 4096 else rounded(drawn)


# The ranges are within the bounds of options.def, and are no wider than useful for a program that ends within minutes.
RANGES = {
    "thread_cache": Range(64 * KIB, 256 * MIB),
    "depot": Range(64 * KIB, 256 * MIB, also=0),
    "refill": Range(10, 100),
    "hot_turnover": Range(1, 64, also=0),
    "drain_slabs": Range(1, 1024),
    "purge_delay": Range(1, 60_000, also=0),
    "large_cache": Range(1 * MIB, 4096 * MIB, also=0),
    "large_fit": Range(100, 400),
    "huge_pages_from": Range(1 * MIB, 1024 * MIB, also=0),
    "huge_blocks_from": Range(1 * MIB, 64 * MIB, also=0),
}
LEAST_CHANGED, MOST_CHANGED = 1, 4


@dataclass(frozen=True)
class Candidate:
    """The settings of a run, which are options of HAKMEM. If `hakmem` is False, the run uses the system's malloc."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    hakmem: bool = True


DEFAULT = Candidate("default")
GLIBC = Candidate("glibc", hakmem=False)


def rounded(value: int) -> int:
    """Rounds the value down to about three significant bits, so that it is readable."""
    step = 1 << max(0, value.bit_length() - 3)
    return value // step * step


def draw(count: int, chance: random.Random, known: Mapping[str, object]) -> list[Candidate]:
    """Returns distinct random settings of the options that this library has."""
    names = [name for name in RANGES if name in known]
    found: dict[str, Candidate] = {}
    for _ in range(count * 4):
        if len(found) >= count or not names:
            break
        changed = chance.sample(names, min(len(names), chance.randint(LEAST_CHANGED, MOST_CHANGED)))
        options = {name: str(RANGES[name].draw(chance)) for name in sorted(changed)}
        label = ", ".join(f"{name} {option_text(name, value)}" for name, value in options.items())
        found.setdefault(label, Candidate(label, options))
    return list(found.values())


def named(known: Mapping[str, object]) -> list[Candidate]:
    """Returns the named profiles, if the library supports profiles."""
    return [Candidate(name, {"profile": name}) for name in PROFILES] if "profile" in known else []
