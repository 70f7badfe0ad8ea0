"""A check whose outcome differs between the sides, and the decision which side is at fault."""

from dataclasses import dataclass, field

FLAKY, BROKEN, INTERMITTENT, ONCE, GLIBCS = "flaky on glibc", "broken", "intermittent", "not seen again", "fails on glibc alone"
FAULTS = (BROKEN, INTERMITTENT)


@dataclass
class Difference:
    """The outcomes of each run on glibc, and of the same number of runs with the library preloaded."""

    group: str
    check: str
    control: list
    library: list
    words: list = field(default_factory=list)  # words of the allocator or of a crash in the preloaded side's output

    @property
    def crashed(self):
        return bool(self.words) or any(outcome.startswith("signal") for outcome in self.library)

    @property
    def verdict(self):
        """Returns which side is at fault. It is the allocator if glibc's outcome is always the same and the preloaded side differs each time,
        differs more than once, or crashes. One failure may come from a busy machine. A check of memory may always fail on glibc, and never
        on another allocator."""
        right = self.control[0]
        if any(outcome != right for outcome in self.control):
            return FLAKY
        if right.startswith(("fail", "error")) and all(outcome == "ok" for outcome in self.library):
            return GLIBCS
        wrong = sum(outcome != right for outcome in self.library)
        if wrong == len(self.library):
            return BROKEN
        return INTERMITTENT if wrong > 1 or self.crashed else ONCE

    @property
    def in_doubt(self):
        """Returns whether more runs could show that glibc's outcome varies, or that the preloaded side fails again."""
        return self.verdict in (INTERMITTENT, ONCE)

    @property
    def fault(self):
        return self.verdict in FAULTS

    def add(self, control, library, words):
        self.control.append(control)
        self.library.append(library)
        self.words += [word for word in words if word not in self.words]

    def line(self):
        return (f"{self.group}: {self.check}: glibc {told(self.control)}; preloaded {told(self.library)}: {self.verdict}")


def told(outcomes):
    """Returns each outcome once, with the number of runs that had it."""
    times = {outcome: outcomes.count(outcome) for outcome in outcomes}
    return ", ".join(outcome if count == 1 else f"{outcome} ({count} times)" for outcome, count in times.items())
