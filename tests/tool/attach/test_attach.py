"""Tests `hakmem attach`, `profile` and `leaks` on running processes."""

import json
import os
import re
import subprocess
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import worker
from worker import tool
from hakmem import attached, profiles, sources
from hakmem.trouble import Trouble

SAMPLE = 16384
ROUNDS = 40
MISSES = 50  # rounds of a thread in which it needs new memory for certain, also in a user heap, whose hits make no tick
PART = 0.3  # allowed error, relative to the value, because there are only some thousand samples in some 40 rounds
PYTHON_PROGRAM = """
import itertools, json
kept = [None] * 20000
for turn in itertools.count():
    kept[turn % len(kept)] = json.dumps([str(number) for number in range(300)])
    json.loads(kept[turn % len(kept)])
"""


def sums_by_function(found: profiles.Profile) -> dict:
    names = sources.Sources(found.maps, found.pid)
    names.learn(site.stack for site in found.sites)
    by_name: dict = {}
    for one in found.sums():
        for function in {frame.function for frame in names.frames(one.stack)}:
            live, size = by_name.get(function, (0.0, 0.0))
            by_name[function] = (live + one.live_bytes, size + one.bytes)
    return by_name


class Attach(worker.WorkerTest):
    def go_on(self, process: subprocess.Popen, watched: attached.Attached, rounds: int) -> dict:
        """Lets the process run until some rounds have been open, and returns its sums."""
        until = watched.rounds() + ROUNDS
        sums: dict = {}

        def enough() -> bool:
            sums.update(self.sums(process, rounds))
            return watched.rounds() >= until

        self.wait_for(enough, "rounds")
        return sums

    def near(self, value: float, right: float) -> None:
        self.assertAlmostEqual(value, right, delta=PART * right)

    def check_sums(self, threads: int, rounds: int, mode: str = "churn") -> None:
        process = self.worker(mode, threads)
        before = self.sums(process, rounds)
        watched = attached.Attached(process.pid)
        self.assertFalse(watched.begin(SAMPLE))
        self.sums(process, MISSES if mode == "heap" else 1)
        self.assertTrue(watched.wait(tool.WAIT_S))
        self.assertEqual(watched.state, attached.ON)
        after = self.go_on(process, watched, rounds)
        found = watched.read()
        by_name = sums_by_function(found)
        self.near(by_name["keeps"][0], after["kept"] - before["kept"])
        self.near(by_name["keeps"][1], after["kept"] - before["kept"])
        self.near(by_name["churns"][1], after["churned"] - before["churned"] + after["large"] - before["large"])
        self.near(by_name["large"][1], after["large"] - before["large"])
        self.assertEqual(by_name["churns"][0], 0, "all were freed")
        watched.ask(attached.END)
        self.sums(process, 10)
        self.assertTrue(watched.wait(tool.WAIT_S))
        rounds = watched.rounds()
        self.sums(process, rounds)
        self.assertEqual((watched.state, watched.rounds(), watched.hits), (attached.ENDED, rounds, True))
        self.assertEqual(self.finish(process), 0)

    def test_one_thread(self) -> None:
        self.check_sums(1, 500)

    def test_some_threads(self) -> None:
        self.check_sums(8, 60)

    def test_user_heap(self) -> None:
        self.check_sums(8, 60, "heap")

    def test_300_threads(self) -> None:
        self.check_sums(300, 4)

    def test_python(self) -> None:
        process = self.start(tool.PYTHON, "-c", PYTHON_PROGRAM, LD_PRELOAD=tool.LIBRARY, PYTHONMALLOC="malloc")
        outputs = [f"out{suffix}" for suffix in (".pb.gz", ".heap", ".folded", ".html")]
        options = [word for path in outputs for word in ("-o", path)]
        said = self.ok("profile", str(process.pid), "--seconds", "3", *options)
        self.assertRegex(said, r"live of .* allocated in")
        self.assertIsNone(process.poll())
        folded = Path(self.folder, "out.folded").read_text()
        self.assertRegex(folded, r"(?m)^\S.*;\w*Py\w+.* \d+$")
        page = Path(self.folder, "out.html").read_text()
        self.assertIn("<h1>Heap of process", page)
        self.assertNotIn("$$", page)
        self.assertNotRegex(page, r"(?:src|href)=")
        (data,) = re.findall(r'id="data">(\[.*\])</script>', page)
        self.assertAlmostEqual(sum(line[1] for line in json.loads(data)[2]), profiles.read(Path(self.folder, "out.heap")).live_bytes, delta=1 << 20)
        again = profiles.read(Path(self.folder, "out.heap"))
        self.assertGreater(again.samples, 0)
        for reader in ("go tool pprof -raw", "pprof -raw"):
            self.read_by(reader.split(), "out.pb.gz")

    def read_by(self, reader: list, path: str) -> None:
        try:
            done = subprocess.run([*reader, path], cwd=self.folder, capture_output=True, text=True, check=False)
        except OSError:
            return
        if "unknown command" not in done.stderr and "no such tool" not in done.stderr:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"inuse_space/bytes")

    def test_a_mapping_that_vanishes(self) -> None:
        """While a program starts or ends, the loader unmaps files between the look at the maps and the read."""
        process = self.worker("churn")
        gone = "1000-2000 rw-p 00000000 00:00 1 /gone/libhakmem.so.0\n"
        maps = attached.maps_of(process.pid)
        with unittest.mock.patch.object(attached, "maps_of", return_value=gone + maps):
            self.assertEqual(attached.Attached(process.pid).state, attached.NOT_YET)
        with unittest.mock.patch.object(attached, "maps_of", return_value=gone), self.assertRaisesRegex(Trouble, "runs on a version"):
            attached.Attached(process.pid)

    def test_a_sleeping_process(self) -> None:
        process = self.worker("churn")
        self.assertIn("sleeps", self.ok("attach", str(process.pid)))
        watched = attached.Attached(process.pid)
        self.assertEqual((watched.state, watched.read().waiting), (attached.NOT_YET, True))
        self.sums(process, 1000)
        self.assertEqual(watched.state, attached.ON)
        self.assertIn("sampled already", self.ok("attach", str(process.pid)))
        self.assertIn("sampling ends at its next malloc", self.ok("attach", str(process.pid), "--off"))
        self.sums(process, 1000)
        self.assertEqual((watched.state, watched.hits), (attached.ENDED, True))

    def test_a_request_withdrawn(self) -> None:
        """The tool gives up while the process sleeps. After that the process continues as if the tool had not asked."""
        process = self.worker("churn")
        done = self.tool("profile", str(process.pid), "--seconds", "0.2")
        self.assertIn("called no malloc in this time", done.stderr)
        self.sums(process, 1000)
        watched = attached.Attached(process.pid)
        self.assertNotEqual(watched.state, attached.ON)
        self.assertTrue(watched.hits)

    def test_hits_alone(self) -> None:
        """No call of this process misses, so the tool must open the rounds."""
        process = self.worker("hits")
        process.stdin.write("go 20000000000\n")
        process.stdin.flush()
        watched = attached.Attached(process.pid)
        watched.begin(SAMPLE)
        self.assertTrue(watched.wait(tool.WAIT_S))

        def some() -> bool:
            for _ in watched.watch(1.1):
                pass
            return watched.read().samples > 64

        self.wait_for(some, "samples of hits")

    def test_a_child(self) -> None:
        process = self.worker("churn", 3)
        watched = attached.Attached(process.pid)
        watched.begin(SAMPLE)
        self.sums(process, 1000)
        process.stdin.write("fork\n")
        process.stdin.flush()
        child = int(self.line(process)[1])
        inherited = attached.Attached(child)
        self.assertEqual(inherited.state, attached.ON)
        found = inherited.read()
        self.assertGreater(found.samples, 0)

    def test_leaks(self) -> None:
        process = self.worker("churn")
        self.ok("attach", str(process.pid), "--sample", str(SAMPLE))
        watched = attached.Attached(process.pid)
        self.go_on(process, watched, 500)
        with ThreadPoolExecutor(1) as pool:
            said = pool.submit(self.ok, "leaks", str(process.pid))
            while not said.done():  # if no blocks were born while the tool starts on a busy machine, all blocks would be of the first half
                self.sums(process, 20)
                time.sleep(0.01)
        first = said.result().splitlines()[0]
        self.assertRegex(first, r"^1\. .*/worker\.c:\d+ \(keeps\):")

    def test_refusals(self) -> None:
        for option in ({"HAKMEM_SAFE_FREE": "strict"}, {"HAKMEM_HARDENED": "1"}, {"HAKMEM_TRACE_RING": "16"}):
            ring = self.worker("churn", **option)
            watched = attached.Attached(ring.pid)
            watched.begin(SAMPLE)
            self.sums(ring, 1000)
            with self.assertRaisesRegex(Trouble, "HAKMEM_TRACE_RING"):
                watched.wait(tool.WAIT_S)
            self.sums(ring, 1000)
        plain = self.start("sleep", "60")
        self.refused(1, "is not served by HAKMEM", "attach", str(plain.pid))
        self.refused(64, "ends in none of", "profile", str(ring.pid), "-o", "profile.txt")
        self.refused(64, "cannot be written", "profile", str(ring.pid), "-o", "nowhere/out.html")
        self.refused(64, "not a number of bytes", "attach", str(ring.pid), "--sample", "much")

    @unittest.skipIf(os.getuid() != 0, "needs root, to become another user")
    def test_another_user(self) -> None:
        process = self.worker("churn")
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                attached.Memory(process.pid)
            except Trouble as trouble:
                os._exit(0 if re.search("belongs to another user", str(trouble)) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_sampled_from_the_start(self) -> None:
        process = self.worker("churn", HAKMEM_HEAP_SAMPLE=str(SAMPLE))
        sums = self.sums(process, 20000)
        watched = attached.Attached(process.pid)
        self.assertTrue(watched.begin(), "although the process sleeps")
        self.near(sums_by_function(watched.read())["keeps"][0], sums["kept"])
        self.assertNotIn("called no malloc", self.tool("leaks", str(process.pid)).stderr)


if __name__ == "__main__":
    unittest.main()
