"""GNU bash: its own test scripts, run by the installed bash."""

import re
import shutil

from harness.case import Case, Skip
from harness.side import digest

# They use the terminal, look at other processes, or depend on the clock.
UNSTEADY = {"run-posixpipe", "run-all", "run-minimal", "run-gprof", "run-jobs", "run-execscript", "run-read", "run-coproc", "run-trap"}
QUICK = ("array", "assoc", "braces", "case", "comsub", "exp-tests", "extglob", "func", "glob-test", "heredoc", "more-exp",
         "nameref", "new-exp", "parser", "posixexp", "printf", "quote", "redir", "varenv")
HELPERS = ("recho", "zecho", "printenv", "xcase")
HUNK = re.compile(r"---|[0-9,]+[acd][0-9,]+")


def lines_of(difference):
    """Returns the lines of a diff in sorted order, without the positions, because a script and its children may write in either order."""
    return "\n".join(sorted(line for line in difference.splitlines() if not HUNK.fullmatch(line)))


class Bash(Case):
    """GNU bash: its own test scripts, run by the installed bash."""

    name = "bash"
    medium = 45
    quick = 16
    least = 30
    health = 0.75  # Debian's bash differs a little from what the tests expect, and the exit code is 1 then
    packages = {"bash": "bash", "gcc": "gcc"}

    def prepare(self, kit):
        def helpers(tree):
            (tree / "config.h").write_text("#define HAVE_STDLIB_H 1\n#define HAVE_STRING_H 1\n#define HAVE_UNISTD_H 1\n")
            for helper in HELPERS:
                kit.call(["gcc", "-w", "-O1", "-DHAVE_CONFIG_H", "-I", tree, "-I", tree / "include", "-o",
                          tree / "tests" / helper, tree / "support" / f"{helper}.c"])

        self.shell = shutil.which("bash")
        self.tests = kit.built("bash-tests", "bash", helpers) / "tests"
        if not list(self.tests.glob("run-*")):
            raise Skip("the source has no tests")

    def groups(self, quick):
        every = sorted(p.name for p in self.tests.glob("run-*") if p.name not in UNSTEADY)
        return [g for g in every if g[4:] in QUICK] if quick else every

    def start(self, side):
        """Copies the scripts, because they write to fixed names in /tmp, which both sides would share. One fails if a second ends while it runs."""
        side.tests = side.copy(self.tests, "tests")
        private = f"{side.folder('tmp')}/".encode()
        for path in side.tests.iterdir():
            if path.is_file() and path.name not in HELPERS:
                lines = path.read_bytes().replace(b"/tmp/", private).splitlines(keepends=True)
                path.write_bytes(b"".join(line for line in lines if b"|$v2|" not in line))

    def run(self, side, group):
        work = side.folder("tmp")
        env = {"THIS_SH": self.shell, "BASH_TSTOUT": work / "tstout", "BUILD_DIR": side.dir,
               "PATH": f".:{side.tests}:/usr/bin:/bin"}
        done = side.run([self.shell, group], cwd=side.tests, env=env, timeout=400)
        return {"end": done.outcome, "difference to what bash's authors expect": digest(lines_of(side.clean(done.out + done.err)))}
