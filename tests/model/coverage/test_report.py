#!/usr/bin/env python3
"""Tests report.py: it must notice an uncovered line, an explanation that is no longer true, a broken table, and wrong counts."""
import contextlib
import io
import pathlib
import struct
import tempfile
import unittest

import report

SOURCE = ["int f(void)", "{", "    if (g())", "        return 1;", "    h();", "    return 2;", "}"]


class Explained(unittest.TestCase):
    def complaints(self, counts, rows):
        with tempfile.TemporaryDirectory() as folder:
            report.ROOT = pathlib.Path(folder)
            (report.ROOT / "src").mkdir()
            (report.ROOT / "src/f.c").write_text("\n".join(SOURCE))
            return report.unexplained({"src/f.c": counts}, rows)[0]

    def test_all_covered(self):
        self.assertEqual(self.complaints({3: 1, 4: 2}, []), [])

    def test_not_explained(self):
        self.assertEqual(self.complaints({3: 1, 4: 0}, []), ["src/f.c:4: not covered, not explained: return 1;"])

    def test_explained(self):
        self.assertEqual(self.complaints({3: 1, 4: 0}, [("src/f.c", "return 1;", "", "why")]), [])

    def test_explained_but_covered(self):
        self.assertIn("but covered", self.complaints({3: 1, 4: 1}, [("src/f.c", "return 1;", "", "why")])[0])

    def test_at_times(self):
        for count in 0, 1:
            self.assertEqual(self.complaints({3: 1, 4: count}, [("src/f.c", "return 1;", "", "at times: why")]), [])

    def test_gone(self):
        self.assertIn("not there any more", self.complaints({3: 1}, [("src/f.c", "return 3;", "", "why")])[0])
        self.assertIn("not there any more", self.complaints({3: 1}, [("src/g.c", "return 1;", "", "why")])[0])

    def test_range(self):
        rows = [("src/f.c", "h();", "return 2;", "why")]
        self.assertEqual(self.complaints({3: 1, 5: 0, 6: 0}, rows), [])
        self.assertEqual(len(self.complaints({3: 1, 4: 0, 5: 0, 6: 0}, rows)), 1)

    def test_table(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "explained.txt"
            table.write_text("# nothing\nsrc/f.c | h(); ... return 2; | why\n")
            self.assertEqual(list(report.explanations(table)), [("src/f.c", "h();", "return 2;", "why")])
            table.write_text("src/f.c | h();\n")
            with self.assertRaises(SystemExit):
                list(report.explanations(table))


class Profile(unittest.TestCase):
    FOUND = {"names": (0x100, b"abc"), "cnts": (0x1000, bytes(16)), "data": (0x2000, bytes(48))}

    def test_form(self):
        raw = report.raw_profile(self.FOUND, bytes(16), 8)
        self.assertEqual(struct.unpack_from("<Q", raw)[0], report.MAGIC)
        self.assertEqual(len(raw) % 8, 0)

    def test_counts_of_another_program(self):
        with self.assertRaises(SystemExit):
            report.raw_profile(self.FOUND, bytes(24), 8)

    def test_sum(self):
        self.assertEqual(report.sum_of(b"", ord("a")), "af63dc4c8601ec8c")  # published values of FNV-1a
        self.assertEqual(report.sum_of(b"fooba", ord("r")), "85944171f73967e8")

    def test_no_program(self):
        self.assertIsNone(report.sections(__file__))


class Total(unittest.TestCase):
    def test_percentage(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            total = report.table({"src/span/a.c": {1: 1, 2: 0}, "src/slab/b.c": {1: 3, 2: 1}}, {"src/span/a.c": {2}, "src/slab/b.c": set()})
        self.assertEqual(total, 75)
        self.assertIn("span", out.getvalue())


if __name__ == "__main__":
    unittest.main()
