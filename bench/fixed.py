"""Fixed settings, with which the learner is compared: HAKMEM_LEARN=off, and a value for each knob.

The first is the defaults; then each knob moved alone, for the best is often near the defaults; then random ones, in which each
knob is moved or not at random. SPACE follows the policy rows of src/policy/options.def (test_rival.py checks that).
"""
import random
import statistics
from dataclasses import dataclass, field

MIB = 1 << 20
Value = int | str
OFF = {"HAKMEM_LEARN": "off"}
# Each knob of scope `policy` in options.def that shapes speed and memory, and the background thread.
SPACE: dict[str, list[Value]] = {
    "thread_cache": [0] + [(MIB // 4) << n for n in range(10)],
    "depot": [0] + [MIB << n for n in range(7)],
    "refill": [10, 25, 50, 75, 100],
    "hot_turnover": [0, 1, 2, 4, 8, 16, 64],
    "drain_slabs": [1, 4, 16, 64, 256],
    "purge_delay": [25, 50, 100, 150, 200, 300, 500, 700, 1000, 2000, 4000, 16000],
    "large_cache": [0] + [(4 * MIB) << n for n in range(9)],
    "large_fit": [110, 125, 150, 200, 300, 400],
    "huge_pages_from": [0] + [MIB << n for n in range(8)],
    "huge_blocks_from": [0] + [MIB << n for n in range(6)],
    "background": [0, 1, "auto"],
}
DEFAULTS: dict[str, Value] = {
    "thread_cache": 8 * MIB,
    "depot": 8 * MIB,
    "refill": 50,
    "hot_turnover": 4,
    "drain_slabs": 16,
    "purge_delay": 500,
    "large_cache": 128 * MIB,
    "large_fit": 400,
    "huge_pages_from": 4 * MIB,
    "huge_blocks_from": 4 * MIB,
    "background": "auto",
}


@dataclass
class Setting:
    """A way to run HAKMEM, and the figures of its runs."""

    name: str
    options: dict[str, str]
    runs: list[dict] = field(default_factory=list)

    def median(self, key: str) -> float:
        return statistics.median(run[key] for run in self.runs)

    def told(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items()) or "as it comes"


def fixed(name: str, knobs: dict[str, Value]) -> Setting:
    return Setting(name, OFF | {f"HAKMEM_{knob.upper()}": str(value) for knob, value in knobs.items()})


def candidates(count: int, seed: int) -> list[Setting]:
    """The defaults first, which need no search."""
    dice = random.Random(seed)
    singles = [{knob: value} for knob, values in SPACE.items() for value in values if value != DEFAULTS[knob]]
    dice.shuffle(singles)
    chosen: list[dict[str, Value]] = [{}, *singles[: (count - 1) // 3]]
    while len(chosen) < count:
        moved = {knob: dice.choice(values) for knob, values in SPACE.items() if dice.random() < 0.5}
        if moved not in chosen:
            chosen.append(moved)
    return [fixed(f"#{n}" if n else "defaults", knobs) for n, knobs in enumerate(chosen)]


def unique(settings: list[Setting]) -> list[Setting]:
    return list({id(setting): setting for setting in settings}.values())
