"""Tests the checkers of the documents: a sound tree passes, and each change of one place is reported at that place."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_decisions
import check_glossary
import check_house
import check_systems
from check_names import check, check_scripts

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ["src/base/messages.def", "src/policy/options.def", "src/policy/profiles.def", "src/learn/signals.def", "src/count/decisions.def",
           "src/policy/classes.def", "src/count/stats.def", "src/report/parts.def", "src/report/class_stats.def",
           "src/report/heap_figures.def", "src/report/report_json.c", "src/prof/sites.c", "src/count/events.def", "src/guard/protections.def",
           *(f"docs/{name}.md" for name in ("CLASSES", "GUARD", "LEARNING", "MESSAGES", "OPTIONS", "PROFILING", "STATS")), "bench/results/decisions.md"]

CODE = """/* helper(x) */
int called(int a);
static int helper(int a)
{
    return called(a);
}
HK_INLINE int short_one(void) { return 1; }
#define HK_FORGET(x) (x)
struct hk_os { int (*purge)(void); };
"""

# A text of a document -> the report that it must cause, or None if there must be no report.
SAYINGS = {
    "`helper()` in `span/a.c` and `short_one()`": None,
    "`HK_FORGET()`, `HK_FORGET`, `span/a.c`, `src/span/a.c`, `hk_os.purge`": None,
    "[here](../src/span/a.c#top) and [there](https://example.org/x)": None,
    "`gone()`": "gone() is defined nowhere",
    "`called()` is declared and called only": "called() is defined nowhere",
    "`helper()` in `os/os.h`": "os/os.h does not define helper()",
    "`helper()` in\n`os/os.h`": "os/os.h does not define helper()",
    "`helper()` in `span/b.c`": "there is no file span/b.c",
    "`HK_GONE`": "src/ has no word HK_GONE",
    "`hk_os.gone`": "hk_os has no entry gone",
    "[here](gone.md)": "a link leads nowhere: gone.md",
    "[here](#b-it-s)\n## `b`: it s": None,
    "[here](X.md#b) ``` ```\n```\n# b\n```": "a link leads nowhere: X.md#b",
    "[here](#gone)": "a link leads nowhere: #gone",
}


# A script -> the variable that must be reported, or None if there must be no report.
VARIABLES = {
    ("tools/a.sh", "echo ${HAKMEM_VENV:-none}"): "HAKMEM_VENV",
    ("tools/a", "#!/bin/sh\necho $HAKMEM_CACHE"): "HAKMEM_CACHE",
    ("tests/a.py", 'os.environ.get("HAKMEM_EVERYWHERE")'): "HAKMEM_EVERYWHERE",
    ("tests/b.py", "os.environ['HAKMEM_PACKAGES']"): "HAKMEM_PACKAGES",
    ("tests/c.c", 'getenv("HAKMEM_FAST")'): "HAKMEM_FAST",
    ("cmake/a.cmake", "$ENV{HAKMEM_BUILD}"): "HAKMEM_BUILD",
    ("cmake/b.cmake", "${HAKMEM_TESTS}"): None,
    (".github/a.yml", "run: echo $HAKMEM_REPORT $HAKDEV_VENV"): None,
    ("bench/a.py", 'os.environ["HAKMEM_LIBRARY"]'): None,
}


class Variables(unittest.TestCase):
    def test_scripts(self) -> None:
        for (name, text), variable in VARIABLES.items():
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                for path, said in {name: text, "src/policy/options.def": "HK_OPT(TEXT, report, 0"}.items():
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                    (root / path).write_text(said)
                expected = [] if variable is None else [f"{name}: reads {variable}, which is no option: name it HAKDEV_{variable[7:]}"]
                self.assertEqual(check_scripts(root), expected)


class Names(unittest.TestCase):
    def test_sayings(self) -> None:
        for saying, expected in SAYINGS.items():
            with self.subTest(saying), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                for name, text in {"src/span/a.c": CODE, "src/os/os.h": CODE.split("#define")[1], "docs/X.md": saying}.items():
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
                said = check(root)
                if expected is None:
                    self.assertEqual(said, [])
                else:
                    self.assertIn(f"docs/X.md: {expected}", said)

    def test_a_model(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "tests/model/x.pml"
            model.parent.mkdir(parents=True)
            model.write_text("/* `gone()` in `span/a.c` */")
            self.assertEqual(check(Path(folder)), ["tests/model/x.pml: span/a.c does not define gone()",
                                                   "tests/model/x.pml: there is no file span/a.c"])


HEAD = "# Working\n\n## Glossary\n\n| term | meaning |\n|---|---|\n"
TERMS = "| slab | A run that is cut into blocks of one size. |\n| size class | One size. |\n| `inbox` | Where it lands; e.g.: here. |\n"
USED = """/* A slab has one size
 * class. */ "in a string: parcel"
struct hk_inboxes; static int ownersCount;
"""

# A change of the glossary, src/ or the map -> the report that it must cause, or None if there must be no report.
GLOSSARIES = {
    "sound": (HEAD + TERMS, USED, None),
    "another section follows": (HEAD + TERMS + "\n## Next\n\n| table | of another kind |\n", USED, None),
    "a word of an identifier": (HEAD + "| owner | Who has it. |\n", USED, None),
    "no heading": (HEAD.replace("## Gloss", "## Dict") + TERMS, USED, 'CONTRIBUTING.md has no heading "## Glossary"'),
    "no table": (HEAD.split("|")[0] + "Slab: a run.\n", USED, "CONTRIBUTING.md: the glossary has no table"),
    "another head": (HEAD.replace("term", "word") + TERMS, USED, "CONTRIBUTING.md: the glossary has no table"),
    "no row": (HEAD, USED, "CONTRIBUTING.md: the glossary has no table"),
    "41 terms": (HEAD + "".join(f"| slab {chr(97 + i // 26)}{chr(97 + i % 26)} | A thing. |\n" for i in range(41)), USED, "41 terms, at most 40"),
    "no period": (HEAD + "| slab | A run |\n", USED, "slab: its meaning does not end with a period"),
    "no meaning": (HEAD + "| slab | |\n", USED, "slab: its meaning does not end with a period"),
    "two sentences": (HEAD + "| slab | A run. It is cut. |\n", USED, "slab: its meaning has more than one sentence"),
    "two sentences, one in brackets": (HEAD + "| slab | (A run.) It is cut. |\n", USED, "slab: its meaning has more than one sentence"),
    "not used": (HEAD + "| chunk | A run. |\n", USED, "chunk: no word of src/"),
    "used in a string only": (HEAD + "| parcel | A run. |\n", USED, "parcel: no word of src/"),
    "part of a word only": (HEAD + "| lab | A run. |\n", USED, "lab: no word of src/"),
    "two words that do not follow each other": (HEAD + "| class size | A run. |\n", USED, "class size: no word of src/"),
    "twice": (HEAD + TERMS + "| Slabs | Runs. |\n", USED, "Slabs: stands twice"),
    "no term": (HEAD + "| | A run. |\n", USED, "a row has no term"),
}


# A subject of a commit -> the report that it must cause, or "" if there must be no report.
SUBJECTS = {
    "Run the quick programs two at a time": "",
    "Merge branch 'fix3'": "",
    "Speed up free": "",
    "x" * 73: "73 characters, at most 72",
    "A" + "x" * 71: "",
    "docs: Say it": "it has a prefix",
    "WIP": "it has a prefix",
    "say it": "it does not begin with a capital letter, or ends with a period",
    "Say it.": "it does not begin with a capital letter, or ends with a period",
    "Added a test": "'Added' is no imperative",
    "Fixing a test": "'Fixing' is no imperative",
    "The stress of heaps has time on a busy machine": "'The' is no imperative",
}


class House(unittest.TestCase):
    def test_subjects(self) -> None:
        for subject, expected in SUBJECTS.items():
            with self.subTest(subject):
                self.assertEqual(check_house.subject_trouble(subject), expected)

    def test_no_history(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_house.subjects(Path(folder)), [])

    def test_sizes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "README.md").write_text("line\n" * 171)
            (root / "docs/results.json").write_bytes(bytes(450_001))
            self.assertEqual(check_house.sizes(root), ["README.md has 171 lines, at most 170", "docs/ has 450001 bytes, at most 450000"])


ARCHIVE = "<!-- /table -->\n\n## 2026-11-22: one\n\nStatus: in force.\n\nA.\n\n## Two\n\nStatus: rejected.\n\nB.\n"

# A page of decisions -> the report that it must cause together with ARCHIVE, or None if there must be no report.
DECISIONS = {
    "**One.** A.\n": None,
    "**One.** A.\n\n**One.** A.\n": "twice: one",
    "": "in force, but missing: one",
    "**One.** A.\n\n**Two.** B.\n": "not in force in the archive: two",
    "**One.** A.\n\n**Three.** C.\n": "not in force in the archive: three",
    "**One.** " + "A" * check_decisions.MOST_BYTES: f"{check_decisions.MOST_BYTES + 9} bytes, at most {check_decisions.MOST_BYTES}",
}


class Decisions(unittest.TestCase):
    def test_pages(self) -> None:
        for page, expected in DECISIONS.items():
            with self.subTest(page[:60]):
                self.assertEqual(check_decisions.check(page, ARCHIVE), [expected] if expected else [])

    def test_a_link_of_the_archive(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "bench/results/decisions.md"
            archive.parent.mkdir(parents=True)
            archive.write_text("`gone()` in `a.c`, [here](gone.md)")
            self.assertEqual(check(Path(folder)), ["bench/results/decisions.md: a link leads nowhere: gone.md"])


class Glossary(unittest.TestCase):
    def said(self, glossary: str, source: str, link: str = "[words](../CONTRIBUTING.md#glossary)") -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {"CONTRIBUTING.md": glossary, "src/slab/slab.h": source, "docs/MAP.md": link}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_glossary.check(root)

    def test_glossaries(self) -> None:
        for what, (glossary, source, expected) in GLOSSARIES.items():
            with self.subTest(what):
                said = self.said(glossary, source)
                if expected is None:
                    self.assertEqual(said, [])
                else:
                    self.assertTrue(any(line.startswith(expected) for line in said), said)

    def test_the_map_does_not_link_to_it(self) -> None:
        self.assertEqual(self.said(HEAD + TERMS, USED, "[words](../CONTRIBUTING.md)"),
                         ["docs/MAP.md has no link to ../CONTRIBUTING.md#glossary"])


class Systems(unittest.TestCase):
    def test_numbers_may_differ_by_half(self) -> None:
        for printed, page, same in (
            ("served 1,000 blocks", "served  1400 blocks", True),
            ("served 1,000 blocks", "served 1,600 blocks", False),
            ("served 1,000 blocks", "served 0 blocks", False),
            ("0 faults", "0 faults", True),
            ("99.99 %", "97.0 %", True),
            ("1 2", "1", False),
            ("free(): already free", "free(): inside", False),
            ("glibc-2.36", "glibc-2.37", False),
            ("0x1f", "0x2f", False),
        ):
            self.assertEqual(check_systems.alike(printed, page), same, (printed, page))

    def test_steps_of_a_block(self) -> None:
        text = "$ cat > a <<'END'\n> one\n> END\n$ cat a\none\n> quoted\n"
        self.assertEqual(check_systems.steps(text), [["cat > a <<'END'\none\nEND", ""], ["cat a", "one\n> quoted\n"]])
        self.assertEqual(check_systems.run("echo 3; false", "/"), "3\n")

    def test_each_system_has_a_command(self) -> None:
        commands: dict[str, int] = {}
        for match in check_systems.BLOCK.finditer(check_systems.PAGE.read_text()):
            if match[1]:
                commands[match[1]] = 0
            else:
                commands[list(commands)[-1]] += len(check_systems.steps(match[3]))
        self.assertEqual(list(commands), [f"S{number}" for number in range(1, 37)])
        self.assertEqual([name for name, count in commands.items() if count == 0], [])

    def test_what_a_machine_can_show(self) -> None:
        for told, gives in (('{"huge_fault_ns": 250}', True), ('{"huge_fault_ns": -1}', False), ('{"huge_fault_ns": 0}', False), ("", False)):
            self.assertEqual(check_systems.gives_huge_pages(told), gives, told)
        for release, does in (("5.13.19", False), ("5.14.0-1", True), ("6.1.0", True), ("4.19.0-20", False)):
            self.assertEqual(check_systems.populates(release), does, release)


class Generated(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in SOURCES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.run_it("--check").returncode, 0)

    def run_it(self, *more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(ROOT / "tools/gen_docs.py"), "--root", str(self.root), *more]
        return subprocess.run(command, capture_output=True, text=True)

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        self.assertIn(old, text)
        (self.root / name).write_text(text.replace(old, new, 1))

    def assert_noticed(self, what: str) -> None:
        ended = self.run_it("--check")
        self.assertEqual(ended.returncode, 1)
        self.assertIn(what, ended.stdout + ended.stderr)

    def test_a_changed_table(self) -> None:
        for name, old, new, document in (
                ("src/policy/options.def", "purge_delay, ", "purge_delay, 1", "docs/OPTIONS.md"),
                ("src/base/messages.def", "block already free", "block free already", "docs/MESSAGES.md"),
                ("src/count/stats.def", "forks in this process", "forks met in this process", "docs/STATS.md"),
                ("src/report/parts.def", "HK_PART(idle,", "HK_PART(lazy,", "docs/report.schema.json"),
                ("src/report/class_stats.def", "HK_CLASS_STAT(served,", "HK_CLASS_STAT(given,", "docs/STATS.md"),
                ("src/guard/protections.def", "HK_PROTECTION(canary,", "HK_PROTECTION(cage,", "docs/GUARD.md"),
                ("src/count/events.def", "HK_EVENT(steal,", "HK_EVENT(fetch,", "docs/PROFILING.md"),
                ("src/policy/classes.def", ", 255, TINY", ", 127, TINY", "docs/CLASSES.md")):
            with self.subTest(name):
                self.change(name, old, new)
                self.assert_noticed(document)
                self.run_it()
                self.assertEqual(self.run_it("--check").returncode, 0)

    def test_decisions_have_a_status(self) -> None:
        index = (self.root / "bench/results/decisions.md").read_text()
        self.assertIn("| [The tightest fit](#the-tightest-fit) | in force |", index)
        self.assertIn("| [No depot: a burst through the bitmaps](#measured-and-rejected) | rejected |", index)
        self.change("bench/results/decisions.md", "### The tightest fit\n\nStatus: in force.", "### The tightest fit\n\nStatus: rejected.")
        self.assert_noticed("bench/results/decisions.md")
        self.run_it()
        self.change("bench/results/decisions.md", "### The tightest fit\n\nStatus: rejected.\n", "### The tightest fit\n\n")
        self.assert_noticed("'The tightest fit' has no line")

    def test_an_edited_document(self) -> None:
        self.change("docs/STATS.md", "remote_frees", "remote_fees")
        self.assert_noticed("docs/STATS.md")

    def test_a_missing_document(self) -> None:
        (self.root / "docs/OPTIONS.md").unlink()
        self.assert_noticed("docs/OPTIONS.md")

    def test_a_document_without_a_table(self) -> None:
        self.change("docs/STATS.md", "<!-- table:counters", "<!-- tables:counters")
        self.assert_noticed("should have parts, class_stats, keys, counters")

    def test_what_is_not_understood(self) -> None:
        self.change("src/count/stats.def", "HK_STAT(GLOBAL, forks, calls,", "HK_STAT(GLOBAL, forks,")
        self.assert_noticed("not a row")

    def test_a_key_that_nothing_explains(self) -> None:
        self.change("src/report/report_json.c", '\\"hit_rate\\":', '\\"luck\\":')
        self.assert_noticed("luck")

    def test_a_counter_that_nothing_explains(self) -> None:
        self.change("src/count/stats.def", "HK_STAT(GLOBAL, forks,", "HK_STAT(GLOBAL, knives,")
        self.assert_noticed("knives")


if __name__ == "__main__":
    unittest.main()
