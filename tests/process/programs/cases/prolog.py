"""SWI-Prolog: its own tests, threads and garbage collection among them."""

import re

from harness.case import WORKLOADS, Case
from harness.outcomes import values

FOLDERS = ("unprotected", "core", "attvar", "debug", "library", "compile", "charset", "eclipse", "files", "clp", "GC", "thread",
           "thread_wait", "transaction", "tabling", "rational", "xsb/basic_tests", "xsb/ai_tests", "xsb/ptq", "xsb/neg_tests",
           "xsb/delay_tests", "xsb/wfs_tests", "xsb/table_tests", "xsb/incremental_tests", "xsb/nonmt_tests", "xsb/sub_tests")
DOTS = re.compile(r"^(?:Running scripts from \S+ )?(\.+)(?: done)?$", re.MULTILINE)
FAILED = re.compile(r"^Script (\S+) failed", re.MULTILINE)


class Swipl(Case):
    """SWI-Prolog: its own tests, threads and garbage collection among them; and clauses asserted by four threads."""

    name = "swipl"
    medium = 0
    least = 700
    packages = {"swipl": "swi-prolog-nox", "/usr/lib/swi-prolog/library/plunit.pl": "swi-prolog-nox"}

    def prepare(self, kit):
        self.tree = kit.source("swi-prolog") / "src"

    def groups(self, quick):
        return ["clauses", "the core", *(f for f in FOLDERS if (self.tree / "Tests" / f).is_dir())]

    def start(self, side):
        side.copy(self.tree, "src")

    def run(self, side, group):
        if group == "clauses":
            done = side.run(["swipl", "-q", "-f", WORKLOADS / "clauses.pl", "-g", "main", "-t", "halt"], cwd=side.fresh("work"))
            return values(done)
        words = ["--no-subdirs"] if group == "the core" else ["--no-core", group]
        done = side.run(["swipl", "-q", "test.pl", *words], cwd=side.dir / "src", timeout=240)
        said = side.clean(done.out + done.err)
        dots = sum(len(line) for line in DOTS.findall(said))  # one dot for each test that succeeds
        found = {str(number): "ok" for number in range(1, dots + 1)}
        found.update((script, "fail") for script in FAILED.findall(said))
        return {**found, "end": done.outcome}
