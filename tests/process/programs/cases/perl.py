"""Perl: the core's own tests, run by the installed perl."""

import re
import shutil
import subprocess
from pathlib import Path

from harness.case import Case, Skip
from harness.outcomes import tap

FOLDERS = ("base", "cmd", "comp", "opbasic", "op", "re", "uni", "mro", "lib", "io")
QUICK = ("base", "cmd", "opbasic", "mro")
ALWAYS = tuple(f"{folder}/" for folder in QUICK)
# They take hours of arithmetic, or need a terminal, other users' processes, or the memory of the whole machine.
LEFT_OUT = re.compile(r"op/(sselect|alarm|sleep|time|lock|taint|getppid|magic)|io/(eintr|socket|sem|shm|msg)|re/uniprops"
                      r"|re/fold_grind|re/speed|op/(dump|mem)")
STEP = 5  # every fifth file of the full set, because all take many minutes


class Perl(Case):
    """Perl: the core's own tests, run by the installed perl."""

    name = "perl"
    medium = 60
    quick = 5
    least = 1000
    health = 0.8
    packages = {"/usr/share/perl/5*/strict.pm": "perl-modules-5.36", "perl": "perl"}

    def prepare(self, kit):
        self.perl = shutil.which("perl")
        wanted = self.ask("print $^V")[1:]
        self.tests = kit.source("perl") / "t"
        if not (self.tests / "test.pl").exists():
            raise Skip("the source has no tests")
        if wanted != self.version():
            raise Skip(f"the source is not that of perl {wanted}")

    def ask(self, program):
        return subprocess.run([self.perl, "-e", program], capture_output=True, text=True, check=True).stdout

    def version(self):
        """Returns the version of the source, from patchlevel.h."""
        text = (self.tests.parent / "patchlevel.h").read_text()
        return ".".join(re.search(rf"define PERL_{part}\s+(\d+)", text)[1] for part in ("REVISION", "VERSION", "SUBVERSION"))

    def groups(self, quick):
        folders = QUICK if quick else FOLDERS
        files = [str(p.relative_to(self.tests)) for f in folders for p in sorted((self.tests / f).glob("*.t"))]
        kept = [f for f in files if not LEFT_OUT.search(f)]
        return kept if quick else [f for n, f in enumerate(kept) if n % STEP == 0 or f.startswith(ALWAYS)]

    def start(self, side):
        """Links the installed perl and library into the place where the tests expect them, ./perl and the folder beside it."""
        tree = side.folder("perl")
        side.tests = side.copy(self.tests, "perl/t")
        (side.tests / "perl").symlink_to(self.perl)
        library = tree / "lib"
        library.mkdir()
        for root in reversed(self.ask("print join qq(\\n), grep m{^/usr/(share|lib)}, @INC").split("\n")):
            if Path(root).is_dir():
                shutil.copytree(root, library, symlinks=False, dirs_exist_ok=True, copy_function=self.link,
                                ignore_dangling_symlinks=True)
        shutil.copytree(self.tests.parent / "lib" / "unicore", library / "unicore", dirs_exist_ok=True)

    @staticmethod
    def link(source, target):
        """Makes links instead of copies. Folders that come earlier in @INC are linked later, so that they win."""
        Path(target).unlink(missing_ok=True)
        Path(target).symlink_to(Path(source).resolve())

    def run(self, side, group):
        first = (side.tests / group).read_text(errors="replace").split("\n", 1)[0]
        switches = re.findall(r"\s(-[A-Za-z]+)", first) if first.startswith("#!") else []
        done = side.run(["./perl", *switches, group], cwd=side.tests, env={"PERL_CORE": "1"}, timeout=180)
        return {**tap(done.out), "end": done.outcome}
