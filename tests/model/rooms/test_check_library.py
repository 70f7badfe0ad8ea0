"""Tests check_library.py with small libraries that have one mistake each.   test_check_library.py CC"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from check_library import check, check_exports, write

COMPILER = "cc"
GOOD = "__attribute__((visibility(\"default\"))) void *hak_a(void);\nstatic _Thread_local void *t;\nvoid *hak_a(void) { return t = &t; }\n"
FLAGS = ["-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-Wl,-z,relro,-z,now,-z,nodelete"]


class Library(unittest.TestCase):
    def said(self, code: str = GOOD, more: tuple = (), less: tuple = ()) -> str:
        with tempfile.TemporaryDirectory() as folder:
            source, library, listing = (Path(folder) / name for name in ("a.c", "liba.so", "exports.txt"))
            source.write_text(code)
            listing.write_text("# the only one\nhak_a  # with a reason\n")
            flags = [flag for flag in FLAGS if flag not in less]
            subprocess.run([COMPILER, "-shared", "-O2", *flags, str(source), "-o", str(library), *more], check=True)
            return "\n".join(check(str(library), [listing]))

    def test_a_good_library_passes(self):
        self.assertEqual(self.said(), "")

    def test_an_export_too_many(self):
        self.assertIn("+hak_b", self.said(GOOD + '__attribute__((visibility("default"))) int hak_b = 1;\n'))

    def test_an_export_missing(self):
        self.assertIn("-hak_a", self.said(GOOD.replace("default", "hidden")))

    def test_exports_of_two_lists(self):
        with tempfile.TemporaryDirectory() as folder:
            lists = [Path(folder) / name for name in ("a.txt", "b.txt")]
            for path, symbol in zip(lists, ("hak_a", "hak_b")):
                path.write_text(f"{symbol}\n")
            with patch("check_library.exports", lambda library: ["hak_a", "hak_b", "hak_c"]):
                self.assertEqual(check_exports("lib.so", lists)[3:], ["+hak_c"])
                write("lib.so", lists)
                self.assertEqual(check_exports("lib.so", lists), [])
            self.assertEqual(lists[1].read_text().split("\n")[1:], ["hak_b", "hak_c", ""])

    def test_another_library_needed(self):
        self.assertIn("needs libm.so.6", self.said(more=("-Wl,--no-as-needed", "-lm")))

    def test_too_much_tls(self):
        self.assertIn("bytes of static TLS", self.said(GOOD.replace("void *t;", "void *t, *u[8];") + "void *x(void);\n"
                      "__attribute__((used)) void *x(void) { return u; }\n"))

    def test_tls_that_is_not_initial_exec(self):
        self.assertIn("has no STATIC_TLS", self.said(less=("-ftls-model=initial-exec",)))

    def test_unloadable_and_lazy(self):
        said = self.said(less=(FLAGS[-1],))
        self.assertIn("has no NODELETE", said)
        self.assertIn("has no NOW", said)

    def test_no_relro(self):
        self.assertIn("has no RELRO", self.said(more=("-Wl,-z,norelro",)))

    def test_too_much_to_relocate(self):
        table = "__attribute__((used)) static void *const table[600] = {[0 ... 599] = hak_a};\n"
        self.assertIn("that the loader relocates", self.said(GOOD + table))

    def test_executable_stack(self):
        self.assertIn("executable stack", self.said(more=("-Wl,-z,execstack",)))

    def test_strong_reference_into_cxx(self):
        code = GOOD + "void _ZSt17__throw_bad_allocv(void);\n__attribute__((used)) static void f(void) { _ZSt17__throw_bad_allocv(); }\n"
        self.assertIn("must be weak", self.said(code))
        self.assertEqual(self.said(code.replace("void _ZSt", "__attribute__((weak)) void _ZSt", 1)), "")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
