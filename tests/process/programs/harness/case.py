"""Describes a program to be tested, as a subclass of Case in a file of cases/."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORKLOADS = HERE / "workloads"


class Skip(Exception):
    """Raised if something that the program needs is not available. The message gives the reason."""


class Unreachable(Skip):
    """Raised if a server for packages or sources does not answer."""


class Case:
    """A program with groups of checks.

    A group can be run again by itself. run() returns {check: outcome} for one group, and the harness compares the
    answers of the two sides. Outcomes are words, for example "ok", "fail", "skip" or "exit 0", or hashes.
    """

    name = ""
    quick = 0             # seconds that it takes in the quick set (make check), so that the longest begin first; 0 means not in this set
    medium = 1            # seconds that it takes in the medium set (make test); 0 means that only make programs runs the case
    size = "full"         # the set that runs, so that a case can do more work in a larger one
    packages = {}         # {required command or file: Debian package}
    serial = False        # groups depend on each other, and so a repetition repeats all
    own_malloc = False    # has its own malloc, so that the library is loaded but serves nothing
    least = 1             # if glibc has fewer checks than this, the test itself is broken
    health = 0.9          # the part of glibc's checks that must succeed; with fewer, "same" means nothing

    def prepare(self, kit):
        """Fetches and builds the files of both sides. Nothing here runs on the allocator under test."""

    def groups(self, quick):
        return ["all"]

    def start(self, side):
        """Starts servers and copies trees, on one side."""

    def run(self, side, group):
        raise NotImplementedError

    def stop(self, side):
        """Ends the processes of start()."""


def load_cases():
    """Returns every Case of cases/*.py, ordered by the names of the files."""
    cases = []
    for path in sorted((HERE / "cases").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"cases.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cases += [v() for v in vars(module).values()
                  if isinstance(v, type) and issubclass(v, Case) and v.__module__ == module.__name__ and v.name]
    return cases
