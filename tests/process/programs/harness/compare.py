"""Runs a case on both sides, compares check by check, and tells flaky checks from broken ones."""

import shutil
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from .case import Skip, Unreachable
from .difference import Difference
from .load import busy, scratch_folder
from .side import CRASH_OUTCOMES, Side

ABSENT = "(no outcome)"
GOOD = ("ok", "skip", "todo", "exit 0", "same")
BAD = ("fail", "error", "exit", "signal", "timeout", "not ok", ABSENT)
REPETITIONS = 2
MORE_IN_DOUBT = 10
LONGEST_DOUBT_S = 300
MOST_FLAKY = 0.1


@dataclass
class Verdict:
    name: str
    status: str = "same"      # same, flaky, differs, skipped, unhealthy, not served
    note: str = ""
    unreachable: bool = False  # skipped because a server did not answer
    checks: int = 0
    differences: list = field(default_factory=list)
    seconds: dict = field(default_factory=dict)
    served: int = 0
    processes: int = 0
    reported: int = 0         # number of processes that report that the library served calls
    loaded: int = 0           # number of processes that report that the library was loaded
    poor: list = field(default_factory=list)     # the first twenty checks that fail on glibc
    slowest: dict = field(default_factory=dict)  # {group: [seconds on glibc, preloaded]}, the five longest groups
    logs: str = ""

    @property
    def failed(self):
        return self.status in ("differs", "unhealthy", "not served")


def good(outcome):
    """Returns whether glibc's outcome shows that the check did its work. A hash shows this."""
    return outcome.startswith(GOOD) or not outcome.startswith(BAD)


class Comparison:
    def __init__(self, case, options, progress):
        self.case, self.options, self.progress = case, options, progress
        self.groups = []

    def side(self, name, scratch, library):
        return Side(name, scratch, library, self.options.inherited)

    def one_group(self, side, group):
        """Runs one group on one side. An exception in the case's own code is an outcome too."""
        side.group = group
        try:
            return self.case.run(side, group)
        except Exception as broken:  # after a crash, files are not written and sockets are closed
            with open(side.log_path(), "a") as log:
                log.write(traceback.format_exc())
            return {"harness": f"error {type(broken).__name__}"}

    def whole(self, side, groups, answers):
        """Runs the groups in order on one side, and sets answers[group] = {check: outcome}."""
        begun = time.monotonic()
        side.group, side.lasted = "start", {}
        try:
            self.case.start(side)
            for group in groups:
                since = time.monotonic()
                answers[group] = self.one_group(side, group)
                side.lasted[group] = round(time.monotonic() - since, 1)
                self.progress.step(self.case.name, side.name)
        except Exception as broken:
            with open(side.log_path(), "a") as log:
                log.write(traceback.format_exc())
            answers["start"] = {"start": f"error {type(broken).__name__}: {side.clean(str(broken))[:120]}"}
        finally:
            side.group = "stop"
            self.case.stop(side)
            side.seconds = time.monotonic() - begun

    def both(self, scratch, groups):
        """Runs both sides at once, one thread each, so that both have the same load and two processors are used."""
        sides = (self.side("glibc", scratch, None), self.side("other", scratch, self.options.library))
        answers = ({}, {})
        threads = [threading.Thread(target=self.whole, args=(side, groups, answer))
                   for side, answer in zip(sides, answers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sides, answers

    def once_more(self, scratch, number, differences):
        """Runs the groups of these differences again on both sides."""
        chosen = {d.group for d in differences}
        groups = self.groups if self.case.serial else [g for g in self.groups if g in chosen or "start" in chosen]
        self.progress.begin(self.case.name, 2 * len(groups), f" again ({number + 1})")
        folder = Path(scratch) / f"again{number}"
        folder.mkdir(mode=0o755)
        sides, answers = self.both(folder, groups)
        for d in differences:
            control, library = (answer.get(d.group, {}).get(d.check, ABSENT) for answer in answers)
            d.add(control, library, sides[1].complaints(d.group, sides[0]) if control != library else [])

    def repeat(self, scratch, differences):
        """Repeats all differences a few times. Then it repeats doubtful ones more often, while all processors are busy, for some minutes."""
        begun = time.monotonic()
        for number in range(REPETITIONS):
            self.once_more(scratch, number, differences)
        for number in range(REPETITIONS, REPETITIONS + MORE_IN_DOUBT):
            doubtful = [d for d in differences if d.in_doubt]
            if not doubtful or time.monotonic() - begun > LONGEST_DOUBT_S:
                break
            with busy():
                self.once_more(scratch, number, doubtful)

    def judge(self, kit):
        """Does all steps of a case: prepare, run, compare, repeat, clean up."""
        verdict = Verdict(self.case.name)
        try:
            self.case.size = self.options.size
            kit.packages(self.case.packages)
            self.case.prepare(kit)
            self.groups = self.case.groups(self.options.quick)
        except Skip as reason:
            verdict.status, verdict.note, verdict.unreachable = "skipped", str(reason), isinstance(reason, Unreachable)
            return verdict
        scratch = scratch_folder()
        Path(scratch).chmod(0o755)  # servers refuse to run as root, and need access from another account
        try:
            self.progress.begin(self.case.name, 2 * len(self.groups))
            sides, answers = self.both(scratch, self.groups)
            self.fill(verdict, sides, answers)
            if verdict.differences:
                self.repeat(scratch, verdict.differences)
                self.keep_logs(verdict, scratch)
            self.decide(verdict, answers[0])
        finally:
            self.progress.end(self.case.name)
            if not self.options.keep:
                shutil.rmtree(scratch, ignore_errors=True)
        return verdict

    def fill(self, verdict, sides, answers):
        control, other = answers
        verdict.checks = sum(len(found) for found in control.values())
        verdict.seconds = {"glibc": round(sides[0].seconds, 1), "preloaded": round(sides[1].seconds, 1)}
        lasted = {group: [side.lasted.get(group, 0.0) for side in sides] for group in self.groups}
        verdict.slowest = dict(sorted(lasted.items(), key=lambda item: -max(item[1]))[:5])
        verdict.served, verdict.processes = sides[1].served, sides[1].started
        verdict.reported, verdict.loaded = sides[1].reported, sides[1].loaded
        for group in sorted(set(control) | set(other)):
            mine, theirs = control.get(group, {}), other.get(group, {})
            words = sides[1].complaints(group, sides[0])
            for check in sorted(set(mine) | set(theirs)):
                a, b = mine.get(check, ABSENT), theirs.get(check, ABSENT)
                if a != b:
                    verdict.differences.append(Difference(group, check, [a], [b], words))

    def keep_logs(self, verdict, scratch):
        """Copies the output of the differing groups out of the scratch folder."""
        target = Path(self.options.logs) / self.case.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        names = {Side.log_name(d.group) for d in verdict.differences}
        for log in Path(scratch).rglob("log/*.txt"):
            if log.name in names:
                shutil.copy2(log, target / "-".join([*log.relative_to(scratch).parts[:-2], log.name]))
        verdict.logs = str(target)

    def decide(self, verdict, control):
        outcomes = [o for found in control.values() for o in found.values()]
        healthy = sum(good(o) for o in outcomes)
        verdict.poor = [f"{group}: {check}: {o}" for group, found in control.items() for check, o in found.items() if not good(o)][:20]
        faults = [d for d in verdict.differences if d.fault]
        flaky = len(verdict.differences) - len(faults)
        if faults:
            verdict.status = "differs"
        elif verdict.checks < self.case.least or healthy < self.case.health * len(outcomes):
            verdict.status = "unhealthy"
            verdict.note = f"on glibc {healthy} of {verdict.checks} checks are good, {self.case.least} expected"
        elif flaky > MOST_FLAKY * verdict.checks + 2:
            verdict.status, verdict.note = "unhealthy", "too little is steady on glibc to compare"
        elif self.options.need_report and not (verdict.loaded if self.case.own_malloc else verdict.reported):
            verdict.status = "not served"
            verdict.note = "no process reported that the library served its calls"
        elif verdict.differences:
            verdict.status = "flaky"
        if any(o.startswith(CRASH_OUTCOMES) for d in verdict.differences for o in d.library):
            verdict.note = (verdict.note + " crash or hang").strip()
