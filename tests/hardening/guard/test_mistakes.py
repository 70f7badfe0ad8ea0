#!/usr/bin/env python3
"""Tests how the end of a program with a mistake is read, and that a mistake goes unnoticed if no allocator looks for it. Usage:
test_mistakes.py build/bench build/libhakmem.so"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
import guard_peers  # noqa: E402
import mistakes  # noqa: E402

LIBRARY, BENCH = Path(sys.argv.pop()), Path(sys.argv.pop())
PROGRAM = BENCH / "mistake"
KINDS = {kind.name: kind for kind in mistakes.kinds()}
TOLD, EFFECT = KINDS["overflow_1"], KINDS["double_free"]
MADE, HAD, NONE, ENDED = (f"mistake: {what}" for what in ("made", "effect", "no effect", "ended"))


def read(kind, *lines, status=0):
    seen = mistakes.outcome(kind, list(lines), status)
    return seen.word, seen.when


class Reading(unittest.TestCase):
    def test_nobody_noticed(self):
        self.assertEqual(read(TOLD, MADE, ENDED), ("unnoticed", ""))
        self.assertEqual(read(EFFECT, MADE, HAD, ENDED), ("unnoticed", ""))

    def test_only_kinds_that_look_for_an_effect_can_lack_it(self):
        self.assertEqual(read(EFFECT, MADE, NONE, ENDED), ("absent", "step"))
        self.assertEqual(read(TOLD, MADE, NONE, ENDED), ("unnoticed", ""))

    def test_a_message_counts_at_the_step_later_and_at_exit(self):
        self.assertEqual(read(TOLD, "oops", status=-6), ("message", "step"))
        self.assertEqual(read(TOLD, MADE, "oops", ENDED), ("message", "later"))
        self.assertEqual(read(EFFECT, MADE, HAD, ENDED, "oops", status=-6), ("message", "exit"))

    def test_a_fault_is_a_guard_at_the_step_and_damage_later(self):
        self.assertEqual(read(TOLD, status=-11), ("fault", "step"))
        self.assertEqual(read(TOLD, MADE, status=-11), ("crashed", "later"))
        self.assertEqual(read(TOLD, MADE, status=-6), ("ended", "later"))

    def test_damage_is_not_caught(self):
        for word in ("message", "ended", "fault", "absent"):
            self.assertTrue(mistakes.Outcome(word, "", "").caught)
        for word in ("crashed", "hung", "unnoticed", "none"):
            self.assertFalse(mistakes.Outcome(word, "", "").caught)

    def test_a_call_that_is_not_there(self):
        self.assertEqual(read(TOLD, "mistake: not offered"), ("none", ""))

    def test_without_the_mistake_any_word_is_a_complaint(self):
        for seen in (("message", "later", "oops"), ("crashed", "later", ""), ("hung", "", "")):
            self.assertTrue(mistakes.complaint_when_sound(TOLD, mistakes.Outcome(*seen)))
        self.assertTrue(mistakes.complaint_when_sound(EFFECT, mistakes.Outcome("unnoticed", "", "")))
        self.assertFalse(mistakes.complaint_when_sound(TOLD, mistakes.Outcome("unnoticed", "", "")))
        self.assertFalse(mistakes.complaint_when_sound(EFFECT, mistakes.Outcome("absent", "step", "")))


class Table(unittest.TestCase):
    def test_each_row_is_read(self):
        rows = mistakes.TABLE.read_text().count("\nMISTAKE(")
        self.assertEqual(rows, len(KINDS))
        self.assertEqual({kind.family for kind in KINDS.values()}, set(mistakes.FAMILIES))

    def test_the_program_knows_each_kind(self):
        """Runs each kind on the C library without the mistake. None of them may complain."""
        cases = [mistakes.Case(kind, kind.sizes[0], "once") for kind in KINDS.values()]
        seen = mistakes.run_all(PROGRAM, cases, mistakes.environment({}), sound=True)
        wrong = [f"{case}: {said}" for case, outcomes in seen.items() if (said := mistakes.complaint_when_sound(case.kind, outcomes[0]))]
        self.assertEqual(wrong, [])

    def test_a_wrong_program_is_seen(self):
        """The C library finds a second free at once, and it never finds a read of one byte behind a block."""
        env = mistakes.environment({})
        self.assertEqual(mistakes.run(PROGRAM, mistakes.Case(EFFECT, 24, "once"), env).word, "message")
        self.assertEqual(mistakes.run(PROGRAM, mistakes.Case(KINDS["memcpy_read_32"], 24, "once"), env).word, "unnoticed")

    def test_an_unknown_kind_is_no_mistake(self):
        stranger = mistakes.Kind("stranger", "free", "TOLD", (8,), ("once",), "")
        seen = mistakes.run(PROGRAM, mistakes.Case(stranger, 8, "once"), mistakes.environment({}))
        self.assertIn("no kind 'stranger'", seen.said)


class Modes(unittest.TestCase):
    """A mode that the library does not know is left out, because it would be the default mode under another name."""

    def knows(self, options):
        return guard_peers.knows(LIBRARY, options, BENCH / "bench_idle")

    def test_what_it_knows(self):
        self.assertTrue(self.knows({}))
        self.assertTrue(self.knows({"HAKMEM_DEEPBIND": "keep"}))

    def test_an_unknown_option_or_word(self):
        self.assertFalse(self.knows({"HAKMEM_NO_SUCH_GUARD": "1"}))
        self.assertFalse(self.knows({"HAKMEM_DEEPBIND": "strictly"}))

    def test_only_libraries_that_are_there(self):
        found, missing = guard_peers.find_modes(LIBRARY.parent / "nowhere", BENCH / "bench_idle")
        self.assertEqual((found, len(missing)), ([], len(guard_peers.MODES)))


if __name__ == "__main__":
    unittest.main()
