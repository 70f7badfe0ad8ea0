"""Checks include/hakmem.h. It must compile without a warning in each language and mode, and its attributes must have an effect. public.c,
which uses all of it, must notice a different version. The test names compilers that are missing, and leaves them out.

Usage: test_public.py LIBRARY VERSION"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"
LIBRARY, VERSION = Path(sys.argv[1]).resolve(), sys.argv[2]
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
LANGUAGES = {"c": ["c99", "c11", "c17"], "c++": ["c++98", "c++11", "c++20"]}
COMPILERS = {"c": ["gcc", "clang"], "c++": ["g++", "clang++"]}
THERE = [(language, name) for language, names in COMPILERS.items() for name in names if shutil.which(name)]

# A program whose mistakes only a compiler that knows the attributes can report.
KNOWN = """#include <hakmem.h>
int main(void)
{
    char *block = hak_malloc(10), *zeros = hak_calloc(3, 5), *aligned = hak_aligned_alloc(64, 20), *page = hak_valloc(50);
    int known = __builtin_object_size(block, 0) == 10 && __builtin_object_size(zeros, 0) == 15 &&
                __builtin_object_size(aligned, 0) == 20 && __builtin_object_size(page, 0) == 50;
    char *longer = hak_realloc(block, 30), *rows = hak_reallocarray(zeros, 4, 10);
    known = known && __builtin_object_size(longer, 0) == 30 && __builtin_object_size(rows, 0) == 40;
    hak_free(aligned), hak_free(page), hak_free(longer), hak_free(rows);
    return known ? 0 : 1;
}
"""
# Macros of a program that have the names of attributes.
MACROS = "".join(f"#define {word} other\n" for word in ("malloc", "alloc_size", "alloc_align",
                                                        "warn_unused_result", "returns_nonnull"))
UNUSED = "#include <hakmem.h>\nvoid f(void);\nvoid f(void) { (void)0; %s; }\n"
FRESH = ["hak_malloc(1)", "hak_calloc(1, 1)", "hak_realloc(0, 1)", "hak_reallocarray(0, 1, 1)", "hak_memalign(16, 1)",
         "hak_aligned_alloc(16, 1)", "hak_posix_memalign(0, 16, 1)", "hak_valloc(1)", "hak_pvalloc(1)"]


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | {"HAKMEM_COUNT": "1"})


class Header(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compiled(self, language: str, compiler: str, text: str, *options: str) -> subprocess.CompletedProcess:
        source = self.folder / "program"
        source.write_text(text)
        return run(compiler, "-x", language, "-c", *STRICT, *options, "-I", INCLUDE, source, "-o", self.folder / "object")

    def linked(self, compiler: str, language: str, source: Path, *options: str) -> Path:
        program = self.folder / "linked"
        ended = run(compiler, "-x", language, source, "-x", "none", *STRICT, *options, "-I", INCLUDE, "-o", program,
                    LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return program

    def test_all_of_it(self) -> None:
        for language, compiler in THERE:
            for standard in LANGUAGES[language]:
                with self.subTest(f"{compiler} {standard}"):
                    program = self.linked(compiler, language, HERE / "public.c", f"-std={standard}", "-D_GNU_SOURCE", "-O2",
                                          f'-DPROJECT_VERSION="{VERSION}"')
                    ended = run(program)
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_another_version_is_noticed(self) -> None:
        language, compiler = THERE[0]
        ended = run(self.linked(compiler, language, HERE / "public.c", "-D_GNU_SOURCE", '-DPROJECT_VERSION="99.0.0"'))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("PROJECT_VERSION", ended.stderr)

    def test_compilers_without_attributes(self) -> None:
        for language, compiler in THERE:
            with self.subTest(compiler):
                plain = "#include <pthread.h>\n#include <stddef.h>\n#include <stdint.h>\n#undef __has_attribute\n"
                shown = "#define __attribute__(x) no_attribute_is_known\n" + '#include "hakmem.h"\n'
                ended = self.compiled(language, compiler, plain + shown, "-w")
                self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_macros_of_the_program(self) -> None:
        for language, compiler in THERE:
            with self.subTest(compiler):
                text = "#include <pthread.h>\n#include <stddef.h>\n#include <stdint.h>\n" + MACROS + "#include <hakmem.h>\n"
                ended = self.compiled(language, compiler, text)
                self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_it_leaves_no_macro_behind(self) -> None:
        language, compiler = THERE[0]
        source = self.folder / "program.c"
        source.write_text("#include <hakmem.h>\n")
        words = {line.split()[1].split("(")[0] for line in run(compiler, "-dM", "-E", "-I", INCLUDE, source).stdout.splitlines()}
        ours = {word for word in words if word.startswith(("HAK", "hak"))}
        self.assertEqual(ours, {"HAKMEM_H", "HAKMEM_VERSION", "HAKMEM_VERSION_MAJOR", "HAKMEM_VERSION_MINOR",
                                "HAKMEM_VERSION_PATCH", "HAKMEM_VERSION_OF", "HAK_STATS_HAS"})

    def test_sizes_are_known(self) -> None:
        source = self.folder / "sizes.c"
        source.write_text(KNOWN)
        for language, compiler in THERE:
            if language == "c":
                with self.subTest(compiler):
                    program = self.linked(compiler, "c", source, "-O2")
                    self.assertEqual(run(program).returncode, 0)

    def test_results_are_to_be_used(self) -> None:
        for language, compiler in THERE:
            for call in FRESH:
                with self.subTest(f"{compiler} {call}"):
                    ended = self.compiled(language, compiler, UNUSED % call, "-Wno-nonnull")
                    self.assertIn("unused-result", ended.stderr)
            self.assertEqual(self.compiled(language, compiler, UNUSED % "hak_free(0)").returncode, 0)


if __name__ == "__main__":
    left_out = [name for names in COMPILERS.values() for name in names if not shutil.which(name)]
    if not THERE:
        print("no gcc and no clang")
        sys.exit(77)
    if left_out:
        print("left out: " + ", ".join(left_out))
    unittest.main(argv=sys.argv[:1])
