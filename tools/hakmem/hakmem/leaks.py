"""Finds lines of the program that probably leak. It compares the ages of a line's live samples with the lifetimes of its freed samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hakmem.figures import bytes_text, count_text
from hakmem.profiles import Profile, Site
from hakmem.sources import BEST_RULE, RULE_TEXT, Frame, Sources, blame, short

MOST_FREED = 0.9  # share of the freed blocks that did not live longer than the usual lifetime
OLD = 2.0  # usual lifetimes, after which a block is old
LEAST_OLD_S = 0.25
LEAST_SAMPLES = 3
LEAST_FREED = 0.05  # if fewer blocks were freed for each live block, their lifetimes are ignored
LEAST_KEPT = 2.0  # old blocks for each block that was freed when it was old
LEAST_LATE = 0.15  # part of the old blocks that were born in the later half
LEAST_SPREAD = 0.2  # part of the time in which most of the old blocks must have been born
FEW = 10
HIDDEN = 6.3  # bytes that a sample represents; 19 of 20 lines that allocate so much have at least LEAST_SAMPLES samples (Poisson)
SPAN_MS = 0.001


@dataclass
class Line:
    """All samples that one line of the program allocated."""

    frame: Frame
    rule: str
    sites: list[Site] = field(default_factory=list)
    stacks: dict[tuple, float] = field(default_factory=lambda: defaultdict(float))


@dataclass
class Finding:
    frame: Frame
    bytes: float
    blocks: float
    samples: int
    why: str
    stack: list[Frame]
    score: float


def usual_life(freed: dict[int, int]) -> float:
    """Returns the usual lifetime in seconds, which MOST_FREED of the freed blocks did not exceed. Within a span, the lifetimes are taken as evenly
    distributed."""
    missing = MOST_FREED * sum(freed.values())
    for span in sorted(freed):
        if freed[span] >= missing:
            return (1 << span) * SPAN_MS * (1 + missing / freed[span]) / 2
        missing -= freed[span]
    return 0.0


def freed_after(freed: dict[int, int], age: float) -> float:
    """Returns how many of the freed blocks had become older than `age` in seconds."""
    ends = ((count, (1 << span) * SPAN_MS) for span, count in freed.items())
    return sum(count * min(1.0, max(0.0, 2 * (end - age) / end)) for count, end in ends)


def spread(ages: list[tuple[float, float]], weight: float) -> float:
    """Returns the difference between the ages that a tenth and nine tenths of the weight do not exceed."""
    found, passed = [], 0.0
    for age, part in sorted(ages):
        before, passed = passed, passed + part
        found += [age for share in (0.1, 0.9) if before <= share * weight < passed]
    return found[-1] - found[0] if found else 0.0


def lines_of(profile: Profile, sources: Sources) -> list[Line]:
    found: dict[tuple, Line] = {}
    for site in profile.sites:
        frame, rule = blame(sources.frames(site.stack))
        line = found.setdefault((frame.function, frame.place), Line(frame, rule))
        line.sites.append(site)
        line.stacks[site.stack] += site.scale * site.live_bytes
    return list(found.values())


def seconds_text(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def judge(line: Line, seconds: float, sources: Sources) -> Finding | None:
    """Returns a finding if the line probably leaks. Returns None if its live blocks are as young as its blocks usually become, if blocks that became
    older are still freed, if nearly all of them were allocated early, or if most of them were allocated in a short time."""
    freed = sum((Counter(site.freed) for site in line.sites), Counter())
    blocks_freed = sum(site.live_weight * sum(site.freed.values()) for site in line.sites)
    if blocks_freed < LEAST_FREED * sum(site.live_weight * len(site.live) for site in line.sites):
        freed.clear()
    usual = usual_life(freed)
    old_from = max(LEAST_OLD_S, OLD * usual) if freed else 0.0
    old = [(one, site.live_weight) for site in line.sites for one in site.live if one.age >= old_from]
    if len(old) < LEAST_SAMPLES or seconds <= old_from or len(old) < LEAST_KEPT * freed_after(freed, old_from):
        return None
    middle = old_from + (seconds - old_from) / 2
    weight = sum(one.size * scale for one, scale in old)
    late = sum(one.size * scale for one, scale in old if one.age < middle) / weight
    if late < LEAST_LATE or spread([(one.age, one.size * scale) for one, scale in old], weight) < LEAST_SPREAD * (seconds - old_from):
        return None
    blocks = sum(scale for _, scale in old)
    oldest = max(one.age for one, _ in old)
    count = round(sum(freed.values()))
    if count:
        why = (
            f"these are {seconds_text(old_from)} to {seconds_text(oldest)} old, but of {count_text(count)} sampled blocks that were freed "
            f"{MOST_FREED:.0%} became no older than {seconds_text(usual)}"
        )
    else:
        few = f"only {count_text(max(1, round(blocks_freed)))}" if blocks_freed else "none"
        why = f"{few} of its blocks were freed in {seconds_text(seconds)}, and new ones keep coming"
    if len(old) < FEW:
        why += f"; only {len(old)} samples"
    if line.rule != BEST_RULE:
        why += f"; no function of the program's own files is known, so this is the innermost {line.rule}"
    elif not line.frame.file:
        why += "; its file has no lines (debug information)"
    stack = max(line.stacks, key=lambda one: line.stacks[one])
    return Finding(line.frame, weight, blocks, len(old), why, sources.frames(stack), weight * min(1.0, 2 * late) * min(1.0, len(old) / FEW))


def find(profile: Profile, sources: Sources) -> list[Finding]:
    sources.learn(site.stack for site in profile.sites)
    judged = (judge(line, profile.seconds, sources) for line in lines_of(profile, sources))
    return sorted((one for one in judged if one), key=lambda one: -one.score)


def where(frame: Frame) -> str:
    return f"{short(frame.file)}:{frame.line}" if frame.line else short(frame.file) or frame.place


def text(profile: Profile, findings: list[Finding], most: int) -> str:
    """Returns the text for the terminal, with one line for each finding, and then their stacks."""
    lines = [
        f"{number}. {bytes_text(one.bytes)} in {count_text(round(one.blocks))} blocks, {where(one.frame)} ({one.frame.function}): {one.why}"
        for number, one in enumerate(findings[:most], 1)
    ]
    if not lines:
        lines.append("No samples: the process allocated nothing, or too little." if profile.samples == 0 else
                     f"Too few samples to tell if there is a leak: {profile.samples}." if profile.samples < FEW else
                     "No leak is suspected: all blocks are as young as blocks of their lines usually become, or were born at the start.")
    for number, one in enumerate(findings[:most], 1):
        lines += ["", f"{number}. allocated by"]
        lines += [f"     {frame.function}  {where(frame)}" for frame in one.stack]
    lines += ["", *([RULE_TEXT] if findings else []),
              f"{count_text(profile.samples)} samples in {seconds_text(profile.seconds)}; "
              f"{bytes_text(profile.live_bytes)} live of {bytes_text(profile.bytes)} allocated in this time.",
              f"A line that leaked less than {bytes_text(hidden(profile))} in this time may be hidden, because it may have fewer than {LEAST_SAMPLES} samples. "
              "A smaller --sample (HAKMEM_HEAP_SAMPLE) finds smaller leaks."]
    return "\n".join(lines)


def hidden(profile: Profile) -> float:
    """Returns the bytes that a line may leak unseen in blocks of which not each one is sampled. If a process is sampled in rounds, a sample represents
    more than the mean bytes."""
    sampled = [(site, site.taken or site.blocks) for site in profile.sites]
    rare = [(site.scale * site.bytes, count) for site, count in sampled if site.scale * site.blocks > 2 * count]
    return HIDDEN * max(profile.mean, sum(size for size, _ in rare) / max(1, sum(count for _, count in rare)))
