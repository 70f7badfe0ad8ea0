"""Tests what is made of the ends of programs with mistakes: shares, tables, the picture, and costs beside the form without
protection. Run by CTest, or by hand: test_guard.py"""
import json
import tempfile
import unittest
from pathlib import Path

import typer

import guard
import guard_cost
import guard_tables
import mistakes
from guard_peers import BUILT, MODES, finders
from results import Unfit, layout

KIND = mistakes.kinds()[0]
WAYS = {way: ["message step"] * len(KIND.sizes) for way in KIND.ways}


def document(**more: object) -> dict:
    """Two forms; the second misses all that there is, but for one case in three tries."""
    missed = {kind.name: {way: ["unnoticed"] * len(kind.sizes) for way in kind.ways} for kind in mistakes.kinds()}
    some = json.loads(json.dumps(missed))
    some[KIND.name]["once"][0] = "message later | unnoticed | unnoticed"
    some[mistakes.kinds()[1].name] = {way: ["none"] * len(KIND.sizes) for way in KIND.ways}
    forms = [form("hakmem", "hakmem"), form("weak", "hakmem")]
    return {"format": guard.FORMAT, "began": "2026-01-01 00:00:00 +0000", "machine": {"cpu": "a"}, "hakmem": {"commit": "0123456789abcdef"},
            "forms": forms, "tries": 3, "outcomes": {"hakmem": missed | {KIND.name: WAYS}, "weak": some},
            "said": {"hakmem": {KIND.name: "hakmem: a | b"}, "weak": {}}, "notes": ["one is not here"], **more}


def form(name: str, base: str) -> dict[str, str]:
    return {"name": name, "version": "1", "base": base, "about": "", "role": "hakmem" if name == "hakmem" else "peer"}


class Shares(unittest.TestCase):
    def test_only_cases_that_can_be_made_count_and_what_broke_down_is_not_caught(self):
        for found, share in ("message none unnoticed", 0.5), ("none", None), ("crashed hung fault absent", 0.5):
            self.assertEqual(guard_tables.share(found.split()), share)

    def test_cells(self):
        told, missed = ["message"], ["unnoticed"]
        cells = {"all": told * 3, "·": missed * 3, "no call": ["none"] * 3, "1/2": told * 3 + missed * 3, "0.3/2": told + missed * 5}
        for text, found in cells.items():
            self.assertEqual(guard_tables.cell(found, 3), text)

    def test_tries_that_differ_are_all_counted(self):
        found = guard_tables.words(document(), "weak", KIND.name)
        self.assertEqual((found.count("message"), len(found)), (1, 3 * len(list(KIND.cases()))))


class Tables(unittest.TestCase):
    def test_each_kind_has_a_row(self):
        text = guard_tables.kinds_table(document())
        for row in ("no call", *(f"| {kind.title} |" for kind in mistakes.kinds())):
            self.assertIn(row, text)

    def test_a_bar_in_a_message_is_no_column(self):
        self.assertIn("`hakmem: a \\| b`", guard_tables.said(document()))

    def test_the_picture_has_each_row_and_column(self):
        svg = guard_tables.picture(document())
        for text in (KIND.name.replace("_", " "), "weak", "Who catches which mistake", "var(--hakmem)"):
            self.assertIn(text, svg)

    def test_paste_leaves_what_was_not_measured(self):
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "page.md"
            page.write_text("a\n<!-- guard:summary -->\nold\n<!-- /guard -->\n<!-- guard:cost -->\nkept\n<!-- /guard -->\n")
            guard_tables.paste(document(), page)
            text = page.read_text()
            self.assertIn("| weak |", text)
            self.assertNotIn("old", text)
            self.assertIn("kept", text)
            page.write_text("<!-- guard:nothing -->\n<!-- /guard -->\n")
            self.assertRaises(Unfit, guard_tables.paste, document(), page)


class Costs(unittest.TestCase):
    COUNTED = {"lua": {"hakmem": {"instructions_m": 10.0}, "weak": {"instructions_m": 20.0}},
               "perl": {"hakmem": {"instructions_m": 10.0}, "weak": {"instructions_m": 5.0}},
               "loop-64": {"hakmem": {"instructions_m": 10.0}, "weak": {}}}

    def test_a_mean_of_ratios(self):
        mean = guard_cost.relative(self.COUNTED, "weak", "hakmem", "instructions_m", ["lua", "perl"])
        self.assertAlmostEqual(mean, 1.0)
        self.assertIsNone(guard_cost.relative(self.COUNTED, "weak", "hakmem", "instructions_m", ["loop-64"]))
        self.assertIsNone(guard_cost.relative(self.COUNTED, "weak", "absent", "instructions_m", ["lua"]))

    def test_time_is_judged_by_rounds(self):
        timed = {"lua": {"hakmem": [1.0, 2.0, 4.0], "weak": [1.1, 2.2, 4.4]}}
        for ratio in guard_tables.round_ratios(timed, "weak", "hakmem", ["lua"]):
            self.assertAlmostEqual(ratio, 1.1)
        self.assertEqual(guard_tables.time_text(timed, "weak", "hakmem", ["perl"]), "-")

    def test_only_protections_have_a_cost(self):
        text = guard_tables.cost(document(counted=self.COUNTED))
        self.assertIn("| weak | hakmem | 1.00 × |", text)
        self.assertNotIn("| hakmem | hakmem |", text)


class Documents(unittest.TestCase):
    def test_the_layout_keeps_the_document(self):
        self.assertEqual(json.loads(layout(document())), document())

    def test_parts_are_put_together(self):
        whole = guard.merge([document(), document(counted={"lua": {}}, notes=["slow"])])
        self.assertEqual(whole["notes"], ["one is not here", "slow"])
        self.assertIn("counted", whole)

    def test_allocators_that_were_measured_apart(self):
        late = document(forms=[form("late", "hakmem")], outcomes={"late": {}}, counted={"lua": {"late": {}}})
        whole = guard.merge([document(counted={"lua": {"weak": {}}}), late])
        self.assertEqual([each["name"] for each in whole["forms"]], ["hakmem", "weak", "late"])
        self.assertEqual(list(whole["outcomes"]), ["hakmem", "weak", "late"])
        self.assertEqual(list(whole["counted"]["lua"]), ["weak", "late"])

    def test_strangers_are_not(self):
        for documents in ([document(), document(machine={"cpu": "another"})], [document(), document(tries=1)], [{"format": "hakmem-bench/1"}]):
            self.assertRaises(Unfit, guard.merge, documents)

    def test_rows(self):
        for rows, asked in ("guard", True), ("guard.timed", True), ("P1,P4", False), (None, False):
            self.assertEqual(guard.is_asked_for(rows), asked)
        self.assertEqual(guard.parts_of("guard.timed,guard.counted"), ["guard.timed", "guard.counted"])
        self.assertRaises(typer.BadParameter, guard.parts_of, "guard.nothing")

    def test_each_protection_has_a_form_without_it(self):
        for source, base, _ in BUILT:
            self.assertIn(base, finders(), source.name)
        self.assertEqual(MODES[0].options, {})


if __name__ == "__main__":
    unittest.main()
