"""Tests check_models.py: a sound model passes, and each defect of a model is reported."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from check_models import SOUND, Fault, fingerprint, judge, proved, read_model, record

HERE = Path(__file__).resolve().parent
TEXT = """/* Toy.
 * Threads  2
 * Fault 1, assertion: no lock
 * Fault 2, end: the lock is kept
 * Fault 3, assertion: counts twice */
#include "common.pml"
byte gate = FREE, count, seen;
proctype Thread()
{
#if FAULT != 1
    lock(gate);
#endif
    seen = count;
    count = seen + 1;
#if FAULT == 3
    count++;
#endif
    assert(count == seen + 1);
#if FAULT == 1
    skip
#elif FAULT != 2
    unlock(gate)
#endif
}
init { atomic { run Thread(); run Thread() } }
"""
FULL = "Full statespace search for:\n\tassertion violations\t+\n\tinvalid end states\t+\n"
STORED = "\n     42 states, stored\n"
# Line 3 occurs in two places.
STEPS = """proctype A
\tstate   4 -(tr   8)-> state  15  [id  16 tp   2] [----G] /a/x.pml:3 => a = 1
proctype B
\tstate   4 -(tr   8)-> state  15  [id  16 tp   2] [----G] /a/x.pml:3 => a = 1
init
\tstate   4 -(tr   8)-> state  15  [id  16 tp   2] [----G] /a/x.pml:5 => a = 2
"""

# The output of the checker, the way in which the fault is found, and the error that must be reported, if any.
VERDICTS = (
    (f"{FULL}errors: 0{STORED}", SOUND, ""),
    (f"pan:1: assertion violated (x)\n{FULL}errors: 1{STORED}", SOUND, "assertion violated"),
    (f"error: max search depth too small\n{FULL}errors: 0{STORED}", SOUND, "cut short"),
    (f"pan: out of memory\n{FULL}errors: 0{STORED}", SOUND, "cut short"),
    (f"Warning: Search not completed\n{FULL}errors: 0{STORED}", SOUND, "cut short"),
    (f"errors: 0{STORED}", SOUND, "nothing was searched"),
    (f"{FULL}errors: 0\n  0 states, stored", SOUND, "nothing was searched"),
    ("", SOUND, "no verdict"),
    (f'{FULL}errors: 0{STORED}unreached in proctype A\n\tx.pml:3, state 4, "a = 1"\n', SOUND, ""),
    (f'{FULL}errors: 0{STORED}unreached in init\n\tx.pml:5, state 4, "a = 2"\n', SOUND, "x.pml:5"),
    (f'{FULL}errors: 0{STORED}unreached in init\n\tx.pml:5, state 4, "-end-"\n', SOUND, ""),
    (f"pan:1: invalid end state\n{FULL}errors: 1{STORED}", Fault(1, "end", ""), ""),
    (f"pan:1: invalid end state\n{FULL}errors: 1{STORED}", Fault(1, "assertion", ""), "found, but"),
    (f"{FULL}errors: 0{STORED}", Fault(1, "end", ""), "not found"),
)


class Verdicts(unittest.TestCase):
    def test_verdicts(self) -> None:
        for said, fault, expected in VERDICTS:
            with self.subTest(said=said, fault=fault):
                trouble = judge(said, STEPS, fault)
                self.assertIn(expected, trouble)
                self.assertEqual(bool(expected), bool(trouble))


class Proved(unittest.TestCase):
    def test_a_change_is_noticed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, marks = Path(folder) / "toy.pml", Path(folder) / "proved.txt"
            marks.write_text("# head\nno_such_model 0\n")
            model.write_text(TEXT)
            toy = read_model(model)
            before = fingerprint(toy)
            record([toy], marks)
            self.assertEqual(marks.read_text(), f"# head\ntoy {before}\n")
            self.assertEqual(proved(marks), {"toy": before})
            model.write_text(TEXT.replace("count++", "count--"))
            self.assertNotEqual(fingerprint(toy), before)


@unittest.skipUnless(shutil.which("spin"), "spin is missing")
class Models(unittest.TestCase):
    def run_it(self, text: str, *more: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HERE / "common.pml", folder)
            model = Path(folder) / "toy.pml"
            model.write_text(text)
            command = [sys.executable, str(HERE / "check_models.py"), str(model), *more]
            ended = subprocess.run(command, capture_output=True, text=True)
            return ended.returncode, ended.stdout + ended.stderr

    def change(self, old: str, new: str) -> str:
        self.assertIn(old, TEXT)
        return TEXT.replace(old, new)

    def test_a_sound_one(self) -> None:
        code, said = self.run_it(TEXT)
        self.assertEqual(code, 0, said)
        self.assertIn("3 of 3", said)

    def test_a_fault_that_is_none(self) -> None:
        code, said = self.run_it(self.change("    count++;\n", ""))
        self.assertEqual(code, 1)
        self.assertIn("fault 3 (counts twice): the fault was not found", said)

    def test_one_that_is_not_recorded(self) -> None:
        self.assertIn("0 of 1 models have not changed", self.run_it(TEXT, "--changed")[1])
        self.assertEqual(self.run_it(self.change("    count++;\n", ""), "--changed")[0], 1)

    def test_an_unsound_one(self) -> None:
        text = self.change("#if FAULT != 1\n    lock", "#if FAULT == 2\n    lock")
        code, said = self.run_it(text, "--sound")
        self.assertEqual(code, 1)
        self.assertIn("assertion violated", said)

    def test_a_search_that_is_cut_short(self) -> None:
        code, said = self.run_it(TEXT, "--sound", "--depth", "3")
        self.assertEqual(code, 1)
        self.assertIn("cut short", said)

    def test_what_is_not_understood(self) -> None:
        for old, new in (
                (" * Threads  2\n", ""), ("Threads  2", "Threads  4"), ("Fault 3", "Fault 4"),
                ("FAULT == 3", "FAULT == 2"), ("lock(gate);", "lock(;")):
            with self.subTest(new):
                self.assertEqual(self.run_it(self.change(old, new), "--sound")[0], 1)


if __name__ == "__main__":
    unittest.main()
