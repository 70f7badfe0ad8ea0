"""Checks hakmem record and hakmem replay: one command records a program and compares allocators. Also checks what they refuse."""

import io
import json
import os
import unittest
from pathlib import Path

from rich.console import Console

from hakmem import allocators, replay, run
from hakmem.trouble import Trouble
from tool import LIBRARY, PLAIN, PYTHON, STATIC, ToolTest

ROUNDS = ("--rounds", "5")
SAID = {"allocs": {"malloc": 10}, "frees": 9, "reallocs": 1, "bytes": 500, "peak_rss_kib": 3000, "file_rss_kib": 1000,
        "first_anon_kib": 500, "faults": 70, "sample": 1, "threads": 1, "peak_bytes": 400, "program": "/bin/p", "pid": 7, "cut": False,
        "unknown": 0}


def made_run(cpu: float, heap: float = 1000, **more: object) -> dict:
    return {"malloc_from": "/lib/libc.so.6", "allocs": 10, "frees": 9, "reallocs": 1, "bytes": 500, "failed": 0, "wrong": 0,
            "cpu_us": cpu, "heap_kib": heap, "faults": 50} | more


class Whole(ToolTest):
    def record(self, *words: str) -> None:
        done = self.tool("record", *words, "--", PLAIN, "20000")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_program_is_compared_in_two_commands(self) -> None:
        self.record()
        names = ("glibc", "hakmem", "hakmem-compact")
        words = [word for name in names for word in ("-a", name)]
        said = self.ok("replay", "hakmem-recording", *ROUNDS, "--json", "o.json", *words)
        for name in names:
            self.assertRegex(said, rf"(?m)^{name} +\d\.\d+ s")
        self.assertRegex(said, r"hakmem +\d.* s +\d\.\d\d \(\d\.\d\d–\d")
        self.assertRegex(said, r"Least CPU time: \S+.*\.")
        self.assertRegex(said, r"Least memory: \S+.*\.")
        document = json.loads((self.folder / "o.json").read_text())
        self.assertEqual(set(document["runs"]), {*names, replay.ALONE.name})
        self.assertEqual({len(runs) for runs in document["runs"].values()}, {5})
        self.assertEqual(document["refused"], {})
        for name, runs in document["runs"].items():
            if name != replay.ALONE.name:
                self.assertEqual(runs[0]["bytes"], document["recorded"]["bytes"])

    def test_the_largest_of_a_folder_and_a_sample(self) -> None:
        done = self.tool("record", "-o", "two", "--sample", "4", "--", "sh", "-c", f"{PLAIN} 10; {PLAIN} 1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(list((self.folder / "two").iterdir())), 2)
        said = self.ok("replay", "two", *ROUNDS, "-a", "glibc")
        self.assertIn(os.path.realpath(PLAIN), said)
        self.assertIn("one block in 4 recorded", said)

    def test_its_exit_code_is_the_programs(self) -> None:
        done = self.tool("record", "--", PYTHON, "-I", "-S", "-c", "raise SystemExit(7)")
        self.assertEqual(done.returncode, 7)
        self.assertEqual(os.stat(self.folder / "hakmem-recording").st_mode & 0o777, 0o700)

    def test_what_is_refused(self) -> None:
        self.refused(127, "no such program", "record", "--", "no-such-program-here")
        self.refused(64, "one block in 1 (all) to 65536", "record", "--sample", "0", "--", PLAIN)
        self.assertIn("will not be recorded: it is statically linked", self.tool("record", "-o", "s", "--", STATIC).stderr)
        self.refused(66, "no recordings (.hkrec) in this folder", "replay", "s")
        self.refused(66, "No such file", "replay", "gone")
        self.record()
        self.refused(64, "holds recordings already", "record", "--", PLAIN)
        self.refused(64, "none of that name is installed; here are glibc, hakmem,", "replay", "hakmem-recording", "-a", "nothing")
        self.refused(66, "not a library that defines malloc", "replay", "hakmem-recording", "-a", PLAIN)
        self.assertEqual(self.tool("replay", "hakmem-recording", "--rounds", "3").returncode, 2)

    def test_a_wrong_recording_is_seen(self) -> None:
        self.record()
        path = next((self.folder / "hakmem-recording").iterdir())
        data = path.read_bytes()
        path.write_bytes(data[:-100])
        self.refused(66, "cut off", "replay", "hakmem-recording", *ROUNDS)
        in_the_first_chunk = (64 << 10) + 104  # behind the head of the file
        path.write_bytes(data[:in_the_first_chunk] + bytes([data[in_the_first_chunk] ^ 64]) + data[in_the_first_chunk + 1:])
        self.refused(66, "", "replay", "hakmem-recording", *ROUNDS)


class Judging(unittest.TestCase):
    """Tests the judgment with invented figures."""

    def test_a_run_that_is_no_measurement(self) -> None:
        glibc = allocators.Allocator("glibc", None)
        self.assertEqual(replay.fault_of(glibc, made_run(1), SAID), "")
        for more, why in (({"malloc_from": LIBRARY}, "malloc came from"), ({"wrong": 2}, "2 blocks overlapped"), ({"failed": 1}, "refused 1"),
                          ({"bytes": 499}, "played 499 bytes of 500"), ({"frees": 8}, "played 8 frees of 9")):
            self.assertIn(why, replay.fault_of(glibc, made_run(1) | more, SAID))
        self.assertEqual(replay.fault_of(replay.ALONE, made_run(1, bytes=0), SAID), "")

    def shown(self, width: int = 120) -> str:
        members = [allocators.Allocator(name, None) for name in ("glibc", "fast", "lean", "gone")]
        contest = replay.Contest(members, replay.FIGURES, refused={"gone": "it ended with code 1"})
        for number in range(7):
            contest.runs.setdefault("glibc", []).append(made_run(200_000 + number))
            contest.runs.setdefault("fast", []).append(made_run(100_000 + number, heap=1500))
            contest.runs.setdefault("lean", []).append(made_run(190_000 + number, heap=800))
            contest.runs.setdefault(replay.ALONE.name, []).append(made_run(20_000))
        console = Console(file=io.StringIO(), width=width)
        replay.show(contest, SAID, 7, console)
        return console.file.getvalue()

    def test_the_best_are_named(self) -> None:
        said = self.shown()
        self.assertIn("left out: gone: it ended with code 1", said)
        self.assertIn("Least CPU time: fast, 0.50 (0.50–0.50) of glibc's.", said)
        self.assertIn("Least memory: lean, 0.80 (0.80–0.80) of glibc's.", said)
        self.assertRegex(said, r"(?m)^\(as recorded\) +1\.5 MiB *$")
        self.assertNotIn("short", said)

    def test_it_fits_a_terminal(self) -> None:
        for line in self.shown(80).splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertNotIn("…", self.shown(80))


class Allocators(ToolTest):
    def test_what_is_installed_is_found_by_its_file(self) -> None:
        place = self.folder / "x86_64-linux-gnu"
        place.mkdir()
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal_debug.so.4", "libother.so", "libmimalloc.so.2.0"):
            (place / name).symlink_to(LIBRARY)
        (place / "libsnmallocshim.so").write_text("no library")
        found = allocators.installed((str(self.folder),))
        self.assertEqual([one.name for one in found], ["jemalloc", "mimalloc"])

    def test_names_and_paths(self) -> None:
        library = Path(LIBRARY)
        one, two = allocators.named(["hakmem-compact", LIBRARY], library, ())
        self.assertEqual(one.environment("other.so"), {"HAKMEM_PROFILE": "compact", "LD_PRELOAD": f"{LIBRARY}:other.so"})
        self.assertEqual((two.name, two.library), ("hakmem", library.resolve()))
        self.assertTrue(two.serves(LIBRARY))
        self.assertFalse(two.serves("/lib/libc.so.6"))
        with self.assertRaises(Trouble):
            run.beside(self.folder / "libhakmem.so", run.RECORDER)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main(verbosity=2)
