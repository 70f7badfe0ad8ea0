"""R and GNU Octave: their own tests, and work that their processes and threads share."""

import re
from pathlib import Path

from harness.case import WORKLOADS, Case
from harness.outcomes import numbered
from harness.side import digest

# These need no network, display, clock or LaTeX, and no minutes of statistics.
R_TESTS = """
    any-all arith arith-true array-subset complex conditions d-p-q-r-tests d-p-q-r-tst-2 datasets datetime eval-etc eval-etc-2
    eval-fns iec60559 lapack lm-tests method-dispatch ok-errors p-r-random-tests primitives print-tests r-strict-tst reg-BLAS reg-IO
    reg-IO2 reg-S4 reg-S4-examples reg-examples1 reg-examples2 reg-tests-1 reg-tests-1a reg-tests-1b reg-tests-2 reg-tests-3
    simple-true table-margins uparse utf8-regex
""".split()
R_PACKAGES = ("base", "stats", "utils", "methods", "tools", "grid", "splines", "survival", "cluster", "lattice")
EXPRESSION = re.compile(r"^> ", re.MULTILINE)
VOLATILE = re.compile(r"0x[0-9a-f]{4,}|<pointer: \S+>|/tmp/Rtmp\w+|file[0-9a-f]{6,}|\b\d\d:\d\d:\d\d\b")


class R(Case):
    """R: its own tests and the examples of its packages, where the output of each expression is a check, and several processes at once."""

    name = "r"
    medium = 0
    least = 5000
    packages = {"R": "r-base-core", "/usr/lib/R/library/survival": "r-recommended"}

    def prepare(self, kit):
        self.tests = kit.source("r-base") / "tests"

    def groups(self, quick):
        there = [t for t in R_TESTS if (self.tests / f"{t}.R").exists()]
        return [*there, *(f"examples of {p}" for p in R_PACKAGES if Path("/usr/lib/R/library", p).is_dir()), "processes"]

    def run(self, side, group):
        work = side.fresh("work")
        if group == "processes":
            script = WORKLOADS / "processes.R"
        elif group.startswith("examples of "):
            script = work / "examples.R"
            package = group.split()[-1]
            script.write_text(f'library("{package}"); topics <- sort(unique(sub("\\t.*", "", readLines(system.file("help", "AnIndex", '
                              f'package = "{package}")))))\n'
                              f'for (topic in topics) {{ cat("> ", topic, "\\n", sep = ""); set.seed(1)\n'
                              f'  try(suppressWarnings(example(topic, package = "{package}", character.only = TRUE, run.dontrun = FALSE, '
                              f'echo = FALSE, ask = FALSE, local = TRUE, setRNG = TRUE))) }}\n')
        else:
            side.copy(self.tests, "work/tests")
            script, work = work / "tests" / f"{group}.R", work / "tests"
        echo = "--no-echo" if group.startswith("examples") else "--echo"
        done = side.run(["R", "--vanilla", "-q", echo, "-f", script], cwd=work, timeout=300,
                        env={"R_DEFAULT_DEVICE": "pdf", "R_BROWSER": "false", "SRCDIR": work})
        pieces = EXPRESSION.split(VOLATILE.sub("@", side.clean(done.out)))
        return {**numbered((piece.split("\n", 1)[0][:60], digest(piece)) for piece in pieces), "end": done.outcome}


# The folders of Octave's own functions that need no display, Java or network.
FOLDERS = ("elfun", "general", "geometry", "image", "io", "legacy", "linear-algebra", "miscellaneous", "ode", "optimization",
           "polynomial", "set", "signal", "sparse", "specfun", "special-matrix", "statistics", "strings", "time", "+containers", "+matlab")
BLOCK = re.compile(r"^\*\*\*\*\* (?!shared|function)(.*)$|^!!!!! (.*)$", re.MULTILINE)


class Octave(Case):
    """GNU Octave: the tests in its function files, each assertion a check, and its BLAS library (for example OpenBLAS) with threads."""

    name = "octave"
    medium = 0
    least = 3500
    packages = {"octave-cli": "octave"}

    def groups(self, quick):
        self.home = sorted(Path("/usr/share/octave").glob("[0-9]*/m"))[-1]
        return [f for f in FOLDERS if (self.home / f).is_dir()] + ["built in"]

    def run(self, side, group):
        work = side.fresh("work")
        folder = self.home.parent / "etc/tests" if group == "built in" else self.home / group
        files = sorted(str(p) for pattern in ("*.m", "*.tst", "*/*.tst") for p in folder.glob(pattern))
        lines = "".join(f"printf('@@ %s\\n', '{f}'); try, test('{f}', 'verbose', stdout); catch e, disp(e.message); end\n" for f in files)
        # The text goes to stdin, because functions that complain about their use would name a script that calls them.
        done = side.run(["octave-cli", "-q", "-f", "--no-history"], cwd=work, timeout=300, stdin="randn('seed', 1); rand('twister', 1);\n" + lines)
        found = {}
        for part in re.split(r"^@@ ", done.out, flags=re.MULTILINE)[1:]:
            name, _, text = part.partition("\n")
            found.update(self.blocks(name.rpartition("/")[2], text))
        return {**found, "end": done.outcome}

    @staticmethod
    def blocks(name, text):
        """Returns one check for each block. A line of complaint belongs to the block before it."""
        outcomes = []
        for block, complaint in BLOCK.findall(text):
            if complaint and outcomes:
                outcomes[-1] = "skip" if "skipped" in complaint else "known" if "known" in complaint else "fail"
            elif not complaint:
                outcomes.append("ok")
        return {f"{name} {number}": outcome for number, outcome in enumerate(outcomes, 1)}
