#!/usr/bin/env python3
"""Tests plant.py itself: it plants faults at the right place, complains if it cannot plant one, and counts the faults that were missed."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import plant

TEXT = "void f(void)\n{\n    if (a < b)\n        g();\n    h();\n    h();\n}\n"


def fault(old, new="", name="n", file="src/f.c", found_by="unit_f"):
    return plant.Fault(name, "what", file, old, new, found_by)


class Planted(unittest.TestCase):
    def test_across_lines(self):
        self.assertIn("if (a <= b) g();", plant.planted(fault("if (a < b) g();", "if (a <= b) g();"), TEXT))

    def test_text_that_is_gone(self):
        self.assertIsNone(plant.planted(fault("if (a > b)"), TEXT))

    def test_text_that_is_twice(self):
        self.assertIsNone(plant.planted(fault("h();"), TEXT))

    def test_no_fault(self):
        self.assertIsNone(plant.planted(fault("g();", "g();"), TEXT))

    def test_complaints(self):
        with tempfile.TemporaryDirectory() as folder:
            plant.ROOT = pathlib.Path(folder)
            (plant.ROOT / "src").mkdir()
            (plant.ROOT / "src/f.c").write_text(TEXT)
            self.assertEqual(list(plant.check([fault("g();")])), [])
            self.assertIn("2 times", "".join(plant.check([fault("h();")])))
            self.assertIn("two of that name", "".join(plant.check([fault("g();"), fault("if (a < b)")])))
            self.assertIn("there is no", "".join(plant.check([fault("g();", file="src/g.c")])))


class Told(unittest.TestCase):
    def wrong(self, results, known=None):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            wrong = plant.told(results, known or {})
        return wrong, out.getvalue()

    ROW = {"name": "n", "what": "w", "file": "f"}

    def test_found(self):
        wrong, text = self.wrong([{**self.ROW, "found_by": "unit_f"}])
        self.assertEqual(wrong, [])
        self.assertIn("1 planted, 1 found (100.0 %)", text)

    def test_missed(self):
        row = {**self.ROW, "found_by": None}
        self.assertEqual(len(self.wrong([row])[0]), 1)
        self.assertEqual(self.wrong([row], {"n": "why"})[0], [])

    def test_listed_as_missed_but_found(self):
        self.assertEqual(len(self.wrong([{**self.ROW, "found_by": "unit_f"}], {"n": "why"})[0]), 1)

    def test_does_not_compile(self):
        self.assertEqual(len(self.wrong([{**self.ROW, "found_by": None, "error": "does not compile"}])[0]), 1)


    def test_undecided(self):
        row = {**self.ROW, "found_by": None, "undecided": "ninja took too long"}
        wrong, text = self.wrong([row, {**self.ROW, "name": "m", "found_by": "unit_f"}])
        self.assertEqual(wrong, [])
        self.assertIn("1 planted, 1 found (100.0 %), 0 missed", text)
        self.assertIn("undecided: n: ninja took too long", text)
        self.assertEqual(self.wrong([row], {"n": "why"})[0], [])


class Machine:
    """Replaces a Garden. `ends` lists the results of the builds and the runs of tests, in order."""

    def __init__(self, folder, *ends):
        self.tree, self.ends = folder, list(ends)

    def next(self):
        end = self.ends.pop(0)
        if end is plant.NoTime:
            raise plant.NoTime("it took too long")
        return end

    def compile(self, _targets):
        return self.next()

    def finds(self, _stage):
        return self.next(), []


class Planting(unittest.TestCase):
    STAGES = [("unit", ["unit"], []), ("short", ["all"], ["-L", "quick"])]

    def ends(self, *ends, how=plant.plant):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "src" / "f.c"
            path.parent.mkdir()
            path.write_text(TEXT)
            machine = Machine(pathlib.Path(folder), *ends)
            result = how(machine, fault("if (a < b)", "if (a <= b)"), [(n, t, a or ["-R", "."]) for n, t, a in self.STAGES])
            self.assertEqual(path.read_text(), TEXT)
            self.assertEqual(machine.ends, [])
        return result

    def test_found(self):
        result = self.ends(True, None, True, "quick_test")
        self.assertEqual((result["found_by"], result["stage"]), ("quick_test", "short"))

    def test_the_last_test_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            garden = plant.Garden.__new__(plant.Garden)
            garden.build, garden.targets = pathlib.Path(folder), {"libhakmem.so", "tests/a/test_calls", "tests/wrong/all"}
            (garden.build / "CTestTestfile.cmake").write_text("".join(
                f'add_test([=[{name}]=] "/usr/bin/python3" "run.py" "{folder}/{path}")\nset_tests_properties([=[{name}]=] PROPERTIES)\n'
                for name, path in (("calls", "tests/a/test_calls"), ("calls_twice", "tests/b/test_other"), ("wrong", "tests/wrong"))))
            self.assertEqual(garden.known("calls"), (["libhakmem.so", "tests/a/test_calls"], ["-R", "^calls$"]))
            self.assertEqual(garden.known("wrong"), (["libhakmem.so", "tests/wrong/all"], ["-R", "^wrong$"]))
            self.assertEqual(garden.known("none"), ([], []))

    def test_missed(self):
        self.assertIsNone(self.ends(True, None, True, None)["found_by"])

    def test_does_not_compile(self):
        self.assertEqual(self.ends(False)["error"], "does not compile")

    def test_no_time_to_build(self):
        result = self.ends(plant.NoTime)
        self.assertEqual(plant.told([result], {}), [])
        self.assertNotIn("error", result)

    def test_no_time_to_test(self):
        self.assertEqual(plant.told([self.ends(True, None, True, plant.NoTime)], {}), [])

    def test_missed_by_chance(self):
        miss = [True, None] * 2
        self.assertEqual(self.ends(*miss, True, "unit_f", how=plant.plant_surely)["found_by"], "unit_f")
        self.assertIsNone(self.ends(*miss, *miss, *miss, how=plant.plant_surely)["found_by"])
        self.assertIn("undecided", self.ends(*miss, plant.NoTime, how=plant.plant_surely))


class Garden(unittest.TestCase):
    def garden(self, until=None):
        garden = plant.Garden.__new__(plant.Garden)
        garden.tree, garden.until = pathlib.Path("/"), until
        return garden

    def test_ends(self):
        self.assertEqual(self.garden().run(["sh", "-c", "exit 3"], 60), 3)

    def test_too_long(self):
        with self.assertRaises(plant.NoTime):
            self.garden().run(["sleep", "600"], 0)
        with self.assertRaises(plant.NoTime):
            self.garden(until=0).run(["sleep", "600"], 600)


class Chosen(unittest.TestCase):
    def test_sure(self):
        """CI plants the faults that a unit test found, and none that is known to be missed."""
        found_by = {"found": "unit_f", "dear": "osfail", "missed": "", "new": "", "both": "unit_f"}
        table = [fault("g();", name=name, found_by=test) for name, test in found_by.items()]
        self.assertEqual([one.name for one in plant.sure(table, {"missed": "why", "both": "why"})], ["found"])

    def test_note(self):
        with tempfile.TemporaryDirectory() as folder:
            plant.HOME = pathlib.Path(folder)
            (plant.HOME / "faults.txt").write_text("# comment\n\na: what\nf.c\n- x\n= unit_old\n\nb: what\nf.c\n- y\n+ z\n")
            (plant.HOME / "results.json").write_text('[{"name": "a", "found_by": "unit_a"}, {"name": "b", "found_by": null}]')
            plant.note([plant.HOME / "results.json"])
            self.assertEqual([(one.name, one.new, one.found_by) for one in plant.faults()], [("a", "", "unit_a"), ("b", "z", "")])

    def test_by_seed(self):
        table = [fault("g();", name=f"n{i}") for i in range(20)]
        self.assertEqual(plant.chosen(table, "a"), plant.chosen(table, "a"))
        self.assertNotEqual(plant.chosen(table, "a"), plant.chosen(table, "b"))
        self.assertEqual(sorted(plant.chosen(table, "a")), sorted(table))


if __name__ == "__main__":
    unittest.main()
