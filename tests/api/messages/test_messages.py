"""Provokes each message of src/base/messages.def, and asserts its exact text and what follows it.

test_messages.py --plain libhakmem.so --hardened libhakmem-hardened.so --provoke PROGRAM --sampled PROGRAM --leaks PROGRAM
                 --refuse-threads LIBRARY --refuse-keys LIBRARY [unittest's own arguments]

Each row of the table has cases in CASES, or a unit test in UNIT_TESTS. A unit test provokes a message that only a fault of HAKMEM or of
the system can cause.
"""
import argparse
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import gen_docs  # noqa: E402

CONVERSION = re.compile(r"%(?:\.(?:\d+|\*))?[lz]*[sducx]|%%")
ANY, ADDRESS = re.compile(r".*"), re.compile(r"[0-9a-f]+")
CALL_STACK = re.compile(r"  found in a call of thread \d+:\n(    #\d+ 0x[0-9a-f]+.*\n)+hakmem: `hakmem symbolize` .*\n\Z")
ENDS = {"goes_on": False, "ends": True}


@dataclass(frozen=True)
class Row:
    name: str
    then: str
    format: str

    def pattern(self, arguments: tuple, folder: str) -> re.Pattern:
        """Returns a pattern that matches the line with these arguments. FOLDER in an argument stands for the folder."""
        left = list(arguments)
        pieces, at = [re.escape("hakmem: ")], 0
        for found in CONVERSION.finditer(self.format):
            argument = "%" if found[0] == "%%" else left.pop(0)
            pieces += [re.escape(self.format[at:found.start()]),
                       argument.pattern if isinstance(argument, re.Pattern) else re.escape(argument.replace("FOLDER", folder))]
            at = found.end()
        assert not left, f"{self.name} has fewer arguments than {arguments}"
        return re.compile("".join([*pieces, re.escape(self.format[at:])]))

    def is_line(self) -> bool:
        return self.then in ("goes_on", "ends", "either")


def table(path: Path) -> dict[str, Row]:
    found = [Row(name, then, text.replace('\\"', '"')) for name, then, text, _ in gen_docs.rows(path, "HK_MESSAGE", 4)]
    return {row.name: row for row in found}


ROWS = table(ROOT / "src/base/messages.def")


@dataclass(frozen=True)
class Case:
    """A run that must print one line to standard error: the line of the row, with these arguments in its format."""
    arguments: tuple = ()
    options: dict[str, str | bytes] = field(default_factory=dict)
    mode: str = "nothing"
    library: str = "plain"
    program: str = "provoke"
    behind: str = ""  # a library that is preloaded after HAKMEM
    ends: bool | None = None  # None means: as the row says
    before: str = ""  # the beginning of a report that precedes the line


def fault(name: str, mode: str, call: str = "free()", **options: str) -> Case:
    """Returns a case of a mistake that ends the program, in the row `pointer`."""
    return Case((call, ROWS[name].format, ADDRESS, ANY, ANY, ANY), options or {"SAFE_FREE": "strict"}, mode, ends=True)


def access(name: str, mode: str) -> Case:
    """Returns a case of a report that begins with the row."""
    return Case((), {"GUARD_SAMPLE": "1", "BIN_CAP": "1"}, mode, program="sampled", ends=True, before=f"hakmem: {ROWS[name].format}")


NOWHERE, RANGE = "/no/such/folder/file", "0..1099511627776"
PROFILES = "balanced, throughput, compact, debug"
LONG = "x" * 400
CUT = "x" * 300 + "..."

CASES: dict[str, list[Case]] = {
    "option_unknown": [Case(("", "HAKMEM_", "WEATHER"), {"WEATHER": "1"}),
                       Case(("HAKMEM_CONF: ", "", "weather"), {"CONF": "weather:1"}),
                       Case(("", "HAKMEM_", r"A\x1b[31m\xff"), {b"A\x1b[31m\xff": "1"}),
                       Case(("", "HAKMEM_", "WEATHER"), {"WEATHER": "1"}, "forks"),  # the child must not print it too
                       Case(("", "HAKMEM_", CUT), {LONG: "1"})],
    "option_near": [Case(("", "HAKMEM_", "REPRT", "HAKMEM_", "REPORT"), {"REPRT": "secret"}),
                    Case(("HAKMEM_CONF: ", "", "purge_dealy", "", "purge_delay"), {"CONF": "purge_dealy:1"})],
    "option_number": [Case(("large_fit", "99", "100", "400", "400"), {"LARGE_FIT": "99"}),
                      Case(("large_fit", "401", "100", "400", "400"), {"CONF": "large_fit:401"}),
                      Case(("depot", "10 MB", "0", str(1 << 30), str(8 << 20)), {"DEPOT": "10 MB"}),
                      Case(("depot", "", "0", str(1 << 30), str(8 << 20)), {"DEPOT": ""}),
                      Case(("depot", r"1\x0a2\x7f", "0", str(1 << 30), str(8 << 20)), {"DEPOT": "1\n2\x7f"}),
                      Case(("depot", CUT, "0", str(1 << 30), str(8 << 20)), {"DEPOT": LONG})],
    "option_word": [Case(("learn", "On", "off|on|frozen|canary|settle", "on"), {"LEARN": "On"}),
                    Case(("background", r"ja\xc2\x9bä", "0|1|auto", "auto"), {"BACKGROUND": "ja\x9bä"})],
    "option_item": [Case(("classes", "1041"), {"CLASSES": "1041,2064"}), Case(("classes", "1040"), {"CLASSES": "1056,1040"}),
                    Case(("classes", r"\x1b"), {"CLASSES": "\x1b"}), Case(("bins", "64x100"), {"BINS": "64x100"}), Case(("bins", CUT), {"BINS": LONG})],
    "option_texts": [Case(("report", "8191"), {"REPORT": "x" * 9000})],
    "conf_form": [Case(("report",), {"CONF": "report"}), Case((CUT,), {"CONF": "depot:1," + LONG})],
    "conf_long": [Case(("4095",), {"CONF": "x" * 4096})],
    "profile_none": [Case((NOWHERE, PROFILES, "no such file or folder"), {"PROFILE": NOWHERE}),
                     Case(("compac", PROFILES, "no such file or folder"), {"CONF": "profile:compac"}),
                     Case(("FOLDER", PROFILES, "it is empty or no regular file"), {"PROFILE": "FOLDER"}),
                     Case(("FOLDER/large", PROFILES, "it has 8 KiB or more"), {"PROFILE": "FOLDER/large"}),
                     Case(("x" * 300 + "...", PROFILES, "the name is too long"), {"PROFILE": "x" * 5000})],
    "profile_lines": [Case(("FOLDER/no_form", "1", "2", "2", "is not of the form name = value", "", "", ""), {"PROFILE": "FOLDER/no_form"}),
                      Case(("FOLDER/no_name", "2", "2", "1", "names no option", "; did you mean ", "purge_delay", "?"), {"PROFILE": "FOLDER/no_name"})],
    "hardened_word": [Case(("on", ANY), {"HARDENED": "on"}), Case(("all", ANY), {"HARDENED": "check,all"}), Case((r"\x01", ANY), {"HARDENED": "\x01"})],
    "goal": [Case(("0",), {"GOAL": "0"}), Case(("101%",), {"GOAL": "101%"}), Case((r"\xff",), {"GOAL": b"\xff"})],
    "profile_moment": [Case(("0",), {"HEAP_PROFILE_AT": "0", "HEAP_PROFILE": "/dev/null"}),
                       Case(("much",), {"HEAP_PROFILE_AT": "much", "HEAP_PROFILE": "/dev/null"})],
    "option_alone": [Case(("report_every", "REPORT"), {"REPORT_EVERY": "20"}), Case(("report_signal", "REPORT"), {"REPORT_SIGNAL": "10"}),
                     Case(("heap_profile_every", "HEAP_PROFILE"), {"HEAP_PROFILE_EVERY": "20"}),
                     Case(("heap_profile_at", "HEAP_PROFILE"), {"HEAP_PROFILE_AT": "peak"})],
    "report_signal": [Case((str(int(number)),), {"REPORT": "/dev/null", "REPORT_SIGNAL": str(int(number))}, "idle")
                      for number in (signal.SIGKILL, signal.SIGSEGV)],
    "option_file": [Case(("report", NOWHERE, "no such file or folder"), {"REPORT": NOWHERE}),
                    Case(("report", "FOLDER", "it is a folder"), {"REPORT": "FOLDER"}),
                    Case(("report", "/dev/null/x", "a part of it is no folder"), {"CONF": "report:/dev/null/x"}),
                    Case(("report", CUT, "the name is too long"), {"REPORT": LONG}),
                    *(Case((option, CUT, "the name is too long"), {option.upper(): "x" * 1100}) for option in ("report", "heap_profile", "profile_save")),
                    Case(("report", r"/\x1b[2J/x", "no such file or folder"), {"REPORT": "/\x1b[2J/x"}),
                    Case(("report", NOWHERE, "no such file or folder"), {"REPORT": NOWHERE, "REPORT_EVERY": "10"}, "a_second"),
                    Case(("heap_profile", NOWHERE, "no such file or folder"), {"HEAP_PROFILE": NOWHERE}),
                    Case(("heap_profile", NOWHERE, "no such file or folder"), {"HEAP_PROFILE": NOWHERE, "HEAP_PROFILE_EVERY": "10"}, "a_second"),
                    Case(("profile_save", NOWHERE, "no such file or folder"), {"PROFILE_SAVE": NOWHERE})],
    "samples_full": [Case((), {"HEAP_SAMPLE": "1", "HEAP_PROFILE": "/dev/null"}, "many", program="leaks")],
    "core_left_out": [Case(("6",), {"CORE": "live", "FREE_POLICY": "keep"}, "abort", ends=True)],
    "thread_key": [Case((), {}, behind="refuse_keys")],
    "background": [Case((), {"REPORT": "/dev/null", "REPORT_EVERY": "1000"}, "idle", behind="refuse_threads")],
    "pointer": [fault("foreign", "foreign"),
                Case(("free()", ROWS["already_free"].format, ADDRESS, "48", ANY, ANY), {"SAFE_FREE": "1"}, "twice", ends=False)],
    "beyond_end": [Case(("memset()", "write", ADDRESS, "148", "0", "48"), {"HARDENED": "0"}, "beyond_end", "hardened")],
    "before_start": [Case(("memcpy()", "read", ADDRESS, "256", "64", str(3 << 20)), {"HARDENED": "0"}, "before_start", "hardened")],
    "free_memory": [Case(("memset()", "write", "to", ADDRESS, "48"), {"HARDENED": "0"}, "free_memory", "hardened")],
    "free_block": [Case(("memset()", "write", "to", ADDRESS, "48", "4096", str(3 << 20)), {"HARDENED": "0"}, "free_block", "hardened")],
    "new_refused": [Case((), {"OOM_REPORT": "0"}, "new_refused")],
    "already_free": [fault("already_free", "twice")],
    "inside": [fault("inside", "inside")],
    "foreign": [fault("foreign", "foreign")],
    "never_allocated": [fault("never_allocated", "never")],
    "other_size": [fault("other_size", "other_size", "free_sized()")],
    "of_malloc": [fault("of_malloc", "of_malloc", "operator delete()")],
    "of_new": [fault("of_new", "of_new")],
    "of_new_array": [fault("of_new_array", "of_new_array")],
    "written_free": [fault("written_free", "written_free", "malloc()", HARDENED="zero")],
    "written_behind": [fault("written_behind", "written_behind", HARDENED="canary")],
    "written_before": [fault("written_before", "written_before", HARDENED="neighbors,zero")],
    "heap_ended": [fault("heap_ended", "heap_ended")],
    "after_free": [access("after_free", "after")],
    "access_before": [access("access_before", "before")],
    "access_behind": [access("access_behind", "behind")],
    "sampled_again": [access("sampled_again", "twice")],
    "sampled_inside": [access("sampled_inside", "inside")],
    "sampled_beside": [access("sampled_beside", "beside")],
    "written_beside": [access("sampled_beside", "beside")],  # the line after the report
}

# Unit tests for messages that only a fault of HAKMEM, a refusal of the system at one moment, or overwritten memory can cause.
UNIT_TESTS = {
    "moved_table": "large.c", "samples_memory": "hooks.c", "sites_memory": "sites.c", "classes_constant": "classes.c",
    "empty_memory": "modes.c", "assertion": "message.c", "given_twice": "remote_track.c",
    "nobody_freed": "remote_track.c", "drained_twice": "remote_track.c", "not_claimed": "remote_track.c", "lost": "remote_track.c",
    "heap_other": "heap_edges.c",
}
OPTION_FILES = {"no_form": "depot = 4m\nno form\n", "no_name": "purge_dealy = 4\nweather = fine\n", "large": "#" * 8191}


def without_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(case: Case, folder: str) -> subprocess.CompletedProcess:
    environment = {b"HAKMEM_TRACE_REMOTE": b"0",  # a debug build prints more than the line
                   b"LD_PRELOAD": f"{getattr(given, case.library)} {getattr(given, case.behind) if case.behind else ''}".encode()}
    for name, value in case.options.items():
        name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
        environment[b"HAKMEM_" + name] = value.replace(b"FOLDER", folder.encode())
    return subprocess.run([getattr(given, case.program), case.mode], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, preexec_fn=without_cores, timeout=500, check=False)


def trouble(name: str, case: Case, rows: dict[str, Row], folder: str) -> str:
    """Runs the case. Returns what is wrong with its output or its exit code, or an empty text."""
    row = rows[name]
    done = run(case, folder)
    said = CALL_STACK.sub("", done.stderr.decode())  # the output must always be UTF-8
    ends = case.ends if case.ends is not None else ENDS[row.then]
    if (done.returncode in (-signal.SIGABRT, -signal.SIGSEGV)) != ends or (not ends and done.returncode != 0):
        return f"ended with {done.returncode}: {said!r}"
    if row.then == "access" or case.before:
        wanted = f"hakmem: {row.format}" if row.then == "access" else f": {row.format}: address 0x"
        return "" if said.startswith(case.before) and wanted in said else f"no {wanted!r} in {said!r}"
    wanted = (row if row.is_line() else rows["pointer"]).pattern(case.arguments, folder)
    return "" if wanted.fullmatch(said.removesuffix("\n")) else f"{said!r} is not the line {wanted.pattern!r}"


def source_troubles(rows: dict[str, Row], files: dict[str, str]) -> list[str]:
    """Finds messages in the source that are not from the table, and rows that no source prints."""
    found, used = [], set()
    for name, text in files.items():
        used |= set(re.findall(r"\bHK_TEXT_(\w+)", text))
        for call, argument in re.findall(r"\b(hk_message|hk_fatal)\(\s*([\w\"]+)", text):
            if not argument.startswith(("HK_TEXT_", "const")):
                found.append(f"{name}: {call}({argument}: not a row of messages.def")
        for literal in re.findall(r"\b(?:hk_invalid_pointer|hk_report_pointer|hk_guard_fault)\([^;]*?\"([^\"]*)\"[^;]*;", text):
            found.append(f"{name}: {literal!r} is not taken from messages.def")
    return found + [f"no source prints {name}" for name in rows if name not in used]


class Messages(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in OPTION_FILES.items():
            Path(self.folder, name).write_text(text)

    def test_each_row_is_provoked(self) -> None:
        self.assertEqual(set(ROWS), set(CASES) | set(UNIT_TESTS), "a row without a case, or a case without a row")
        self.assertEqual(set(CASES) & set(UNIT_TESTS), set())
        for name, cases in CASES.items():
            for case in cases:
                with self.subTest(name, options=case.options, mode=case.mode):
                    self.assertEqual(trouble(name, case, ROWS, self.folder), "")

    def test_unit_tests_assert_the_text(self) -> None:
        for name, file in UNIT_TESTS.items():
            fixed = CONVERSION.split(ROWS[name].format)[0].replace('"', '\\"')
            self.assertTrue(len(fixed) > 10 and fixed in (ROOT / "tests/unit" / file).read_text(), f"{file} does not assert {name}: {fixed}")

    def test_the_source_prints_from_the_table(self) -> None:
        files = {str(path.relative_to(ROOT / "src")): path.read_text() for path in (ROOT / "src").rglob("*.[ch]")}
        self.assertEqual(source_troubles(ROWS, files), [])

    def test_nothing_is_said_about_what_is_right(self) -> None:
        for options in ({}, {"CONF": "depot:4m,learn:on,report:/dev/null"}, {"HARDENED": "1"}, {"PROFILE": "compact"}, {"LIBRARY": "/x"}):
            self.assertEqual(run(Case((), options), self.folder).stderr, b"")

    def test_controls(self) -> None:
        """The test must notice a changed text, a changed argument, and a literal message in the source."""
        case, row = CASES["option_word"][0], ROWS["option_word"]
        changed = ROWS | {"option_word": Row(row.name, row.then, row.format.replace("is not", "is none"))}
        self.assertIn("is not the line", trouble("option_word", case, changed, self.folder))
        other = Case((*case.arguments[:-1], "off"), case.options)
        self.assertIn("is not the line", trouble("option_word", other, ROWS, self.folder))
        self.assertIn("ended with 0", trouble("option_word", Case(case.arguments, case.options, ends=True), ROWS, self.folder))
        for source in ('hk_message("new %s", x);', 'hk_invalid_pointer(call, begins ? "block is odd" : "x", p);', "hk_fatal(text, x);"):
            self.assertEqual(len(source_troubles({}, {"a.c": source})), 1, source)
        self.assertEqual(source_troubles({"a": Row("a", "ends", "a")}, {"a.c": ""}), ["no source prints a"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("plain", "hardened", "provoke", "sampled", "leaks", "refuse-threads", "refuse-keys"):
        parser.add_argument(f"--{name}", required=True)
    given, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
