#!/usr/bin/env python3
"""Plants the faults of faults.txt in a copy of the tree, one at a time, and checks which test finds each fault.

  plant.py                     plants all faults, with all stages of tests (make faults)
  plant.py --minutes 4 --seed COMMIT    plants the faults that a unit test found last, in an order that the seed chooses, until the time is over.
                             It runs only unit tests. A fault for which the time is too short, as on a slow machine, is left out, because only a test
                             that ran to its end can miss a fault
  plant.py --only NAME,NAME    plants these faults
  plant.py --check             only checks that each fault can be planted: its text must be in its file exactly once
  plant.py --note FILE...      writes into faults.txt which test finds each fault, from the results.json of runs; a later file has priority

A fault is found if a test fails, and fails again in one of three more runs. The test that found the fault last runs first (faults.txt names
it). Then the tests run from cheap to expensive: the unit tests that include the file's header, all unit tests, the fuzzing cases, the quick tests
that take less than a few seconds, all quick tests, and the tests of label full that can find more. --stages limits them. The script fails if a
fault cannot be planted, does not compile, or is missed, unless missed.txt lists it with the reason. A fault for which the time was too short is
undecided: it counts neither as found nor as missed."""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HOME = pathlib.Path(__file__).resolve().parent
ROOT = HOME.parents[2]
# Tests of the text of the tree, of the instructions of the release build, or of other builds. They do not test what the core does.
NOT_FOR_FAULTS = (r"^(bench|docs|glossary|format|hitpath|install|models|rooms|library|tool_|programs|public_header|coverage|faults|workflows|situation_overcommit_real"
                  r"|huge_pages$|learn$)")
# Tests that take more than a few seconds.
LONG = (r"^(osfail|soak|stress|joined_blocks|learn|cancelled|rlimit_as|vma_exhaust|address_space|fork_|spawn|signals|spike|beside|background|mappings"
        r"|abi_lattice|situation|thread_|many_threads|idle_threads|destructors|pool_fork|report_running|report_programs|probes|debug_ring|huge)")
STAGES = [  # name, targets, arguments of ctest
    ("last", [], []),
    ("near", [], []),
    ("unit", ["unit"], ["-R", "^unit_"]),
    ("fuzz", ["tests/fuzz/test_fuzz"], ["-R", "^fuzz$"]),
    ("short", ["all"], ["-L", "^quick$", "-LE", "programs", "-E", NOT_FOR_FAULTS + "|^unit_|" + LONG]),
    # This stage runs the short tests again, because a list of the other tests would be long.
    ("quick", ["all"], ["-L", "^quick$", "-LE", "programs", "-E", NOT_FOR_FAULTS + "|^unit_"]),
    ("full", ["all"], ["-R", "^(osfail_full|heap_profile|stress_[0-9]+|stress_hostile_.*|pool_fork_full|thread_spike_full|abi_lattice_full|checked_.*|fuzz_full)$"]),
]
LENIENT = ["-Wno-misleading-indentation", "-Wno-unused", "-Wno-unused-parameter", "-Wno-empty-body"]  # warnings about code that a fault leaves unused
MOST_MEMORY = 6 << 30  # bytes for all processes of a run, because a fault may take all memory
AGAIN = 3
LONGEST_BUILD, LONGEST_RUN = 3600, 3600  # seconds, after which the run is considered to hang
BEYOND = 60  # seconds after --minutes at which a run is ended


Fault = collections.namedtuple("Fault", "name what file old new found_by")


def faults():
    blocks = re.split(r"\n\s*\n", "\n".join(row for row in (HOME / "faults.txt").read_text().splitlines() if not row.startswith("#")))
    for block in filter(str.strip, blocks):
        head, file, *rows = block.strip("\n").split("\n")
        name, _, what = head.partition(": ")
        old, new, found_by = (" ".join(row[1:].strip() for row in rows if row.startswith(sign)) for sign in "-+=")
        yield Fault(name, what, file, old, new, found_by)


def pattern(old):
    return re.compile(r"\s*".join(re.escape(word) for word in old.split()))


def near(file):
    """Returns the unit tests that include the header of a file."""
    header = f'"{pathlib.Path(file).relative_to("src").with_suffix(".h")}"'
    return sorted(path.stem for path in (ROOT / "tests/unit").glob("*.c")
                  if (path.stem == pathlib.Path(file).stem or header in path.read_text()) and "int main" in path.read_text())


def stage_for(fault, stage, garden=None):
    """Returns the stage with the targets and tests for this fault. The list of tests is empty if the stage has none for it."""
    if stage[0] == "last":
        return stage[0], *garden.known(fault.found_by)
    if stage[0] != "near":
        return stage
    names = near(fault.file)
    return stage[0], [f"tests/unit/test_unit_{name}" for name in names], ["-R", f"^unit_({'|'.join(names)})$"] if names else []


def planted(fault, text):
    """Returns the file's text with the fault, or None if the old text is not in the file exactly once."""
    found = pattern(fault.old).findall(text)
    return pattern(fault.old).sub(lambda _: fault.new, text) if len(found) == 1 and fault.old and fault.old != fault.new else None


def check(table):
    """Yields the complaints about the table."""
    names = collections.Counter(fault.name for fault in table)
    for fault in table:
        path = ROOT / fault.file
        if names[fault.name] > 1:
            yield f"{fault.name}: there are two of that name"
        if not path.is_file():
            yield f"{fault.name}: there is no {fault.file}"
        elif planted(fault, path.read_text()) is None:
            count = len(pattern(fault.old).findall(path.read_text()))
            yield f"{fault.name}: its text is {count} times in {fault.file}, not once: bring faults.txt up to date"


class NoTime(Exception):
    """A build or a run did not end in time, so the result for the fault is unknown."""


class Garden:
    """A copy of the tree with its build and its tests."""

    def __init__(self, folder, jobs, until=None):
        self.tree, self.build, self.jobs, self.until = folder / "tree", folder / "tree" / "build", jobs, until
        self.copy()
        self.run(["cmake", "--preset", "release", "-DHAKMEM_BENCH=OFF", f"-DCMAKE_C_FLAGS={' '.join(LENIENT)}"], LONGEST_BUILD)
        targets = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
        self.units = sorted(set(re.findall(r"^(tests/\w+/test_unit_\w+):", targets, re.M)))
        self.targets = set(re.findall(r"^(\S+):", targets, re.M))

    def copy(self):
        """Copies the files that git knows, with the changes of the working tree. A changed file gets a new time, so that it is compiled again. Deletes
        files of an earlier copy that git no longer knows, because the build would compile them too."""
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                               check=True).stdout.decode().split("\0")
        for old in [old for old in self.tree.rglob("*") if not old.is_relative_to(self.build) and not old.is_dir()]:
            if not (ROOT / old.relative_to(self.tree)).is_file():
                old.unlink()
        for name in filter(None, names):
            source, target = ROOT / name, self.tree / name
            if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)
            shutil.copymode(source, target, follow_symlinks=False)

    def run(self, command, seconds):
        """Runs a command and returns its exit code, or 137 if memory ran out. Raises NoTime. Ends all processes that the command started."""
        process = subprocess.Popen(command, cwd=self.tree, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        end, code = min(time.monotonic() + seconds, float("inf") if self.until is None else self.until), None
        while code is None:
            try:
                code = process.wait(0.5)
            except subprocess.TimeoutExpired:
                if time.monotonic() > end or memory_of(process.pid) > MOST_MEMORY:
                    code = 124 if time.monotonic() > end else 137
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if code == 124:
            raise NoTime(f"{command[0]} took too long")
        return code

    def known(self, test):
        """Returns the targets that the command of a test names, and the arguments of ctest that run it. Both are empty if the test does not exist."""
        declared = re.compile(rf"^add_test\(\[=\[{re.escape(test)}\]=\] (.*)\)$", re.M)
        found = [line for path in self.build.rglob("CTestTestfile.cmake") for line in declared.findall(path.read_text())]
        words = [word.removeprefix(f"{self.build}/") for line in found for word in re.findall(r'"([^"]*)"', line)]
        targets = [word for word in words if word in self.targets] + [f"{word}/all" for word in words if f"{word}/all" in self.targets]
        return (["libhakmem.so", *targets], ["-R", f"^{re.escape(test)}$"]) if targets else ([], [])

    def compile(self, targets):
        wanted = self.units if targets == ["unit"] else targets
        return self.run(["ninja", "-C", str(self.build), "-j", str(self.jobs), *wanted], LONGEST_BUILD) == 0

    def test(self, arguments, but=()):
        """Returns the names of the first tests that failed. ctest does not run the tests after the first failure."""
        log = self.build / "Testing" / "Temporary" / "LastTestsFailed.log"
        log.unlink(missing_ok=True)
        if but:
            at = arguments.index("-E") + 1 if "-E" in arguments else None
            more = "^(" + "|".join(map(re.escape, but)) + ")$"
            arguments = [*arguments, "-E", more] if at is None else [*arguments[:at], f"{arguments[at]}|{more}", *arguments[at + 1:]]
        code = self.run(["ctest", "--test-dir", str(self.build), "-j", str(self.jobs), "--timeout", "120", "--stop-on-failure",
                         "--no-tests=error", *arguments], LONGEST_RUN)
        if code == 0:
            return []
        names = [row.split(":", 1)[1] for row in log.read_text().split()] if log.is_file() else []
        return names or ["all memory taken" if code == 137 else "no test that ended"]

    def finds(self, stage):
        """Returns the test of a stage that finds the fault, or None, and the tests that failed only once."""
        _, _, arguments = stage
        once = []
        while True:
            failed = self.test(arguments, once)
            if not failed:
                return None, once
            for name in failed:
                if " " in name or any(self.test(["-R", f"^{re.escape(name)}$"]) for _ in range(AGAIN)):
                    return name, once
            once += failed


def memory_of(session):
    """Returns the resident bytes of the processes of a session."""
    pages = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pages += int(fields[21]) if int(fields[3]) == session else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def plant(garden, fault, stages):
    """Plants a fault, runs the stages, and returns the result."""
    path = garden.tree / fault.file
    sound = path.read_text()
    path.write_text(planted(fault, sound))
    started, result = time.monotonic(), {"name": fault.name, "what": fault.what, "file": fault.file, "found_by": None, "stage": None, "once": []}
    try:
        for stage in (stage_for(fault, stage, garden) for stage in stages):
            if not stage[2]:
                continue
            if not garden.compile(stage[1]):
                result["error"] = "does not compile"
                break
            result["found_by"], more = garden.finds(stage)
            result["once"] += more
            if result["found_by"]:
                result["stage"] = stage[0]
                break
    except NoTime as why:
        result["undecided"] = str(why)
    finally:
        path.write_text(sound)
    return {**result, "seconds": round(time.monotonic() - started)}


def plant_surely(garden, fault, stages):
    """Does the same for a fault that the tests are known to find: it counts as missed only if every try misses it."""
    for _ in range(AGAIN):
        result = plant(garden, fault, stages)
        if any(result.get(key) for key in ("found_by", "error", "undecided")):
            break
    return result


def note(files):
    """Writes into faults.txt which test finds each fault."""
    found = {row["name"]: row["found_by"] for file in files for row in json.loads(file.read_text()) if row["found_by"]}
    path = HOME / "faults.txt"
    blocks = re.split(r"\n\s*\n", path.read_text().rstrip("\n"))
    for i, block in enumerate(blocks):
        name = block.partition(":")[0]
        if name in found:
            blocks[i] = re.sub(r"\n= .*", "", block) + f"\n= {found[name]}"
    path.write_text("\n\n".join(blocks) + "\n")


def sure(table, known):
    """Returns the faults that a unit test found last. CI can find these in seconds, and it must not fail because of known misses."""
    return [fault for fault in table if fault.found_by.startswith("unit_") and fault.name not in known]


def chosen(table, seed):
    """Returns the faults in an order that the seed chooses."""
    return sorted(table, key=lambda fault: hashlib.sha256(f"{seed}:{fault.name}".encode()).hexdigest())


def known_misses():
    rows = [row for row in (HOME / "missed.txt").read_text().splitlines() if row.strip() and not row.startswith("#")]
    return dict(map(str.strip, row.split(":", 1)) for row in rows)


def told(results, known):
    """Prints the results and returns a list of what is wrong."""
    wrong = [f"{row['name']}: {row['error']}" for row in results if row.get("error")]
    undecided = [row for row in results if row.get("undecided")]
    missed = [row for row in results if not row["found_by"] and not row.get("error") and not row.get("undecided")]
    wrong += [f"missed: {row['name']}: {row['what']} ({row['file']})" for row in missed if row["name"] not in known]
    wrong += [f"{row['name']}: {row['found_by']} finds it: take it out of missed.txt" for row in results if row["found_by"] and row["name"] in known]
    found, decided = sum(bool(row["found_by"]) for row in results), len(results) - len(undecided)
    print(f"\nfaults: {decided} planted, {found} found ({100 * found / max(1, decided):.1f} %), {len(missed)} missed")
    for row in undecided:
        print(f"undecided: {row['name']}: {row['undecided']}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--note", type=pathlib.Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed")
    parser.add_argument("--stages", default="")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-faults")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", os.cpu_count())))
    args = parser.parse_args()
    started, table = time.monotonic(), list(faults())
    wrong = list(check(table))
    if args.note and not wrong:
        return note(args.note)
    if args.check:
        known = {fault.name for fault in table if fault.found_by} | known_misses().keys()
        wrong += [f"{name}: in one of faults.txt, with the test that finds it, and missed.txt" for name in {fault.name for fault in table} ^ known]
    if args.check or wrong:
        print(*wrong, f"{len(table)} faults", sep="\n")
        return 1 if wrong else 0
    if args.only:
        table = [fault for fault in table if fault.name in args.only.split(",")]
    if args.seed:
        table = chosen(table, args.seed)
    stages = [stage for stage in STAGES if not args.stages or stage[0] in args.stages.split(",")]
    if args.minutes:
        table, stages = sure(table, known_misses()), STAGES[1:3]
    folder = args.folder.resolve()
    until = started + args.minutes * 60 if args.minutes else float("inf")
    results = {}
    try:
        garden = Garden(folder, args.jobs, until + BEYOND)
        for stage in [stage for stage in stages if stage[2]][:1 if args.minutes else None]:
            found = "the build" if not garden.compile(stage[1]) else garden.finds(stage)[0]
            if found:
                sys.exit(f"faults: {found} fails without a fault")
    except NoTime as why:
        print(f"{why} without a fault: none is planted")
        table = []
    # All faults run through the cheap tests first. Then the faults that are left run through the expensive tests. If the time is limited, each fault
    # runs through all stages before the next one.
    rounds = [stages] if args.minutes else [[stage] for stage in stages]
    for round_of_stages in rounds:
        for fault in table:
            if time.monotonic() > until:
                break
            before = results.get(fault.name, {"found_by": None, "seconds": 0, "once": []})
            if before["found_by"] or "error" in before:
                continue
            row = results[fault.name] = (plant_surely if args.minutes else plant)(garden, fault, round_of_stages)
            row["seconds"] += before["seconds"]
            row["once"] = before["once"] + row["once"]
            if before.get("undecided") and not row["found_by"]:
                row.setdefault("undecided", before["undecided"])
            end = "MISSED" if round_of_stages is rounds[-1] else "..."
            print(f"{fault.name:28} {row.get('error') or row['found_by'] or row.get('undecided') or end:32} {row['seconds']:4} s", *row["once"], flush=True)
            (folder / "results.json").write_text(json.dumps(list(results.values()), indent=1))
    results = list(results.values())
    wrong = told(results, known_misses())
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
