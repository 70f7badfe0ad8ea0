"""Checks the learner from outside, on real programs. Their time passes only in sleeps (CLOCK), so that a turn of the work lasts as long
on each machine.

test_learn.py LIBHAKMEM.SO HAKMEM-REPLAY CLOCK
"""
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, REPLAY, CLOCK = sys.argv[1:4]
ROOT = Path(__file__).resolve().parents[3]
KNOBS = re.compile(r"HK_OPT\(NUMBER, (\w+), (\d+), \d+, \d+, policy,")

PR_SET_THP_DISABLE = 41
TURNS = 12
# A program whose work changes. It builds data, drops it, pauses for 50 ms, and builds again, `turns` times.
SHIFTS = """
import ctypes
rest = ctypes.CDLL(None).usleep
for _ in range({turns}):
    tree = [[b"x" * (n % 700) for n in range(2000)] for _ in range(40)]
    buffers = [bytearray((1 << 20) + n * 70000) for n in range(12)]
    del tree, buffers
    rest(50000)
"""
# A program that holds `held` MiB, and allocates and frees `turned` MiB more, in blocks of one size after another, with 25 ms between them.
# It prints its largest RSS in MiB. Free memory of the earlier sizes adds up, because hardly any of it fits the next size.
TURNS_OVER = """
import ctypes
rest = ctypes.CDLL(None).usleep
held = [bytes(1000) for _ in range({held} << 10)]
largest = 0
for _ in range({turns}):
    for size in (300, 5000, 90000, 700000, 3000000):
        turned = [bytes(size) for _ in range(({turned} << 20) // size)]
        with open("/proc/self/statm") as statm:
            largest = max(largest, int(statm.read().split()[1]))
        del turned
        rest(25000)
print(largest * 4096 / (1 << 20))
"""

# Allocates 300 blocks of 500 KB and frees all of them, in each of `rounds` rounds. Then does the same with small blocks, in `others` rounds.
ROTATION = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
for rounds, count, size in (({rounds}, 300, 500000), ({others}, 3000, 2000)):
    for _ in range(rounds):
        for block in [libc.malloc(size) for _ in range(count)]:
            libc.free(block)
        libc.usleep(15000)
"""


def forbid_huge_pages() -> None:
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def run(program: str, begin=forbid_huge_pages, **options: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    env |= {"LD_PRELOAD": f"{LIBRARY}:{CLOCK}", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    env |= {f"HAKMEM_{name.upper()}": value for name, value in options.items()}
    return subprocess.run([sys.executable, "-c", program], env=env, preexec_fn=begin, capture_output=True, text=True, timeout=500)


class Learned(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        files = {name: str(cls.folder / name) for name in ("explain", "learn_trace", "profile_save")}
        cls.done = run(SHIFTS.format(turns=60), **files)
        cls.decisions = [json.loads(line) for line in (cls.folder / "explain").read_text().splitlines()]

    def test_it_ran(self) -> None:
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        self.assertGreater(len((self.folder / "learn_trace").read_text().splitlines()), 5)

    def test_logs_that_cannot_be_written(self) -> None:
        done = run(SHIFTS.format(turns=20), explain="/no/such/folder/x", learn_trace="/no/such/folder/y")
        said = [f'hakmem: option {option}: "/no/such/folder/{name}" cannot be written: no such file or folder\n' for option, name in (("explain", "x"), ("learn_trace", "y"))]
        self.assertEqual((done.returncode, done.stderr), (0, "".join(said)))

    def test_each_decision_says_what_was_seen_and_why(self) -> None:
        self.assertTrue(self.decisions)
        for decision in self.decisions:
            keys = set(decision) - {"thread", "class"}
            self.assertEqual(keys, {"ms", "who", "what", "old", "new", "unit", "seen", "why"})
            self.assertTrue(decision["seen"] and decision["why"])

    def test_a_grown_bin_says_how_often_it_ran_empty_or_full(self) -> None:
        """By default, a bin grows whenever it runs empty or full. A bin that is dropped did neither since the last epoch."""
        grown = [decision for decision in self.decisions if "ran empty or full" in decision["why"] and decision["old"] > 0]
        self.assertTrue([decision for decision in grown if decision["seen"]["turns"] > 1])
        self.assertEqual([decision for decision in grown if decision["seen"]["turns"] < 1], [])

    def test_a_trace_gives_the_same_decisions(self) -> None:
        again = subprocess.run([REPLAY, str(self.folder / "learn_trace")], capture_output=True, text=True, check=True)
        learned = [decision for decision in self.decisions if "thread" not in decision]
        self.assertEqual([json.loads(line) for line in again.stdout.splitlines()], learned)
        self.assertTrue(learned)

    def test_no_knob_moves_without_a_decision(self) -> None:
        """Follows each knob from its default through each decision to the saved profile."""
        knobs = {name: int(value) for name, value in KNOBS.findall((ROOT / "src/policy/options.def").read_text())}
        for decision in self.decisions:
            if decision["what"] in knobs and decision["who"] != "class":
                self.assertEqual(knobs[decision["what"]], decision["old"])
                knobs[decision["what"]] = decision["new"]
        saved = re.findall(r"^(\w+) = (\d+) #", (self.folder / "profile_save").read_text(), re.MULTILINE)
        self.assertEqual({name: int(value) for name, value in saved}, knobs)

    def test_the_depot_follows_the_blocks_in_rotation_and_gives_them_back(self) -> None:
        """The full depot of 8 MiB serves nearly none of the 150 MB. After 10 ticks, most refills are hits. Other work ages the depot."""
        for others, kept in ((0, range(100 << 20, 151 << 20)), (80, range(1 << 20))):
            files = {name: str(self.folder / f"{name}{others}.json") for name in ("explain", "learn_trace", "report")}
            self.assertEqual(run(ROTATION.format(rounds=140, others=others), **files).stderr, "")
            grown = [json.loads(line) for line in Path(files["explain"]).read_text().splitlines() if "the full depot refused" in line]
            self.assertGreaterEqual(grown[-1]["new"], 128 << 20)
            self.assertLess(grown[-1]["ms"], 11 * 152)
            ticks = [[int(word) for word in line.split()[-3:]] for line in Path(files["learn_trace"]).read_text().splitlines()[1:]]
            reused, refilled = (sum(tick[column] for tick in ticks[11:13]) for column in (0, 1))
            self.assertGreater(reused, 3 * refilled)
            medium = next(row for row in json.loads(Path(files["report"]).read_text())["classes"] if row["size"] == 512 << 10)
            self.assertIn(medium["in_depots"], kept)

    def test_bins_begin_as_large_as_they_became(self) -> None:
        """The capacities that bins reached in the first run are those of the second run from the start."""
        explain = self.folder / "explain_again"
        done = run(SHIFTS.format(turns=60), profile=str(self.folder / "profile_save"), explain=str(explain))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        again = [json.loads(line) for line in explain.read_text().splitlines()]
        before, after = (sum(1 for decision in run if decision["what"] == "capacity" and decision["new"] > decision["old"] > 0) for run in (self.decisions, again))
        self.assertGreater(before, 20)
        self.assertLess(after * 4, before)

    def test_what_was_saved_is_where_the_next_run_begins(self) -> None:
        report = self.folder / "report.json"
        done = run("pass", profile=str(self.folder / "profile_save"), learn="frozen", report=str(report))
        self.assertEqual(done.stderr, "")
        options = json.loads(report.read_text())["options"]
        for name, value in re.findall(r"^(\w+) = (\d+) #", (self.folder / "profile_save").read_text(), re.MULTILINE):
            self.assertEqual(options[name], int(value))

    def test_a_trace_of_another_kind_is_refused(self) -> None:
        for text in ("", "tick 1 2 3", "options 1 2", "options " + "1 " * 60 + "\nnonsense"):
            trace = self.folder / "bad"
            trace.write_text(text)
            self.assertEqual(subprocess.run([REPLAY, str(trace)], capture_output=True).returncode, 2)


class Group:
    """A control group of its own, with a limit of `mib` MiB. There is none if the system does not allow it."""

    FILES = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.failcnt"), ("/sys/fs/cgroup", "memory.max", "memory.events"))

    def __init__(self, folder: Path, refusals: str) -> None:
        self.folder, self.refusals = folder, refusals

    @classmethod
    def made(cls, mib: int) -> "Group | None":
        for root, limit, refusals in cls.FILES:
            cls.sweep(Path(root))
            folder = Path(root) / f"hakmem-test-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                (folder / limit).write_text(str(mib << 20))
                return cls(folder, refusals)
            except OSError:
                folder.rmdir()
        return None

    @staticmethod
    def sweep(root: Path) -> None:
        """Removes groups of tests that were killed."""
        for left in root.glob("hakmem-test-*"):
            if not Path("/proc", left.name.rpartition("-")[2]).exists():
                with contextlib.suppress(OSError):
                    left.rmdir()

    def enter(self) -> None:
        forbid_huge_pages()
        (self.folder / "cgroup.procs").write_text("0")

    def refused(self) -> int:
        """Returns how often the limit was hit."""
        text = (self.folder / self.refusals).read_text()
        return int(text) if text.strip().isdigit() else int(re.search(r"^max (\d+)", text, re.MULTILINE)[1])


class Kept(unittest.TestCase):
    def test_a_control_group(self) -> None:
        """A program that fits into its group's limit, but allocates and frees as much again, must not be killed, and must need no option for it."""
        group = Group.made(120)
        if group is None:
            self.skipTest("no control group can be made here")
        self.addCleanup(group.folder.rmdir)
        done = run(TURNS_OVER.format(held=55, turned=14, turns=TURNS), begin=group.enter)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(group.refused(), 0)
        self.assertLessEqual(float(done.stdout), 120)

    def test_goals(self) -> None:
        """RSS must stay within a tenth of the goal, and the program must not fail. Without a goal, RSS must exceed the lower goal."""
        program = TURNS_OVER.format(held=40, turned=24, turns=TURNS)
        without = float(run(program).stdout)
        for goal in (95, 105):
            done = run(program, goal=f"{goal}m")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertLessEqual(float(done.stdout), goal * 1.1)
        self.assertGreater(without, 105)

    def test_a_limit_gives_memory_errors(self) -> None:
        done = run("held = []\ntry:\n    while True: held.append(bytes(100000))\nexcept MemoryError:\n    n = len(held); held = None\n"
                   "print(n); print(len([bytes(1000) for _ in range(20000)]))", limit="64m", oom_report="0")
        blocks, after = map(int, done.stdout.split())
        self.assertEqual((done.returncode, done.stderr, after), (0, "", 20000))
        self.assertGreater(blocks * 100000, 40 << 20)
        self.assertLess(blocks * 100000, 64 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
