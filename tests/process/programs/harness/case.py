"""The description of a program to be tested: one subclass of Case per file of cases/."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORKLOADS = HERE / "workloads"


class Skip(Exception):
    """What the program needs cannot be had here; the reason is the message."""


class Unreachable(Skip):
    """A server that packages or sources come from does not answer."""


class Case:
    """A program with groups of checks.

    A group is what can be run again by itself: run() returns {check: outcome} for one, and the harness
    compares the two sides' answers. Outcomes are words such as "ok", "fail", "skip" or "exit 0", or hashes.
    """

    name = ""
    quick = 0             # part of the quick set (make check); the seconds that it takes there, so that the longest begin first
    medium = 1            # part of the medium set (make test): the seconds that it takes there; 0: only make programs has the case
    size = "full"         # which set is being run, for a case that does more of its work in a larger one
    packages = {}         # {command or file that must be there: Debian package}
    serial = False        # groups build on each other: a repetition repeats them all
    own_malloc = False    # brings its own, so that the library is loaded and serves nothing
    least = 1             # fewer checks than this on glibc mean that the test itself is broken
    health = 0.9          # the part of glibc's checks that must be good, for "same" to mean anything

    def prepare(self, kit):
        """Fetches and builds the files of both sides; none of this runs on the allocator under test."""

    def groups(self, quick):
        return ["all"]

    def start(self, side):
        """Starts servers and copies trees, on one side."""

    def run(self, side, group):
        raise NotImplementedError

    def stop(self, side):
        """Ends the processes of start()."""


def load_cases():
    """Every Case of cases/*.py, by name of the file."""
    cases = []
    for path in sorted((HERE / "cases").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"cases.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cases += [v() for v in vars(module).values()
                  if isinstance(v, type) and issubclass(v, Case) and v.__module__ == module.__name__ and v.name]
    return cases
