"""Tests check_rooms.py: a small sound tree passes, and a tree that breaks one rule is reported at the right place.

The tree and its rules are invented. They need not change when src/ or rooms.json changes. Only their keys are those of rooms.json.
"""
import json
import tempfile
import unittest
from pathlib import Path

from check_rooms import HERE, House
from source import Source

FILE_LINES, FUNCTION_LINES = 90, 12

RULES = {
    "why": "",
    "rooms": {"os": [], "base": ["os"], "tables": ["os", "base"], "ledger": ["os", "base"],
              "span": ["tables", "ledger", "os", "base"], "door": ["span", "os", "base"], "far": ["door"]},
    "public_header": {"name": "public.h", "rooms": ["door"]},
    "file_lines": FILE_LINES,
    "function_lines": FUNCTION_LINES,
    "conditional_rooms": ["base", "os"],
    "os_room": "os",
    "os_calls": ["mmap", "munmap", "madvise", "mlock", "syscall"],
    "os_calls_may_be_named_by": "HK_STANDS_BEFORE",
    "os_headers": ["sys/mman.h", "linux/"],
    "environment_calls": ["getenv", "secure_getenv", "environ"],
    "environment_doors": ["environment"],
    "environment_place": "tables/options.c",
    "state_tested_by": {"os/os.c": "early"},
}

SOUND = {
    "base/base.h": "#ifndef HK_BASE_H\n#define HK_BASE_H\n#ifndef HK_DEBUG\n#define HK_DEBUG 0\n#endif\n#endif\n",
    "os/os.h": '#ifndef HK_OS_H\n#define HK_OS_H\n#endif\n',
    "os/os.c": '#include <sys/mman.h>\n#include "os/os.h"\nstatic int calls;\nvoid *take(void) { return mmap(0, getenv("A") ? 1 : 2); }\n',
    "tables/options.c": '#include "os/os.h"\nint f(void) { return hk_os.environment("X") != 0; }\n',
    "span/map.h": "#ifndef HK_MAP_H\n#define HK_MAP_H\nint hak_map(int);\n#endif\n",
    "span/map.c": '#include "span/map.h"\n#include "tables/rows.def"\n'
                  '/* munmap() in a comment, and "getenv" */\n// syscall(1)\n'
                  'static const char *words = "mmap( #if getenv( {";\nint hak_map(int a)\n{\n    hk_os.munmap(a);\n    return \'{\';\n}\n',
    "tables/rows.def": "/* ROW(a) */\nROW(1)\n",
    "ledger/ledger.c": "int hk_ledger = 0;\n",
    "door/door.c": '#include "public.h"\n',
    "far/far.c": "\n",
}

TESTS = {"unit_map", "unit_ledger", "early"}

# A change of the sound tree -> the breach that must be reported, or None if there must be no breach.
BROKEN = {
    "arrow up": ({"os/os.h": '#include "span/map.h"\n'}, "os/os.h:1: os may not include span"),
    "arrow to a sibling": ({"ledger/stats.c": '#include "tables/rows.def"\n'}, "ledger/stats.c:1: ledger may not include tables"),
    "include without a room": ({"span/map.c": '#include "map.h"\n'}, "span/map.c:1: includes \"map.h\", which is no file"),
    "include by a relative path": ({"span/map.c": '#include "../os/os.h"\n'}, "which is no file of src/"),
    "public header in a lower room": ({"span/map.c": '#include "public.h"\n'}, "span may not include the public header"),
    ".c in a room's file": ({"span/map.c": '#include "os/os.c"\n'}, "no file of src/ includes a .c file"),
    "indented include": ({"os/os.h": '  #  include "base/base.h"\n'}, "os may not include base"),
    "cycle of files": ({"span/map.h": '#include "span/b.h"\n', "span/b.h": '#include "span/map.h"\n'}, "cycle: "),
    "file that includes itself": ({"span/map.h": '#include "span/map.h"\n'}, "cycle: "),
    "circle of calls": ({"span/map.c": "void hk_b(void);\nvoid hk_a(void)\n{\n    hk_b();\n}\n",
                         "span/b.c": "void hk_a(void);\nHK_COLD __attribute__((cold)) void hk_b(void) { hk_a(); }\n"},
                        "src/span/b.c:1: circle: span/b -> span/map -> span/b (span/b.c:1 names hk_a; span/map.c:1 names hk_b)"),
    "circle of a call and an include": ({"span/map.h": '#include "span/b.h"\n', "span/b.h": "int x;\n",
                                         "span/map.c": "HK_REPLACES(int, f, (int a), g)\nstruct hk_t *hk_a = 0;\n",
                                         "span/b.c": "static void *g(void) { return hk_a; }\n"}, "circle: span/b -> span/map"),
    "circle of three": ({"span/map.c": '#include "span/b.h"\n', "span/b.h": '#include "span/c.h"\n', "span/c.h": "int a;\n",
                         "span/c.c": "void f(void) { hak_map(1); }\n"} | {"span/map.c": SOUND["span/map.c"] + '#include "span/b.h"\n'},
                        "circle: span/b -> span/c -> span/map -> span/b"),
    "no circle: a name of its own": ({"span/map.c": SOUND["span/map.c"] + "void hk_a(void) { hk_b(); }\n",
                                      "span/b.c": "static void hk_b(int hk_a) { s.hk_a(hk_b); }\n"}, None),
    "file at the limit": ({"span/map.c": "int a;\n" * FILE_LINES}, None),
    "long file": ({"span/map.c": "int a;\n" * (FILE_LINES + 1)}, f"span/map.c:1: {FILE_LINES + 1} lines"),
    "function at the limit": ({"span/map.c": "int a;\nint\nf(void)\n{\n" + "    a++;\n" * (FUNCTION_LINES - 4) + "}\n"}, None),
    "long function": ({"span/map.c": "int a;\nint\nf(void)\n{\n" + "    a++;\n" * (FUNCTION_LINES - 3) + "}\n"},
                      f"span/map.c:2: f() has {FUNCTION_LINES + 1}"),
    "long static function with an attribute": (
        {"span/map.c": "__attribute__((aligned(64), section(\"x\"))) static int g(int (*h)(int)) {\n" + "h(1);\n" * FUNCTION_LINES + "}\n"},
        f"span/map.c:1: g() has {FUNCTION_LINES + 2}"),
    "long table is no function": (
        {"span/map.c": "int t[F(2)] = {\n" + "  1,\n" * 2 * FUNCTION_LINES + "};\nstruct s\n{\n" + "int a;\n" * 2 * FUNCTION_LINES + "};\n"}, None),
    "conditional": ({"span/map.c": "#if HK_DEBUG\n#endif\n"}, "span/map.c:1: #if HK_DEBUG: conditionals live in"),
    "conditional in a table": ({"tables/rows.def": "#ifdef X\nROW(1)\n#endif\n"}, "tables/rows.def:1: #ifdef X"),
    "conditional inside a guard": ({"span/map.h": "#ifndef A\n#define A\n#ifdef B\n#endif\n#endif\n"}, "span/map.h:3: #ifdef B"),
    "conditional with a guard's shape": ({"span/map.h": "#ifndef A\n#define B\n#endif\n"}, "span/map.h:1: #ifndef A"),
    "mmap": ({"span/map.c": "void *p(void) { return mmap (0); }\n"}, "span/map.c:1: mmap() outside the room os"),
    "munmap by address": ({"span/map.c": "int (*f)() = munmap;\n"}, "munmap() outside"),
    "madvise in a macro": ({"span/map.h": "#ifndef A\n#define A\n#define M(a) \\\n  madvise(a)\n#endif\n"}, "span/map.h:4: madvise()"),
    "another name of ours": ({"span/map.c": "HK_STANDS_BEFORE(int, mlock, (void *p)) { return f(p); }\nHK_STANDS_BEFORE(void *, mmap, (int n)) { return g(n); }\n"}, None),
    "call behind another name": ({"span/map.c": "HK_STANDS_BEFORE(int, mlock, (void *p)) { return mlock(p); }\n"}, "span/map.c:1: mlock() outside"),
    "syscall": ({"base/base.h": "int f(void) { return syscall(1); }\n"}, "base/base.h:1: syscall() outside"),
    "header of the system": ({"span/map.c": "#include <sys/mman.h>\n"}, "<sys/mman.h> outside the room os"),
    "header of the kernel": ({"span/map.c": "#include <linux/futex.h>\n"}, "<linux/futex.h> outside"),
    "getenv": ({"tables/options.c": 'int a = getenv("A");\n'}, "tables/options.c:1: getenv outside the room os"),
    "environ": ({"span/map.c": "extern char **environ;\n"}, "span/map.c:1: environ outside"),
    "getenv in two files of os": ({"os/b.c": 'int a = secure_getenv("A");\n'}, "in a second file of the room os"),
    "the environment's door from elsewhere": ({"span/map.c": 'int a(void) { return hk_os.environment("A"); }\n'},
                                              "only tables/options.c reads the environment"),
    "one name twice": ({"span/os.c": "\n"}, "span/os.c:1: has the file name of os/os.c"),
    "unknown room": ({"attic/old.c": "\n"}, "attic/old.c:1: belongs to no room"),
    "no room": ({"loose.c": "\n"}, "loose.c:1: belongs to no room"),
    "room in a room": ({"span/inner/deep.c": "\n"}, "span/inner/deep.c:1: belongs to no room"),
    "stray file": ({"span/notes.txt": "\n"}, "span/notes.txt:1: only .c"),
    "state without a test": ({"span/b.c": "static int a;\n"}, "span/b.c:1: has state (a), but there is no test unit_b"),
    "state with a test": ({"span/map.c": "static int a;\n"}, None),
    "state of the room without a test": ({"span/map.c": SOUND["span/map.c"] + "int hk_heap;\n", "span/b.c": "void f(void) { hk_heap++; }\n"},
                                         "span/b.c:1: has state (hk_heap), but there is no test unit_b"),
    "state of another room": ({"span/b.c": "void f(void) { hk_ledger++; }\n"}, None),
    "a room without a file": ({"door/door.c": None}, "rooms.json: the room door has no file"),
    "a test for what has no state": ({"os/os.c": '#include "os/os.h"\n'}, "os/os.c:1: rooms.json names a test for it, but it has no state"),
}


# A file -> the mutable variables at file scope.
STATES = {
    "static int a;": ["a"],
    "_Atomic uint64_t xa = 3;\nstruct s hk_b = {.c = 1};": ["xa", "hk_b"],
    "static struct {\n    int a;\n    struct t { int b; } c[2];\n} kept = {.a = 1};": ["kept"],
    "static HK_COLD_DATA struct { int a; } kept;\nint last HK_COLD_DATA;": ["kept", "last"],
    "_Alignas(64) static int a[2][3] = {{1}};": ["a"],
    "static __thread struct s *a;\n_Thread_local int b;": ["a", "b"],
    "static const char *changes;\nstatic const char *const stays = \"a;\";\nstatic char *const too;": ["changes"],
    "static int (*handler)(int) = f;\nint (*const table[])(void) = {f};": ["handler"],
    "static const struct row rows[] = {{1}, {2}};\nconst int a = 1;": [],
    "extern int a;\ntypedef struct { int a; } b;\nstruct c;\nstruct d { int a; };\nenum { E, F };\nenum g { G };": [],
    "int f(void);\nstatic void g(int (*h)(int));\n_Static_assert(1 == 1, \"a\");": [],
    "int f(int a)\n{\n    static int inner;\n    int b = a;\n    return b;\n}\nint after;": ["after"],
    "HK_REPLACES(int, f, (int a, int (*b)(int)), g)\nHK_REPLACES(int, h, (void), g)\nstatic int a;": ["a"],
    "#define A \\\n    int a;\n/* int b; */\n#if 1\nint c;\n#endif\n": ["c"],
}


def breaches(files: dict, rules: dict = RULES, tests: set[str] | None = TESTS) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder) / "src"
        for name, text in files.items():
            if text is None:
                continue
            path = src / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return House(src, rules, tests).check()


class Rooms(unittest.TestCase):
    def test_a_sound_tree_passes(self):
        self.assertEqual(breaches(SOUND), [])

    def test_each_rule_broken_is_reported(self):
        for what, (change, expected) in BROKEN.items():
            with self.subTest(what):
                found = breaches(SOUND | change)
                if expected is None:
                    self.assertEqual(found, [])
                else:
                    self.assertTrue(any(expected in line for line in found), f"wanted {expected!r}, got {found}")

    def test_rules_that_point_up_are_reported(self):
        rules = json.loads(json.dumps(RULES))
        rules["rooms"]["os"].append("door")
        self.assertIn("rooms.json: os may not include door: it is not below it", breaches(SOUND, rules))

    def test_the_controls_know_every_rule(self):
        self.assertEqual(set(RULES), set(json.loads((HERE / "rooms.json").read_text())))

    def test_named_tests_exist(self):
        def said(covered: dict, tests: set[str]) -> list[str]:
            return breaches(SOUND, RULES | {"state_tested_by": covered}, tests)

        self.assertIn("rooms.json: state_tested_by: os/os.c: there is no test early", said({"os/os.c": "early"}, TESTS - {"early"}))
        self.assertIn("rooms.json: state_tested_by: there is no file os/gone.c", said({"os/os.c": "early", "os/gone.c": "early"}, TESTS))
        self.assertIn("src/os/os.c:1: rooms.json names a test for it, but it has a unit test", said({"os/os.c": "early"}, TESTS | {"unit_os"}))
        self.assertTrue(any("os/os.c:1: has state (calls)" in line for line in said({}, TESTS)))

    def test_state_is_found(self):
        for text, expected in STATES.items():
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "a.c"
                path.write_text(text)
                self.assertEqual(Source(path, "a.c").state(), expected)

    def test_circles_between_rooms_are_arrows_up(self):
        """Only files of one room can form a circle."""
        change = {"os/os.c": SOUND["os/os.c"] + "void hk_down(void) { hk_up(); }\n", "span/map.c": SOUND["span/map.c"] + "void hk_up(void) { hk_down(); }\n"}
        self.assertEqual(breaches(SOUND | change), [])

    def test_every_rule_has_a_control(self):
        """If any one of the rules is removed, at least one control must fail."""
        rules = [name for name in dir(House) if name.startswith("check_") and name != "check_rules_point_down"]
        for rule in rules:
            original = getattr(House, rule)
            setattr(House, rule, lambda self: None)
            try:
                missed = [what for what, (change, expected) in BROKEN.items()
                          if expected and not any(expected in line for line in breaches(SOUND | change))]
            finally:
                setattr(House, rule, original)
            self.assertTrue(missed, f"no control fails without {rule}")

    def test_functions_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.c"
            path.write_text("struct s { int a; };\nenum { A, B };\nstatic inline int one(void) { return 1; }\n"
                            "HK_COLD __attribute__((noinline))\nvoid *two(size_t n)\n{\n  if (n) { n++; }\n  return 0;\n}\n"
                            "int x = (3);\nstatic const struct s t[] = { { 1 } };\n")
            found = [(f.name, f.line, f.length) for f in Source(path, "a.c").functions()]
            self.assertEqual(found, [("one", 3, 1), ("two", 4, 6)])


if __name__ == "__main__":
    unittest.main()
