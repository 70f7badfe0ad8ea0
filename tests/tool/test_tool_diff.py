"""Checks hakmem diff: the sum of the terms must be exact to the byte, and the terms must name the cause of the growth."""

import gzip
import json
import math
import os
import random
import re
import shutil
import subprocess
import unittest
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Optional

from hakmem import attached, difference, flame, profiles, reports
from hakmem.difference import Estimate, Row, Stack, Stacks
from hakmem.sources import Frame, Sources
from tool import LIBRARY, PLAIN, PROGRAMS, PYTHON, TOOL, ToolTest

GROW = str(PROGRAMS / "test_tool_grow")
MEAN = 16 << 10
# Nothing is purged while the program runs, and no huge pages round amounts up.
SETTLED = {"HAKMEM_PURGE_DELAY": "3600000", "HAKMEM_HUGE_PAGES_FROM": "0", "HAKMEM_HUGE_BLOCKS_FROM": "0", "HAKMEM_BACKGROUND": "0"}
MIB = 1 << 20
BASE = ("live", "4096")
RECORD = r"^touched \(grow\.c:\d+\) < make_record \(grow\.c:\d+\) < "
OFF = 1000  # the terms may differ from the RSS by one part in this number


class Differing(ToolTest):
    def grow(self, name: str, *words: str, sample: bool = True, **more: str) -> Path:
        sampling = {"HAKMEM_HEAP_SAMPLE": str(MEAN)} if sample else {}
        return self.preloaded(f"{name}.json", GROW, *BASE, *words, **(SETTLED | sampling | more))

    def preloaded(self, report: str, *words: str, **more: str) -> Path:
        own = {name: value for name, value in self.env.items() if name != "HAKMEM_LIBRARY"}
        own |= {"LD_PRELOAD": LIBRARY, "HAKMEM_REPORT": str(self.folder / report)}
        subprocess.run(words, env=own | more, cwd=self.folder, check=True, stdin=subprocess.DEVNULL)
        return self.folder / report

    def compared(self, a: str, b: str, symbols: Optional[str] = None) -> dict:
        """Returns what `hakmem diff A B --json` prints."""
        folder = self.folder / symbols if symbols else None
        sides = [difference.load(self.folder / name, folder) for name in (a, b)]
        found = json.loads(json.dumps(difference.as_json(difference.between(*sides))))
        self.check(found)
        return found

    def check(self, found: dict) -> None:
        """Checks that the terms add up to the difference, and the parts to their terms, for A, for B and for the change."""
        for key, total in (("a", found["a"]["bytes"]), ("b", found["b"]["bytes"]), ("change", found["change"])):
            self.assertEqual(sum(term[key] for term in found["terms"]), total)
            for term in found["terms"]:
                if term["parts"]:
                    self.assertEqual(sum(part[key] for part in term["parts"]), term[key], term["name"])
        off = max(abs(term[key]) for term in found["terms"] for key in ("a", "b") if term["name"] == "changed during the report") if found["of"] == "RSS" else 0
        self.assertLessEqual(off, max(found["a"]["bytes"], found["b"]["bytes"]) / OFF)

    def term(self, found: dict, name: str) -> dict:
        return next(term for term in found["terms"] if term["name"] == name)


class Reports(Differing):
    def test_each_cause_is_the_largest_term(self) -> None:
        self.grow("base")
        for words, name, least in (
            (("live", "16384"), "live", 15 * MIB),
            (("pinned", "32768"), "free in slabs", 12 * MIB),
            (("freed", "40960"), "idle", 20 * MIB),
            (("cached", "16384"), "caches", 15 * MIB),
            (("others", "16384"), "not HAKMEM's", 15 * MIB),
        ):
            with self.subTest(name):
                self.grow("more", *words)
                found = self.compared("base.json", "more.json")
                self.assertEqual(found["terms"][0]["name"], name)
                self.assertGreaterEqual(found["terms"][0]["change"], least)
                back = self.compared("more.json", "base.json")
                self.assertEqual(back["terms"][0]["change"], -found["terms"][0]["change"])

    def test_rounding_by_class(self) -> None:
        self.grow("even", "live", "16384")
        self.grow("odd", "odd", "16384")
        rounding = self.term(self.compared("even.json", "odd.json"), "rounding")
        self.assertEqual(rounding["parts"][0]["name"], "blocks of 1.1 KiB")
        self.assertGreater(rounding["parts"][0]["change"], MIB)

    def test_live_bytes_by_call_site(self) -> None:
        self.grow("base")
        self.grow("more", "live", "16384", "pinned", "8192")
        found = self.compared("base.json", "more.json")
        live = self.term(found, "live")
        record = next(part for part in live["parts"] if re.search(RECORD, part["name"]))
        self.assertGreater(record["change"], 10 * MIB)
        self.assertLess(record["change"], 24 * MIB)
        self.assertTrue(any(frame.startswith("main (grow.c:") for frame in record["frames"]), record)

    def test_few_samples_give_the_exact_bytes_of_a_class(self) -> None:
        """Only this site allocates blocks of this class. Its samples alone would be off by a fifth."""
        few = {"HAKMEM_HEAP_SAMPLE": "128k"}
        self.grow("base", **few)
        self.grow("more", "live", "9728", **few)
        record = next(part for part in self.term(self.compared("base.json", "more.json"), "live")["parts"] if re.search(RECORD, part["name"]))
        self.assertAlmostEqual(record["change"], 9728 << 10, delta=64 << 10)
        self.assertTrue(0 < record["error"] < 3 * MIB, record)
        self.assertRegex(self.ok("diff", "base.json", "more.json"), r"\+9\.\d MiB ± \d+\.\d [KM]iB .* make_record")

    def test_survivors_that_pin_free_blocks(self) -> None:
        self.grow("base")
        self.grow("more", "pinned", "32768")
        slabs = self.term(self.compared("base.json", "more.json"), "free in slabs")
        first = slabs["parts"][0]
        self.assertRegex(first["name"], r"^pinned by touched \(grow\.c:\d+\) < make_keeper \(grow\.c:")
        self.assertGreater(first["change"], slabs["change"] / 2)
        self.assertFalse([part for part in slabs["parts"] if "make_request" in part["name"] and part["change"] > MIB])

    def test_without_samples(self) -> None:
        self.grow("base", sample=False)
        self.grow("more", "live", "16384", "pinned", "32768", sample=False)
        found = self.compared("base.json", "more.json")
        self.assertEqual(self.term(found, "live")["parts"][0]["name"], "blocks of 1.0 KiB")
        self.assertRegex(self.term(found, "free in slabs")["parts"][0]["name"], r"pinned in slabs of blocks of \d+ B")
        self.assertIn("HAKMEM_HEAP_SAMPLE", found["notes"][0])

    def test_huge_pages(self) -> None:
        """Slices that only a huge page made resident and idle slices are two terms. Together they are the part `idle`."""
        report = json.loads(self.grow("more", "freed", "40960", HAKMEM_HUGE_PAGES_FROM="1m").read_text())
        self.grow("base")
        found = self.compared("base.json", "more.json")
        both = self.term(found, "idle")["b"] + self.term(found, "huge pages")["b"]
        self.assertEqual(both, report["resident_parts"]["idle"])
        self.assertEqual(self.term(found, "huge pages")["b"], report["resident_idle"]["of_huge_pages"])

    def test_magazines(self) -> None:
        self.grow("base")
        self.grow("more", "pinned", "32768")
        caches = self.term(self.compared("base.json", "more.json"), "caches")
        depots = next(part for part in caches["parts"] if part["name"] == "magazines in depots")
        self.assertGreater(depots["change"], MIB)

    def test_sums_that_are_off_are_noticed(self) -> None:
        report = json.loads(self.grow("a").read_text())
        (self.folder / "off.json").write_text(json.dumps(report | {"resident": report["resident"] + report["resident"] // 500}))
        with self.assertRaises(AssertionError):
            self.compared("a.json", "off.json")

    def test_settings_that_differ(self) -> None:
        self.grow("a")
        self.grow("b", HAKMEM_PURGE_DELAY="500", HAKMEM_LARGE_CACHE="64m")
        found = self.compared("a.json", "b.json")
        rows = {row["name"]: (row["a"], row["b"]) for row in found["settings"]}
        self.assertEqual(rows["purge_delay"], ("3 600 000 ms", "500 ms"))
        self.assertEqual(rows["large_cache"], ("128m", "64m"))
        self.assertRegex(self.ok("diff", "a.json", "b.json"), r"large_cache +128m +64m")

    def test_real_programs(self) -> None:
        """Python with threads has memory in all states. The sums must be exact."""
        work = "import json, sys, threading\nleft = []\ndef work():\n    kept = [json.loads('[1, {\"a\": [2.5, \"text\"]}]' * 1) for _ in range(%d)]\n    del kept[::3]\n    left.append(kept[::4])\nall = [threading.Thread(target=work) for _ in range(4)]\n[t.start() for t in all]\n[t.join() for t in all]\nbig = [bytearray(3 << 20) for _ in range(6)][:3]\n"
        for name, amount in (("a", 2000), ("b", 30000)):
            self.preloaded(f"{name}.json", PYTHON, "-c", work % amount, PYTHONMALLOC="malloc", HAKMEM_HEAP_SAMPLE="64k", **SETTLED)
        found = self.compared("a.json", "b.json")
        self.assertGreater(found["change"], MIB)

    def test_two_moments_of_a_process_that_runs(self) -> None:
        program = self.start(*TOOL, "run", "--set", "report_every=50", "--set", "background=1", "--", GROW, "live", "2048", "sleep", "1", "live", "8192", "sleep", "1")
        self.assertEqual(program.stdout.readline(), "ready\n")
        live = self.live / f"{program.pid}.json"
        self.wait_for(lambda: live.exists() and (reports.read(live) or reports.Report({})).resident, "a report")
        shutil.copy(live, self.folder / "before.json")
        found = json.loads(self.ok("diff", "--json", "before.json", str(program.pid)))
        self.check(found)
        self.assertEqual(found["b"]["process"], program.pid)

    def test_text(self) -> None:
        self.grow("a")
        self.grow("b", "live", "16384")
        said = self.ok("diff", "a.json", "b.json")
        a, b = (json.loads((self.folder / f"{name}.json").read_text())["resident"] for name in "ab")
        self.assertIn(f"{b - a:+d} bytes", said)
        self.assertRegex(said, r"\n +\+1\d\.\d MiB +\d.*MiB +live ")
        self.assertRegex(said, r"= \+1\d\.\d MiB .*RSS")
        self.assertIn("make_record (grow.c:", said)

    def test_page(self) -> None:
        self.grow("a")
        self.grow("b", "live", "16384", "pinned", "8192")
        self.assertIn("wrote out.html", self.ok("diff", "a.json", "b.json", "--html", "out.html"))
        text = (self.folder / "out.html").read_text()
        asked: list[str] = []

        class Asked(HTMLParser):
            def handle_starttag(self, tag: str, attributes: list) -> None:
                asked.extend(value for name, value in attributes if name in ("src", "href"))

        Asked().feed(text)
        self.assertEqual(asked, [], "it must need nothing from elsewhere")
        drawn = json.loads(re.search(r"^const figures = (.*);$", text, re.MULTILINE)[1])
        bars = drawn["plot0"]["data"][0]
        steps = dict(zip(bars["y"], bars["x"]))
        self.assertAlmostEqual(sum(x for name, x in steps.items() if name not in "AB") + steps["A"], steps["B"], places=6)
        self.assertIn("make_keeper (grow.c:", text)
        self.assertIn("prefers-color-scheme: dark", text)
        self.refused(1, "out.html", "diff", "a.json", "b.json", "--html", "gone/out.html")

    def test_what_cannot_be_compared(self) -> None:
        report = json.loads(self.grow("a").read_text())
        self.refused(66, "No such file", "diff", "a.json", "gone.json")
        (self.folder / "text").write_text("{}")
        self.refused(66, "neither a JSON report", "diff", "a.json", "text")
        (self.folder / "blind.json").write_text(json.dumps({"served": {"malloc": 1}, "resident": 0}))
        self.refused(66, "does not tell what is resident", "diff", "a.json", "blind.json")
        (self.folder / "heap").write_text("heap profile: 1: 9 [1: 9] @ heap_v2/512\n1: 9 [1: 9] @ 0x10\n")
        self.refused(66, "one is a report", "diff", "a.json", "heap")
        (self.folder / "other").write_text("heap profile: 1: 9 [1: 9] @ heapprofile\n")
        self.refused(66, "not a heap profile of HAKMEM", "diff", "other", "heap")
        older = {key: value for key, value in report.items() if not key.startswith(("resident_c", "resident_i", "resident_rest", "sampled"))}
        (self.folder / "older.json").write_text(json.dumps(older))
        self.compared("older.json", "a.json")
        odd = report | {"resident_classes": [{"size": [1]}, 7], "sampled": {"mean": 9, "stacks": [3, {"frames": "x"}], "modules": {}}, "options": 3}
        (self.folder / "odd.json").write_text(json.dumps(odd))
        self.compared("odd.json", "a.json")


class Versions(Differing):
    """If a program has been replaced since the report, the names must come from the original file, or there must be none."""

    def test_a_replaced_program(self) -> None:
        program = self.folder / "grow"
        for name in "ab":
            shutil.copy(GROW, program)
            self.preloaded(f"{name}.json", str(program), "live", "8192", **SETTLED, HAKMEM_HEAP_SAMPLE=str(MEAN))
        os.utime(program, (4 << 30, 4 << 30))
        changed = self.compared("a.json", "b.json")
        self.assertTrue(self.term(changed, "live")["parts"][0]["frames"][0].startswith("grow+0x"))
        (self.folder / "kept").mkdir()
        shutil.copy(GROW, self.folder / "kept/grow")
        known = self.compared("a.json", "b.json", "kept")
        names = [part["name"] for part in self.term(known, "live")["parts"]]
        self.assertTrue(any(re.search(RECORD, name) for name in names), names)
        said = self.ok("diff", "a.json", "b.json", "--symbols-a", "kept", "--symbols-b", "kept")
        self.assertNotIn("grow+0x", said)


    def test_a_replaced_program_is_noticed_by_its_build_id(self) -> None:
        """Package managers give a new file an older time. If only the time of the same file has changed, its names are shown."""
        program = self.folder / "grow"
        shutil.copy(GROW, program)
        own = {"HAKMEM_HEAP_PROFILE": f"{self.folder}/a.heap", "HAKMEM_HEAP_SAMPLE": str(MEAN)}
        self.preloaded("a.json", str(program), "live", "8192", **own)
        os.utime(program, (4 << 30, 4 << 30))
        self.assertIn("grow.c:", self.ok("profile", "a.heap"))
        shutil.copy(PLAIN, program)
        os.utime(program, (0, 0))
        for command in ("leaks", "profile"):
            done = self.tool(command, "a.heap")
            self.assertIn(f"hakmem: {program} has changed since", done.stderr)
            self.assertNotIn("grow.c:", done.stdout)
        self.assertRegex(done.stdout, r"grow\+0x[0-9a-f]+")
        (self.folder / "kept").mkdir()
        shutil.copy(GROW, self.folder / "kept/grow")
        self.assertIn("make_record (grow.c:", self.ok("diff", "a.heap", "a.heap", "--symbols-a", "kept", "--symbols-b", "kept", "--json"))

    def test_only_files_with_code_have_their_build_ids_read(self) -> None:
        """The program may shorten a file of data at any time. A read of its first page would end the program."""
        own = {"HAKMEM_HEAP_PROFILE": f"{self.folder}/a.heap", "HAKMEM_HEAP_SAMPLE": str(MEAN)}
        script = "file = open(sys.argv[1]); data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); data.seek(0); bytes(1 << 20)"
        script = f"import ctypes, mmap, sys; {script}; ctypes.pythonapi.Py_IncRef(ctypes.py_object(data))"  # mapped until the end
        self.preloaded("a.json", PYTHON, "-c", script, PLAIN, **own)
        lines = (self.folder / "a.heap").read_text().splitlines()
        owners = [lines[at - 1] for at, line in enumerate(lines) if line.startswith("# build-id ")]
        self.assertTrue(any(LIBRARY in line for line in owners), owners)
        self.assertTrue(any(PLAIN in line for line in lines))
        self.assertFalse(any(PLAIN in line for line in owners), owners)

    def test_a_replaced_program_that_runs(self) -> None:
        program = self.folder / "grow"
        shutil.copy(GROW, program)
        running = self.start(str(program), "live", "16", "sleep", "1", LD_PRELOAD=LIBRARY)
        self.assertEqual(running.stdout.readline(), "ready\n")
        maps = attached.Attached(running.pid).maps()
        code = next(one for one in attached.mappings(maps) if one.path == str(program) and "x" in one.access)
        stack = (code.end - 8,)
        for changed in (set(), {str(program)}):
            sources = Sources(maps, running.pid)
            sources.learn([stack])
            self.assertEqual(sources.changed, changed)
            program.unlink()
            shutil.copy(PLAIN, program)
        self.assertEqual(sources.frames(stack), [Frame(f"grow+0x{code.offset + code.end - 9 - code.start:x}", module=str(program))])
        found = flame.pprof(profiles.Profile([profiles.Site(stack, 5, 1, 32, 1, 32)], maps, 1.0, 1), sources)
        self.assertIn(sources.build_ids[str(program)].encode(), gzip.decompress(found))


class Profiles(Differing):
    def test_heap_profiles(self) -> None:
        for name, words in (("a", ()), ("b", ("live", "16384"))):
            own = {"HAKMEM_HEAP_PROFILE": f"{self.folder}/{name}.heap", "HAKMEM_HEAP_SAMPLE": str(MEAN)}
            self.preloaded(f"{name}.json", GROW, *BASE, *words, **own)
        found = self.compared("a.heap", "b.heap")
        self.assertEqual(found["of"], "live")
        record = found["terms"][0]["parts"][0]
        self.assertRegex(record["name"], RECORD)
        self.assertTrue(10 * MIB < record["change"] < 24 * MIB, record)
        self.assertIn("live bytes", self.ok("diff", "a.heap", "b.heap", "--html", "out.html"))

    def test_samples_are_scaled_as_by_pprof(self) -> None:
        text = "heap profile: 3: 30 [9: 90] @ heap_v2/10\n2: 20 [4: 40] @ 0x10 0x20\n1: 1000 [1: 1000] @ 0x30\n0: 0 [1: 10] @ 0x40\n\nMAPPED_LIBRARIES:\n"
        found = difference.stacks_of_heap_profile(text, Path("x"))
        self.assertEqual([round(stack.live.bytes) for stack in found], [1000, 32])


class Sums(unittest.TestCase):
    def stacks(self, *stacks: tuple[str, int]) -> Stacks:
        return tuple(Stack((Frame(name),), Estimate(size, 9.0)) for name, size in stacks)

    def test_a_stack_of_one_side_only(self) -> None:
        parts = difference.by_site(self.stacks(("f", 10), ("g", 15)), self.stacks(("g", 40), ("h", 7)), "live", (30, 50))
        rows = {part.name: (part.a, part.b) for part in parts}
        self.assertEqual(rows, {"g": (15, 40), "h": (0, 7), "f": (10, 0), difference.OTHER_STACKS: (5, 3)})
        self.assertEqual({part.name: part.error for part in parts if part.error}, {"g": 8, "h": 6, "f": 6})

    def within(self, listed: int, chance: random.Random) -> float:
        """Returns how often the interval contains the right bytes, if a report lists the first sites of two classes."""
        mean, right = 1 << 19, {1000: (9 << 20, 3 << 20, 1 << 18), 100_000: (20 << 20, 10 << 20, 5 << 20)}
        exact = Counter({difference.bits_of(size): sum(sites) for size, sites in right.items()})
        hits, tries = 0, 0
        for _ in range(200):
            rows = []
            for size, sites in right.items():
                part = profiles.picked(size, mean)
                for site, live in enumerate(sites):
                    samples = sum(chance.random() < part for _ in range(live // size))
                    rows += [Row((size, site), size, samples * size / part)] if samples else []
            shown = [row for row in rows if row.addresses[1] < listed]
            for row, one in zip(shown, difference.scaled_estimates(shown, mean, "live", sum(row.live for row in rows), exact)):
                tries += 1
                hits += abs(one.bytes - right[row.addresses[0]][row.addresses[1]]) <= difference.Z * math.sqrt(one.variance)
        return hits / tries

    def test_intervals_of_sites_that_are_scaled_to_the_exact_bytes(self) -> None:
        chance = random.Random(20)
        self.assertGreater(self.within(3, chance), 0.92)
        self.assertGreater(self.within(2, chance), 0.85, "how much the others allocate in each class is a guess")

    def test_what_calls_main_is_left_out(self) -> None:
        frames = tuple(map(Frame, ("f", "main", "start")))
        self.assertEqual(difference.site_name(frames), "f < main")

    def test_an_address_without_a_module(self) -> None:
        self.assertEqual(Sources("").frames((16,)), [Frame("0x10")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
