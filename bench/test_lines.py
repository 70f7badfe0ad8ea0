"""Tests the count of transfers of cache lines, with programs whose number is known.

    python3 bench/test_lines.py build/bench
"""
import sys
import unittest

import lines
from built import BENCH_DIR, GLIBC, hakmem

TURNS = 2000


class Known(unittest.TestCase):
    """Each figure is that of the whole run. Some lines beside the one in question move: those of the barriers."""

    def count(self, work: str, threads: int, objects: int = TURNS, average: int = lines.SLICE) -> tuple[int, int]:
        """Transfers and atomic operations of the program."""
        _, seen = lines.run(BENCH_DIR, GLIBC, work, threads, objects, average)
        return seen["parts"][0]["transfers"], seen["parts"][0]["atomics"]

    def test_a_line_written_in_turns_moves_to_the_reader_and_is_taken_from_the_writer(self) -> None:
        self.assertAlmostEqual(self.count("ping", 2)[0] / TURNS, 4, delta=0.1)

    def test_words_of_one_line_move_it_with_each_store(self) -> None:
        self.assertAlmostEqual(self.count("falsely", 4)[0] / (4 * TURNS), 1, delta=0.1)

    def test_own_lines_do_not_move(self) -> None:
        for threads in (2, 16):
            self.assertLess(self.count("private", threads)[0] / threads, 30)

    def test_a_line_moves_once_to_each_reader(self) -> None:
        own, shared = (self.count(work, 16)[0] for work in ("private", "readers"))
        self.assertAlmostEqual((shared - own) / (16 * 64), 1, delta=0.1)

    def test_atomic_operations_are_counted(self) -> None:
        own, counted = (self.count(work, 4)[1] for work in ("private", "atomic"))
        self.assertAlmostEqual((counted - own) / (4 * TURNS), 1, delta=0.01)


class OfAllocators(unittest.TestCase):
    def test_accesses_are_told_apart(self) -> None:
        for allocator in (GLIBC, hakmem()):
            own, ring = (lines.counted(BENCH_DIR, allocator, work, 4, 512) for work in ("own", "ring"))
            self.assertLess(own.own_transfers, 0.1)
            self.assertGreater(ring.own_transfers, 0.01)
            self.assertGreater(ring.transfers, ring.own_transfers)

    def test_runs_repeat(self) -> None:
        first, again = (lines.counted(BENCH_DIR, hakmem(), "ring", 16, 512) for _ in range(2))
        self.assertAlmostEqual(first.transfers / again.transfers, 1, delta=0.1)


if __name__ == "__main__":
    problem = lines.trouble(BENCH_DIR)
    if problem:
        print(f"skipped: the plugin does not run: {problem}")
        sys.exit(77)
    unittest.main()
