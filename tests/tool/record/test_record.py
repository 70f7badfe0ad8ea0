#!/usr/bin/env python3
"""Checks libhakmem-record.so and hakmem-play: a recording must have what the program did, and the player must play what the recording has.

test_record.py RECORDER PLAYER PROGRAM PROGRAM_CXX HAKMEM [BENCH_TRACES]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RECORDER, PLAYER, PROGRAM, PROGRAM_CXX, HAKMEM = sys.argv[1:6]
BENCH_TRACES = sys.argv[6] if len(sys.argv) > 6 else None
HEAD_BYTES, CHUNK_BYTES, CHUNK_HEAD_BYTES = 65536, 65536, 32
WRONG, REFUSED, SIGKILL = 1, 2, 9
PATIENCE_S = 250  # the error then names the command that does not end
KERNEL_LAG_KIB = 256  # the kernel counts a thread's pages in steps of 64
# The first call of a thread may make the C library allocate a table of thread-local storage, which the program does not count.
BLOCKS_OF_A_THREAD, BYTES_OF_A_THREAD = 2, 4096


class Recorded:
    """A run under the recorder: the output of the program, and the recordings."""

    def __init__(self, folder: Path, *command: str, sample: int = 1, below: str = "", code: int = 0):
        env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        env |= {"LD_PRELOAD": ":".join(filter(None, [RECORDER, below])), "HAKRECORD_FOLDER": str(folder), "HAKRECORD_SAMPLE": str(sample)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder)
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        self.said = [json.loads(line) for line in done.stdout.splitlines()]
        self.errors, self.files = done.stderr, sorted(folder.glob("*.hkrec"), key=lambda path: (path.name.count("-"), path.stat().st_mtime))


def player(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([PLAYER, *map(str, words)], capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def show(path: Path, *words: str) -> dict:
    done = player("show", path, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class RecordTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def record(self, *command: str, **more: object) -> Recorded:
        folder = self.folder / f"run{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        return Recorded(folder, *command, **more)

    def play(self, recording: Path, *words: str, library: str = "", code: int = 0) -> dict:
        plan = self.folder / "plan"
        done = player("plan", recording, plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")} | {"LD_PRELOAD": library}
        done = subprocess.run([PLAYER, "play", str(plan), *words], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stderr)

    def same(self, shown: dict, said: dict) -> None:
        """Checks that the recording has exactly what the program says that it did."""
        allocs = shown["allocs"]
        found = {"malloc": allocs["malloc"], "calloc": allocs["calloc"], "aligned": allocs["aligned"], "frees": shown["frees"],
                 "reallocs": shown["reallocs"], "live": shown["live_bytes"], "peak": shown["peak_bytes"]}
        self.assertEqual(found, said)
        self.assertEqual((shown["implied"], shown["cut"]), (0, False))

    def near(self, shown: dict, said: dict, threads: int) -> None:
        """Checks that the recording has what the program says, and at most what the C library allocates for each thread in addition."""
        allocs = sum(shown["allocs"].values()) - said["malloc"] - said["calloc"] - said["aligned"]
        self.assertTrue(0 <= allocs <= BLOCKS_OF_A_THREAD * threads, (shown, said))
        self.assertTrue(0 <= shown["frees"] - said["frees"] <= BLOCKS_OF_A_THREAD * threads, (shown, said))
        self.assertTrue(0 <= shown["live_bytes"] - said["live"] <= BYTES_OF_A_THREAD * threads, (shown, said))
        self.assertEqual((shown["implied"], shown["unknown"]), (0, 0))

    def played(self, recording: Path, **more: object) -> dict:
        """Plays the whole recording and checks that there was no mistake."""
        shown, done = show(recording), self.play(recording, **more)
        self.assertEqual(done["allocs"], sum(shown["allocs"].values()))
        self.assertEqual((done["frees"], done["reallocs"], done["left"]), (shown["frees"], shown["reallocs"], shown["live_blocks"]))
        self.assertEqual(done["bytes"], shown["bytes"])
        self.assertEqual((done["wrong"], done["failed"]), (0, 0))
        return done


class OneThread(RecordTest):
    def test_each_call_of_the_family(self) -> None:
        for mode in ("family", "realloc", "aligned", "large", "vfork"):
            with self.subTest(mode):
                run = self.record(PROGRAM, mode)
                self.assertEqual(len(run.files), 1, run.errors)
                shown = show(run.files[0])
                self.same(shown, run.said[0])
                self.assertTrue(shown["ended"])
                self.assertEqual(shown["refused"], mode == "realloc")
                self.played(run.files[0])

    def test_what_the_program_left_unwritten_is_not_written(self) -> None:
        run = self.record(PROGRAM, "large")
        for library in ("", HAKMEM):
            self.assertLess(self.played(run.files[0], library=library)["heap_kib"], 8 << 10)

    def test_it_runs_on_hakmem_too(self) -> None:
        run = self.record(PROGRAM, "family", below=HAKMEM)
        self.same(show(run.files[0]), run.said[0])

    def test_figures_of_the_program(self) -> None:
        run = self.record(PROGRAM, "family")
        shown = show(run.files[0])
        self.assertEqual(shown["program"], os.path.realpath(PROGRAM))
        self.assertGreater(shown["peak_rss_kib"], shown["file_rss_kib"] + shown["first_anon_kib"])
        self.assertGreater(shown["faults"], 0)

    def test_a_sample_stands_for_all(self) -> None:
        whole, part = self.record(PROGRAM, "family"), self.record(PROGRAM, "family", sample=4)
        all_of_it, some = show(whole.files[0]), show(part.files[0])
        allocs = sum(all_of_it["allocs"].values())
        self.assertEqual(some["sample"], 4)
        self.assertLess(some["events"], all_of_it["events"] * 0.6)
        self.assertTrue(allocs * 0.4 < sum(some["allocs"].values()) < allocs * 2, some)
        self.played(part.files[0])


class Cxx(RecordTest):
    def test_each_operator(self) -> None:
        run = self.record(PROGRAM_CXX)
        shown, said = show(run.files[0]), run.said[0]
        self.assertEqual(said["refused"], 2)
        self.assertEqual(shown["allocs"]["new_aligned"], said["aligned"])
        self.assertGreater(shown["allocs"]["new"], said["plain"] + 1500)  # the containers allocate too
        self.assertEqual(shown["live_blocks"], sum(shown["allocs"].values()) - shown["frees"])
        self.assertLess(shown["live_blocks"], 3)  # blocks of the C++ library
        self.assertEqual(shown["implied"], 0)
        for library in ("", HAKMEM):
            self.played(run.files[0], library=library)


class Threads(RecordTest):
    def test_each_thread_is_recorded_and_played(self) -> None:
        for mode, threads, more in (("threads", 5, 4), ("remote", 2, 1), ("churn", 301, 300)):
            with self.subTest(mode):
                run = self.record(PROGRAM, mode)
                shown = show(run.files[0])
                self.near(shown, run.said[0], more)
                self.assertEqual(shown["threads"], threads)
                for library in ("", HAKMEM):
                    self.played(run.files[0], library=library)

    def test_ended_threads_leave_their_chunks_to_others(self) -> None:
        run = self.record(PROGRAM, "churn")
        self.assertLess(run.files[0].stat().st_size, 5 * CHUNK_BYTES)


class Processes(RecordTest):
    def test_children_have_files_of_their_own(self) -> None:
        run = self.record(PROGRAM, "fork")
        self.assertEqual(len(run.files), 6, run.errors)
        shown = {said["pid"]: said for said in map(show, run.files)}
        parent = max(shown.values(), key=lambda one: one["threads"])
        for said in shown.values():
            if said is not parent:
                self.assertEqual((said["threads"], said["implied"], said["unknown"]), (1, 0, 1))
                self.assertEqual(sum(said["allocs"].values()), run.said[0]["malloc"] + run.said[0]["calloc"])
                self.assertEqual(said["peak_bytes"], run.said[0]["peak"])
                self.assertTrue(said["ended"])  # they end by _exit
        self.near(parent, run.said[-1], 4)

    def test_exec_begins_another_file(self) -> None:
        run = self.record(PROGRAM, "exec")
        self.assertEqual([path.name.count("-") for path in run.files], [0, 1])
        before, after = map(show, run.files)
        self.same(before, run.said[0])
        self.same(after, run.said[1])
        self.assertEqual((before["pid"], before["ended"], after["ended"]), (after["pid"], False, True))

    def test_whatever_way_it_ends(self) -> None:
        for mode, code, ended in (("leave", 0, True), ("killed", -SIGKILL, False)):
            run = self.record(PROGRAM, mode, code=code)
            shown = show(run.files[0])
            self.same(shown, run.said[0])
            self.assertEqual(shown["ended"], ended)

    def test_without_a_folder_it_says_so_and_the_program_runs(self) -> None:
        for folder in ("", "/gone/away"):
            env = os.environ | {"LD_PRELOAD": RECORDER, "HAKRECORD_FOLDER": folder}
            done = subprocess.run([PROGRAM, "family"], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("hakmem record: ", done.stderr)

    def test_a_disk_that_is_full_ends_the_recording_not_the_program(self) -> None:
        folder = self.folder / "full"
        folder.mkdir()
        limited = f"ulimit -f {(HEAD_BYTES + 2 * CHUNK_BYTES) // 1024}; trap '' XFSZ; exec {PROGRAM} family"
        command = f"ulimit -c 0; LD_PRELOAD= ; export LD_PRELOAD={RECORDER}; {limited}"
        run = Recorded(folder, "/bin/bash", "-c", command)
        self.assertIn("the recording stops here", run.errors)
        own = self.folder / "own"
        own.mkdir()
        quiet = Recorded(own, "/bin/bash", "-c", f"{command} file")
        self.assertEqual((quiet.errors, (own / "file").read_bytes()), ("", b""), "a file of the program at descriptor 2 stays as it is")
        cut = next(path for path in run.files if player("show", path).returncode == REFUSED)
        self.assertIn("the file could not grow", player("show", cut).stderr)
        self.assertTrue(0 < sum(show(cut, "--cut")["allocs"].values()) < run.said[0]["malloc"])


class Refused(RecordTest):
    def setUp(self) -> None:
        super().setUp()
        self.recording = self.record(PROGRAM, "family").files[0]
        self.bytes = self.recording.read_bytes()

    def refused(self, data: bytes, why: str) -> None:
        changed = self.folder / "changed.hkrec"
        changed.write_bytes(data)
        for words in (("show", changed), ("plan", changed, self.folder / "plan")):
            done = player(*words)
            self.assertEqual(done.returncode, REFUSED, done.stderr)
            self.assertIn(why, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_files_that_are_cut(self) -> None:
        for size in (0, 1, 100, HEAD_BYTES - 1):
            self.refused(self.bytes[:size], "not a recording")
        for size in (HEAD_BYTES, HEAD_BYTES + 1, len(self.bytes) - 1, len(self.bytes) - CHUNK_BYTES):
            self.refused(self.bytes[:size], "cut off")

    def test_files_that_are_others(self) -> None:
        self.refused(b"x" * len(self.bytes), "not a recording of this version")
        for path in (self.folder, self.folder / "gone", Path("/dev/null")):
            self.assertEqual(player("show", path).returncode, REFUSED)

    def test_each_altered_byte_of_a_closed_chunk_is_seen(self) -> None:
        for at in (HEAD_BYTES, HEAD_BYTES + CHUNK_HEAD_BYTES + 50, HEAD_BYTES + CHUNK_BYTES - 9):
            changed = bytearray(self.bytes)
            changed[at] ^= 4
            self.refused(bytes(changed), f"at byte {HEAD_BYTES}")

    def test_an_open_chunk_with_the_events_of_another_place(self) -> None:
        """The second chunk has a copy of the first chunk's events, so two events have the same place."""
        first = bytearray(self.bytes[HEAD_BYTES : HEAD_BYTES + CHUNK_BYTES])
        self.refused(self.bytes[: HEAD_BYTES + CHUNK_BYTES] + first + self.bytes[HEAD_BYTES + 2 * CHUNK_BYTES :], "two events have the place")

    def test_a_wrong_plan_is_seen_when_it_is_played(self) -> None:
        plan = self.folder / "plan"
        self.assertEqual(player("plan", self.recording, plan).returncode, 0)
        sound, seen, shown = plan.read_bytes(), 0, show(self.recording)
        for at in range(2000, 6000, 100):
            plan.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
            done = player("play", plan)
            counted = json.loads(done.stderr) if done.stderr.startswith("{") else None
            seen += done.returncode != 0 or counted is None or any(counted[key] != shown[key] for key in ("frees", "bytes"))
        self.assertGreater(seen, 30)

    def test_usage(self) -> None:
        for words in ((), ("show",), ("play",), ("dance", "x"), ("play", "x", "--loud")):
            self.assertEqual(player(*words).returncode, 64)
        self.assertEqual(player("play", self.recording).returncode, REFUSED)


@unittest.skipUnless(BENCH_TRACES, "no benchmarks in this build")
class Traces(RecordTest):
    """The long runs of bench/ count their own calls and live bytes. Two of them use a second thread."""

    def test_they_agree_with_themselves(self) -> None:
        for trace in ("pages", "json", "mstress", "redis", "matrix"):
            with self.subTest(trace):
                run = self.record(BENCH_TRACES, "--json", trace, "3")
                said, shown = run.said[0], show(run.files[0])
                extra = shown["threads"] - 1  # the table of each thread's storage
                self.assertEqual(sum(shown["allocs"].values()), said["calls_malloc"] + extra)
                self.assertEqual((shown["frees"], shown["reallocs"]), (said["calls_free"], said["calls_realloc"]))
                self.assertTrue(0 <= shown["peak_bytes"] // 1024 - said["peak_live_kib"] <= extra, (shown, said))
                heap = shown["peak_rss_kib"] - shown["file_rss_kib"] - shown["first_anon_kib"]
                # How much memory glibc's arenas take depends on how two threads take turns: by up to 13 % on a busy machine.
                share = 0.05 if shown["threads"] == 1 else 0.3
                self.assertAlmostEqual(self.played(run.files[0])["heap_kib"], heap, delta=heap * share + KERNEL_LAG_KIB)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    assert shutil.which(PLAYER), PLAYER
    unittest.main(argv=sys.argv[:1], verbosity=2)
