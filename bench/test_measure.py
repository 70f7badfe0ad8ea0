"""Tests that real programs run as prepared, and that invalid runs are refused.

    python3 bench/test_measure.py build/bench

The programs are ours: a benchmark stands in for a real one.
"""
import re
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import thp
from built import BENCH_DIR, GLIBC, hakmem
from measure import BadRun, Runner, playable
from peers import Allocator
from point import Workload
from programs import HERE, NAMED, PROGRAMS, Program
from rows import select


class Running(unittest.TestCase):
    def setUp(self) -> None:
        command = f"{BENCH_DIR}/bench_random_mixed {{n}} 256 42"
        self.toy = Program("toy", command, 50_000, 5_000, warm_mib=1)
        self.runner = Runner(BENCH_DIR)
        self.addCleanup(lambda: [d.cleanup() for d in self.runner.work_dirs.values()])

    def sample(self, allocator: Allocator, **changes: str | bool) -> dict[str, float]:
        toy = replace(self.toy, **changes)
        with mock.patch.dict(NAMED, toy=toy):
            work = Workload(toy.command, toy.n, toy.quick_n, warm_mib=1, program="toy")
            return self.runner.sample(work, allocator)

    def test_figures_are_the_launchers(self) -> None:
        sample = self.sample(GLIBC)
        self.assertEqual(sample["cpu_s"], sample["user_s"] + sample["system_s"])
        self.assertGreater(sample["max_rss_mib"], 0.5)
        self.assertGreater(sample["minor_faults"], 0)

    def test_figures_that_the_program_prints(self) -> None:
        prints = {"command": "/bin/echo {{\"private_mib\":2.5}}", "prints": True}
        self.assertEqual(self.sample(GLIBC, **prints)["private_mib"], 2.5)
        with self.assertRaisesRegex(BadRun, "the program's output"):
            self.sample(GLIBC, **(prints | {"command": "/bin/echo nothing"}))

    def test_a_program_its_preparation_and_its_client_must_go_well(self) -> None:
        for changes in ({"command": "/bin/cat {work}/made", "prepare": "touch made"}, {"client": "/bin/true"}):
            self.sample(GLIBC, **changes)
        for reason, changes in (
            ("exit status", {"command": "/bin/cat {work}/made", "prepare": "touch another"}),
            ("preparation failed", {"prepare": "exit 1"}),
            ("client failed", {"client": "/bin/false"}),
            ("did not end", {"client": "/bin/sleep 100"}),
        ):
            with self.subTest(reason), mock.patch("measure.CLIENT_TIMEOUT_S", 0.1 if reason == "did not end" else 10):
                with self.assertRaisesRegex(BadRun, reason):
                    self.sample(GLIBC, **changes)

    def test_folios_are_on_while_a_row_of_folios_runs(self) -> None:
        work = Workload(self.toy.command, self.toy.n, self.toy.quick_n, program="toy")
        for folios, wanted in ((False, None), (True, "always")):
            with mock.patch.dict(NAMED, toy=self.toy), mock.patch("thp.mode") as mode:
                mode.return_value.__enter__.return_value = ""
                self.runner.sample(replace(work, folios=folios), GLIBC)
                mode.assert_called_once_with(wanted, thp.FOLIOS)
        with mock.patch.dict(NAMED, toy=self.toy), mock.patch("thp.FOLIOS", Path("/nowhere/enabled")):
            with self.assertRaisesRegex(BadRun, "/nowhere/enabled cannot be read"):
                self.runner.sample(replace(work, folios=True), GLIBC)

    def test_a_preload_that_fails_is_noticed(self) -> None:
        with self.assertRaisesRegex(BadRun, "malloc came from"):
            self.sample(Allocator("peer", Path("/nowhere/libpeer.so"), "peer"))

    def test_glibc_comes_before_a_programs_own_malloc(self) -> None:
        toy = replace(self.toy, own_malloc=True)
        env = self.runner._environment(toy, GLIBC, Path("/scratch"))
        self.assertEqual(env["LD_PRELOAD"], "libc.so.6")

    def test_a_driver_gets_the_settings_as_options_and_has_none_itself(self) -> None:
        peer = Allocator("peer", Path("/nowhere/libpeer.so"), "peer")
        self.runner.bound.add("peer")
        with mock.patch.object(Runner, "launch", return_value=(["{}"], {"max_rss_kib": 0, "user_s": 0, "system_s": 0})) as launch:
            self.sample(peer, driver=True)
        (words,), at = launch.call_args.args, launch.call_args.args[0].index("--")
        self.assertNotIn("--env", words[:at])
        self.assertEqual(words[-2:], ["--env", "LD_PRELOAD=/nowhere/libpeer.so"])

    def test_hakmem_must_serve_what_was_counted(self) -> None:
        if not hakmem().library.exists():
            self.skipTest("no libhakmem.so beside the benchmarks")
        self.sample(hakmem())
        self.runner.calls["toy"]["calls_free"] *= 1.01
        self.runner.proved.clear()
        with self.assertRaisesRegex(BadRun, "served"):
            self.sample(hakmem())


class Table(unittest.TestCase):
    def test_inputs_are_there(self) -> None:
        for program in PROGRAMS:
            words = f"{program.command} {program.client} {program.prepare}"
            for path in re.findall(r"\{here\}/(\S+)", words):
                self.assertTrue((HERE / path).exists(), path)
            if "/cc1plus" in program.command or "/clang++" in program.command:  # leaves nothing beside its inputs
                self.assertIn("-o {scratch}/", program.command, program.name)

    def test_each_runs_alone_and_all_by_their_row(self) -> None:
        self.assertEqual({p.row for p in select("p16.lua")}, {"P16.lua"})
        self.assertEqual(len(select("P16")), 2 * len(PROGRAMS))

    def test_what_is_not_here_is_named_and_skipped(self) -> None:
        points = select("P16.lua,P4")
        gone = replace(NAMED["lua"], command="/nowhere/lua5.4")
        with mock.patch.dict(NAMED, lua=gone):
            played, lines = playable(points)
        self.assertEqual({p.row for p in played}, {"P4"})
        self.assertEqual(lines, ["skipped P16.lua: there is no /nowhere/lua5.4"])

    def test_rows_of_folios_are_skipped_where_these_cannot_be_set(self) -> None:
        points = select("M17,P4")
        self.assertIn("M17", {p.row for p in points})
        with mock.patch("thp.FOLIOS", Path("/nowhere/enabled")):
            played, lines = playable(points)
        self.assertEqual({p.row for p in played}, {"P4"})
        self.assertEqual(lines, ["skipped M17: /nowhere/enabled cannot be written"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
