#!/usr/bin/env python3
"""Plants the faults of faults.txt in a copy of the tree, one at a time, and sees which test finds it.

  plant.py                     all faults, with all stages of tests (make faults)
  plant.py --minutes 4 --seed COMMIT    as many as fit, chosen by the seed, of those that a unit test found last; by unit tests only.
                             What does not fit, as on a slow machine, is left out: only a test that ran to its end can miss a fault
  plant.py --only NAME,NAME    these
  plant.py --check             only that each fault can be planted: its text is once in its file
  plant.py --table FILE...     writes the table of docs/PROOFS.md from the results.json of runs; a later one goes before

A fault is found if a test fails, and fails again in one of three more runs. The test that found it last runs first (docs/PROOFS.md names
it). Then the tests run from cheap to dear: the unit tests that include the file's header, all unit tests, the fuzzing cases, the quick tests that take no seconds, all quick tests, and those of label full that
could see more; --stages limits them. Fails if a fault cannot be planted, does not compile, or is missed, unless it is listed in missed.txt
with the reason. A fault for which the time was too short is undecided: neither found nor missed."""
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
# What is about the text of the tree, the instructions of the release build or other builds, and not about what the core does.
NOT_FOR_FAULTS = (r"^(bench|docs|glossary|format|hitpath|install|models|rooms|library|tool_|programs|public_header|coverage|faults|workflows|situation_overcommit_real"
                  r"|huge_pages$|learn$)")
# More than seconds.
LONG = (r"^(osfail|soak|stress|joined_blocks|learn|cancelled|rlimit_as|vma_exhaust|address_space|fork_|spawn|signals|spike|beside|background|mappings"
        r"|abi_lattice|situation|thread_|many_threads|idle_threads|destructors|pool_fork|report_running|report_programs|probes|debug_ring|huge)")
STAGES = [  # name, targets, arguments of ctest
    ("last", [], []),
    ("near", [], []),
    ("unit", ["unit"], ["-R", "^unit_"]),
    ("fuzz", ["tests/fuzz/test_fuzz"], ["-R", "^fuzz$"]),
    ("short", ["all"], ["-L", "^quick$", "-LE", "programs", "-E", NOT_FOR_FAULTS + "|^unit_|" + LONG]),
    ("quick", ["all"], ["-L", "^quick$", "-LE", "programs", "-E", NOT_FOR_FAULTS + "|^unit_"]),  # the short ones again: the list of the others would be long
    ("full", ["all"], ["-R", "^(osfail_full|heap_profile|stress_[0-9]+|stress_hostile_.*|pool_fork_full|thread_spike_full|abi_lattice_full|checked_.*|fuzz_full)$"]),
]
LENIENT = ["-Wno-misleading-indentation", "-Wno-unused", "-Wno-unused-parameter", "-Wno-empty-body"]  # of what a fault leaves behind
MOST_MEMORY = 6 << 30  # of all processes of a run: a fault may take all that there is
AGAIN = 3
LONGEST_BUILD, LONGEST_RUN = 3600, 3600  # seconds: of a machine that does nothing any more
BEYOND = 60  # seconds beyond --minutes after which what runs is left


Fault = collections.namedtuple("Fault", "name what file old new")


def faults():
    blocks = re.split(r"\n\s*\n", "\n".join(row for row in (HOME / "faults.txt").read_text().splitlines() if not row.startswith("#")))
    for block in filter(str.strip, blocks):
        head, file, *rows = block.strip("\n").split("\n")
        name, _, what = head.partition(": ")
        old = " ".join(row[1:].strip() for row in rows if row.startswith("-"))
        new = " ".join(row[1:].strip() for row in rows if row.startswith("+"))
        yield Fault(name, what, file, old, new)


def pattern(old):
    return re.compile(r"\s*".join(re.escape(word) for word in old.split()))


def near(file):
    """The unit tests that include the header of a file."""
    header = f'"{pathlib.Path(file).relative_to("src").with_suffix(".h")}"'
    return sorted(path.stem for path in (ROOT / "tests/unit").glob("*.c")
                  if (path.stem == pathlib.Path(file).stem or header in path.read_text()) and "int main" in path.read_text())


def stage_for(fault, stage, garden=None):
    """Names the targets and tests of the stage that depend on the fault. No tests: the stage has none for it."""
    if stage[0] == "last":
        return stage[0], *garden.known(tabled().get(fault.name, ""))
    if stage[0] != "near":
        return stage
    names = near(fault.file)
    return stage[0], [f"tests/unit/test_unit_{name}" for name in names], ["-R", f"^unit_({'|'.join(names)})$"] if names else []


def planted(fault, text):
    """The file's text with the fault; None if it does not fit exactly once."""
    found = pattern(fault.old).findall(text)
    return pattern(fault.old).sub(lambda _: fault.new, text) if len(found) == 1 and fault.old and fault.old != fault.new else None


def check(table):
    """Complaints about the table."""
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
    """A build or a run did not come to its end: nothing is known of the fault."""


class Garden:
    """A copy of the tree, its build, and the tests."""

    def __init__(self, folder, jobs, until=None):
        self.tree, self.build, self.jobs, self.until = folder / "tree", folder / "tree" / "build", jobs, until
        self.copy()
        self.run(["cmake", "--preset", "release", "-DHAKMEM_BENCH=OFF", f"-DCMAKE_C_FLAGS={' '.join(LENIENT)}"], LONGEST_BUILD)
        targets = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
        self.units = sorted(set(re.findall(r"^(tests/\w+/test_unit_\w+):", targets, re.M)))
        self.targets = set(re.findall(r"^(\S+):", targets, re.M))

    def copy(self):
        """What git knows, with the changes of the working tree. A file that differs gets a new time: what was compiled from it goes."""
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                               check=True).stdout.decode().split("\0")
        for name in filter(None, names):
            source, target = ROOT / name, self.tree / name
            if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)
            shutil.copymode(source, target, follow_symlinks=False)

    def run(self, command, seconds):
        """Exit code; 137 where memory ran out. Raises NoTime. All processes that it started are gone afterwards."""
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
        """The targets that the command of a test names, and the arguments of ctest that run it. Neither if there is no such test."""
        declared = re.compile(rf"^add_test\(\[=\[{re.escape(test)}\]=\] (.*)\)$", re.M)
        found = [line for path in self.build.rglob("CTestTestfile.cmake") for line in declared.findall(path.read_text())]
        words = [word.removeprefix(f"{self.build}/") for line in found for word in re.findall(r'"([^"]*)"', line)]
        targets = [word for word in words if word in self.targets] + [f"{word}/all" for word in words if f"{word}/all" in self.targets]
        return (["libhakmem.so", *targets], ["-R", f"^{re.escape(test)}$"]) if targets else ([], [])

    def compile(self, targets):
        wanted = self.units if targets == ["unit"] else targets
        return self.run(["ninja", "-C", str(self.build), "-j", str(self.jobs), *wanted], LONGEST_BUILD) == 0

    def test(self, arguments, but=()):
        """Names of the tests that failed: the first ones; the others do not run any more."""
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
        """The test of a stage that finds the fault; None if none does. Those that failed but once are told."""
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
    """Resident bytes of the processes of a session."""
    pages = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pages += int(fields[21]) if int(fields[3]) == session else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def plant(garden, fault, stages):
    """What became of a fault."""
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
    """The same, where the tests are known to find the fault: a miss is one if it comes each time."""
    for _ in range(AGAIN):
        result = plant(garden, fault, stages)
        if any(result.get(key) for key in ("found_by", "error", "undecided")):
            break
    return result


PROOFS = "docs/PROOFS.md"
TABLE = re.compile(r"(?<=<!-- faults -->\n).*?(?=<!-- end of faults -->)", re.S)


def write_table(table, files):
    """The table of the document: each fault, and the test that found it."""
    results = {row["name"]: row for file in files for row in json.loads(file.read_text())}
    missed = known_misses()
    rows = ["| fault | of | found by |", "|---|---|---|"]
    for fault in table:
        found = results.get(fault.name, {}).get("found_by") or (f"missed: {missed[fault.name]}" if fault.name in missed else "")
        if not found:
            sys.exit(f"faults: no result for {fault.name}")
        rows.append(f"| {fault.name}: {fault.what} | {fault.file.removeprefix('src/')} | {found} |")
    path = ROOT / PROOFS
    path.write_text(TABLE.sub(lambda _: "\n" + "\n".join(rows) + "\n\n", path.read_text()))


def tabled():
    """name -> the test that found the fault, as the document's table says."""
    return dict(re.findall(r"^\| ([a-z-]+): .* \| ([^|]*) \|$", "".join(TABLE.findall((ROOT / PROOFS).read_text())), re.M))


def sure(table, found_by, known):
    """Those that a unit test found last: CI can tell in seconds, and is not to fail for what is known to be missed."""
    return [fault for fault in table if found_by.get(fault.name, "").startswith("unit_") and fault.name not in known]


def chosen(table, seed):
    """In an order that the seed chooses."""
    return sorted(table, key=lambda fault: hashlib.sha256(f"{seed}:{fault.name}".encode()).hexdigest())


def known_misses():
    rows = [row for row in (HOME / "missed.txt").read_text().splitlines() if row.strip() and not row.startswith("#")]
    return dict(map(str.strip, row.split(":", 1)) for row in rows)


def told(results, known):
    """Prints the results; returns what is wrong."""
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
    parser.add_argument("--table", type=pathlib.Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed")
    parser.add_argument("--stages", default="")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-faults")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", os.cpu_count())))
    args = parser.parse_args()
    started, table = time.monotonic(), list(faults())
    wrong = list(check(table))
    if args.table and not wrong:
        return write_table(table, args.table)
    if args.check:
        wrong += [f"{name}: in one of faults.txt and {PROOFS}, not in both" for name in {fault.name for fault in table} ^ tabled().keys()]
    if args.check or wrong:
        print(*wrong, f"{len(table)} faults", sep="\n")
        return 1 if wrong else 0
    if args.only:
        table = [fault for fault in table if fault.name in args.only.split(",")]
    if args.seed:
        table = chosen(table, args.seed)
    stages = [stage for stage in STAGES if not args.stages or stage[0] in args.stages.split(",")]
    if args.minutes:
        table, stages = sure(table, tabled(), known_misses()), STAGES[1:3]
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
    # All faults through the cheap tests first, then those that are left through the dear ones; in a limited time, fault by fault.
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
