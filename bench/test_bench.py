"""Tests the benchmarks. Run by CTest, or by hand:

    python3 bench/test_bench.py build/bench

A counting preload stands in for HAKMEM: its counts are compared with those that each program prints, and invalid runs must be refused.
"""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from built import BENCH_DIR, GLIBC
from measure import BadRun, Runner, Sample, check_bound, check_served
from peers import Allocator
from point import Workload
from rows import POINTS, TRACES, select

# Every program, its modes, one thread and several.
COMMANDS = [f"{program} {arguments}".strip() for program, modes in {
    "bench_idle": [""],
    "bench_tiny_hot": ["64 5000 1", "64 500 100"],
    "bench_random_mixed": ["50k 256 42", "50k 20k 1 16 32768"],
    "bench_mid_large_mt": ["1 20k 256", "4 20k 256"],
    "bench_burst": ["5k 64 3 order", "5k 64 3 random"],
    "bench_comprehensive": ["all 2k", "lived 10k"],
    "bench_calloc": ["all 5k", "full_1m 20k"],
    "bench_zeroed": ["all 100", "start_80m 10k"],
    "bench_growth": ["20k 100"],
    "bench_vector": ["all 2k", "string 10k"],
    "bench_scenario": ["string-builder 10k", "json 500", "mir 200", "vm 50", "mixed 5k"],
    "bench_remote": ["1to1 1 100k", "Nto1 3 100k", "1toN 3 100k", "ring 1 100k", "ring 4 100k"],
    "bench_fanin": ["1 10k 64", "20 20k 16 576 4k"],
    "bench_threads": ["churn 200", "idle 50", "idle 50 0"],
    "bench_traces": [f"{name} 2" for name in TRACES],
    "bench_release": ["spike 4 16 256 0.2 10k", "spike 8 4096 16384 0.2 10k", "remote 1"],
    "bench_left": ["drift 1k", "large", "prefork 2", "parked 10", "joined"],
    "bench_aged": ["2k"],
    "bench_fleet": [f"{profile} 10k 1" for profile in range(10)],
    "bench_phases": ["0.05 2 4"],
    "larson": ["0.2 8 128 1024 1 12345 1", "0.2 8 128 1024 1 12345 4", "0.2 2048 32768 500 100 12345 4"],
}.items() for arguments in modes]


def counting() -> Allocator:
    return Allocator("hakmem", BENCH_DIR / "libcounting.so", "hakmem")


def sample_of(command: str, **how: object) -> Sample:
    return Runner(BENCH_DIR).sample(Workload(command, **how), counting())


class Programs(unittest.TestCase):
    def test_counts_are_the_calls_made(self) -> None:
        """The runner checks that the allocator serves 99.9 % of the calls. This test checks that a benchmark does not count fewer calls than it
        makes, except for those that the C library makes for threads."""
        for command in COMMANDS:
            with self.subTest(command), tempfile.TemporaryDirectory() as scratch:
                report = Path(scratch) / "report.json"
                runner = Runner(BENCH_DIR)
                env = counting().environment() | {"HAKMEM_REPORT": str(report)}
                line = runner.command(Workload(command), env, 1, ())
                program, launch = runner.execute(line)
                check_bound(program, counting())
                check_served(program, report)
                self.assertEqual(launch["status"], 0)
                self.assertEqual(program["calls_malloc"], program["calls_free"])
                served = json.loads(report.read_text())["served"]
                for call in ("malloc", "free", "realloc"):
                    self.assertLessEqual(served[call], 1.01 * program[f"calls_{call}"] + 50, call)

    def test_figures_are_sane(self) -> None:
        sample = sample_of("bench_burst 5k 64 3 random")
        self.assertEqual(sample["ops"], 15000)
        self.assertGreater(sample["seconds"], 0)
        self.assertAlmostEqual(sample["ns_per_op"] * sample["mops_per_s"], 1000, delta=1)
        self.assertGreater(sample["max_rss_kib"], 5000 * 64 / 1024)

    def test_larson_threads_are_many(self) -> None:
        """The trap: a thread for each round, and none refused."""
        sample = sample_of("larson 0.3 8 128 16 1 1 4")
        self.assertGreaterEqual(sample["threads_born"], sample["ops"] / 16)
        self.assertGreater(sample["threads_born"], 4)

    def test_scenario_touches_each_page(self) -> None:
        self.assertGreater(sample_of("bench_scenario vm 10")["page_faults"], (2 << 20) / 4096)

    def test_each_pattern_has_a_figure(self) -> None:
        """Each pattern, alone and among all, prints the figures that the rows read."""
        for work in {p.work for p in POINTS if " all " in p.work.command}:
            with self.subTest(work.command):
                sample = Runner(BENCH_DIR, quick=True).sample(work, counting())
                names = {p.metric for p in POINTS if p.work == work and p.metric in sample}
                self.assertEqual(names, {p.metric for p in POINTS if p.work == work})
                name = next(m for m in sorted(names) if m.startswith("ns_")).removeprefix("ns_")
                figures = sample_of(work.command.replace(" all {n}", f" {name} 1k"))
                self.assertEqual([key for key in figures if key.startswith("ns_") and key != "ns_per_op"], [f"ns_{name}"])

    def test_growth_counts_what_the_heap_took(self) -> None:
        """The C library faults exactly the pages that it hands out."""
        sample = sample_of("bench_growth 200k 100")
        for figure in ("rss_per_asked", "faults_per_page"):
            self.assertAlmostEqual(sample[figure], 1, delta=0.05)
        both = sample["growth_ns_per_op"] + sample["free_ns_per_op"]
        self.assertAlmostEqual(both / sample["ns_per_op"], 1, delta=0.01)

    def heap(self, command: str) -> dict:
        """What a program says that watches its heap, on the C library."""
        line = Runner(BENCH_DIR).command(Workload(command), GLIBC.environment(), 1, ())
        return Runner(BENCH_DIR).execute(line)[0]

    def test_live_bytes_are_below_resident_ones(self) -> None:
        """They are written, all of them: at each moment, and at the peak. What statm lacks, 64 pages a thread, is given."""
        for name in TRACES:
            with self.subTest(name):
                said = self.heap(f"bench_traces {name} 5")
                self.assertIn(len(said["series"]), range(17, 257))
                for place, live, resident in said["series"]:
                    self.assertLess(live, resident + 2 * 256, place)
                places = [moment[0] for moment in said["series"]]
                self.assertEqual(places, sorted(set(places)))
                self.assertGreater(min(said["peak_rss_per_live"], said["worst_rss_per_live"]), 1)
                self.assertGreaterEqual(said["peak_live_kib"], max(live for _, live, _ in said["series"]))

    def test_traces_are_the_same_each_time(self) -> None:
        for name in ("drift", "mstress", "log_ring"):
            with self.subTest(name):
                once, again = (self.heap(f"bench_traces {name} 2") for _ in range(2))
                for figure in ("ops", "calls_malloc", "calls_realloc", "peak_live_kib"):
                    self.assertEqual(once[figure], again[figure], figure)
                self.assertEqual(*([moment[:2] for moment in said["series"]] for said in (once, again)))

    def test_mappings_are_counted(self) -> None:
        """Of 64 and one for each 2 MiB resident."""
        said = self.heap("bench_traces pages 5")
        self.assertGreater(said["vmas"], 10)
        resident = said["peak_rss_kib"] / 2048
        self.assertGreaterEqual(said["vmas_to_bound"], said["vmas"] / (64 + resident) * 0.99)
        self.assertLess(said["vmas_to_bound"], said["vmas"] / 64)

    def test_survivors_pin_their_pages(self) -> None:
        """One of 20 blocks of 4 KiB lives, on two pages; small ones on one each, or less. The C library keeps all of a spike: 20 times what lives."""
        large = self.heap("bench_release spike 16 4096 4096 0.1 10")
        self.assertAlmostEqual(large["pinned_per_live"], 2, delta=0.1)
        small = self.heap("bench_release spike 16 64 64 0.1 10")
        self.assertGreater(small["pinned_per_live"], 10)
        self.assertLess(small["pinned_per_live"], small["rss_per_live_freed"])
        self.assertAlmostEqual(small["rss_per_live_freed"], 20, delta=8)

    def test_what_is_left_is_measured(self) -> None:
        """glibc unmaps large blocks, keeps what sleeping threads freed, and shares with forked children what they do not write."""
        self.assertLess(self.heap("bench_left large")["left_mib"], 4)
        self.assertGreater(self.heap("bench_left parked 20")["parked_per_live"], 2)
        self.assertGreater(self.heap("bench_left drift 10k")["rss_to_live"], 0.1)
        one, four = (self.heap(f"bench_left prefork {n}") for n in (1, 4))
        self.assertAlmostEqual(four["private_mib"] / one["private_mib"], 4, delta=0.5)
        self.assertAlmostEqual(four["series"][-1][2], four["private_mib"] * 1024, delta=1)
        self.assertEqual(len(four["series"]), 5)

    def test_an_aged_heap_is_as_large_as_before(self) -> None:
        """The program checks the tree itself. 22 blocks were allocated or freed for each live one, the loading and the end included."""
        once, again = (self.heap("bench_aged 10k") for _ in range(2))
        for said in (once, again):
            self.assertAlmostEqual(said["live_blocks"] / 10000, 1, delta=0.1)
            self.assertAlmostEqual(said["calls_malloc"] / 10000, 11, delta=0.1)
            self.assertAlmostEqual(said["ops"] / 10000, 20, delta=0.3)
            self.assertGreater(said["peak_rss_per_live"], 1)
        for figure in ("live_blocks", "live_kib", "ops", "calls_malloc"):
            self.assertEqual(once[figure], again[figure], figure)

    def test_fleet_profiles_keep_their_live_bytes(self) -> None:
        """About as many blocks are born as die, so live bytes stay near those of the beginning, also in a profile with few large blocks."""
        for profile in range(10):
            with self.subTest(profile):
                once, again = (self.heap(f"bench_fleet {profile} 50k 16") for _ in range(2))
                self.assertEqual(once["ops"], 50000)
                self.assertAlmostEqual(once["live_kib"] / (16 << 10), 1, delta=0.15)
                self.assertGreater(once["peak_rss_per_live"], 1)
                for figure in ("live_kib", "peak_live_kib", "calls_malloc"):
                    self.assertEqual(once[figure], again[figure], figure)

    def test_phases_have_figures_of_their_own(self) -> None:
        said = self.heap("bench_phases 0.1 1 4")
        for phase in ("tiny", "remote", "large", "spike"):
            self.assertGreater(said[f"mops_{phase}"], 0, phase)
            self.assertGreaterEqual(2 * said[f"cpu_mops_{phase}"], said[f"mops_{phase}"], phase)  # two threads at most
        self.assertEqual(said["mops_idle"], 0)
        self.assertGreater(said["faults_large"], said["faults_idle"])
        self.assertEqual(said["series"][-1][1], 0)

    def test_processor_time_may_stand_for_wall_time(self) -> None:
        sample = Runner(BENCH_DIR, cpu_clock=True).sample(Workload("bench_vector string 10k"), counting())
        for figure in ("ns_per_op", "ns_string"):
            self.assertEqual(sample[figure], sample[f"cpu_{figure}"])

    def test_launch_counts_system_calls(self) -> None:
        runner = Runner(BENCH_DIR)
        few, _ = runner.counted(Workload("bench_threads churn 10"), counting())
        many, _ = runner.counted(Workload("bench_threads churn 110"), counting())
        self.assertGreater(many["syscalls"] - few["syscalls"], 100)

    def test_a_series_is_what_the_program_printed(self) -> None:
        work = Workload("bench_traces pages 2", series="operations")
        _, series = Runner(BENCH_DIR).counted(work, counting())
        self.assertEqual({len(moment) for moment in series}, {3})
        self.assertEqual(Runner(BENCH_DIR).counted(Workload("bench_idle"), counting())[1], [])

    def test_launch_sees_memory_grow(self) -> None:
        trace = Runner(BENCH_DIR).trace(Workload("bench_growth 3M 100"), counting())
        times, kib = zip(*trace)
        self.assertEqual(list(times), sorted(times))
        self.assertGreater(max(kib), 3_000_000 * 100 / 1024)
        self.assertLess(kib[0], max(kib) / 2)

    def test_launch_sees_a_long_run_to_its_end(self) -> None:
        """It has room for 512 moments; more than that come in this time."""
        command = [str(BENCH_DIR / "launch"), "--trace", "1", "--", "sleep", "1.5"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        moments = json.loads(done.stdout)["rss_trace"]
        self.assertLessEqual(len(moments), 512)
        self.assertGreater(moments[-1][0], 750)

    def test_a_loop_without_system_calls_has_none(self) -> None:
        self.assertEqual(sample_of("bench_tiny_hot 64 {n} 1", n=20000, difference=True)["syscalls_per_op"], 0)

    def test_null_serves_the_limit_rows(self) -> None:
        limit = Allocator("limit", (BENCH_DIR / "libnull.so").resolve(), "limit")
        for work in {p.work for p in POINTS if p.with_limit}:
            with self.subTest(work.command):
                sample = Runner(BENCH_DIR, quick=True).sample(work, limit)
                self.assertGreater(sample["mops_per_s"], 0)


class Refusals(unittest.TestCase):
    WORK = Workload("bench_tiny_hot 64 500 100")

    def test_runs_that_count_for_nothing(self) -> None:
        null = Allocator("hakmem", (BENCH_DIR / "libnull.so").resolve(), "hakmem")
        missing = Allocator("peer", Path("/nowhere/libpeer.so"), "peer")
        for reason, work, allocator in (
            ("served", self.WORK, counting()),
            ("malloc came from", self.WORK, missing),
            ("no HAKMEM_REPORT", self.WORK, null),
            ("exit status 2", Workload("bench_burst no-number"), counting()),
        ):
            runner = Runner(BENCH_DIR, hakmem_env={"COUNTING_LOSE": "100"} if reason == "served" else {})
            with self.subTest(reason), self.assertRaisesRegex(BadRun, reason):
                runner.sample(work, allocator)

    def test_lost_reallocs(self) -> None:
        """Where the report counts them; HAKMEM's does not."""
        program = {"calls_malloc": 9, "calls_free": 9, "calls_realloc": 100}
        served = {"malloc": 9, "free": 9}
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            report.write_text(json.dumps({"served": served}))
            check_served(program, report)
            report.write_text(json.dumps({"served": served | {"realloc": 90}}))
            with self.assertRaisesRegex(BadRun, "90 of 100 calls of realloc"):
                check_served(program, report)


class Rows(unittest.TestCase):
    def test_rows_are_found_and_the_names_of_points_differ(self) -> None:
        self.assertEqual({p.row for p in select("p1,M9")}, {"P1", "M9"})
        self.assertEqual({p.row.partition(".")[0] for p in select("memory")}, {f"M{n}" for n in (*range(1, 10), 11, 13, 14, 15, 16, 17, 18)})
        self.assertRaises(SystemExit, select, "P0")
        self.assertEqual(len({p.name for p in POINTS}), len(POINTS))

    def test_quick_ones_are_a_few_of_the_default(self) -> None:
        few, default = select(None, quick=True), select(None)
        self.assertTrue(few)
        self.assertLess({p.name for p in few}, {p.name for p in default})


if __name__ == "__main__":
    unittest.main(verbosity=2)
