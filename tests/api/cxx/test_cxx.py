"""Checks include/hakmem.hpp. It must compile without a warning with each compiler and standard, with and without exceptions and RTTI.
containers.cpp must pass, and its controls must fail. The test names compilers that are missing, and leaves them out.

Usage: test_cxx.py LIBRARY CONTAINERS      (CONTAINERS is the program that CMake built)"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"
LIBRARY, CONTAINERS = (Path(word).resolve() for word in sys.argv[1:3])
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wundef", "-Wnon-virtual-dtor", "-Wold-style-cast",
          "-pedantic", "-Werror"]
COMPILERS = ["g++", "clang++"]
THERE = [name for name in COMPILERS if shutil.which(name)]
PLAIN = ["-fno-exceptions", "-fno-rtti"]
WAYS = [["-std=c++17", *PLAIN], ["-std=c++20"]]

# Without exceptions, a refusal ends the program.
REFUSED = "#include <hakmem.hpp>\nint main() { return hakmem::allocator<char>().allocate(PTRDIFF_MAX) == nullptr; }\n"
# None of these may compile.
WRONG = {
    "a result that is not used": "int main() { hakmem::allocator<int>().allocate(1); }",
    "another type's block": "int main() { hakmem::allocator<int> ints; ints.deallocate(hakmem::allocator<long>().allocate(1), 1); }",
    "a resource of one's own kind": "struct mine : hakmem::memory_resource {}; int main() {}",
}
# Two translation units must share one resource.
FIRST = "#include <hakmem.hpp>\nvoid *other();\nint main() { return hakmem::process_resource() == other() ? 0 : 1; }\n"
SECOND = "#include <hakmem.hpp>\nvoid *other();\nvoid *other() { return hakmem::process_resource(); }\n"


def run(*command: object, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | more)


class Header(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def source(self, text: str, name: str = "program.cpp") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def program(self, compiler: str, *options: object) -> Path:
        program = self.folder / "program"
        ended = run(compiler, *STRICT, "-I", INCLUDE, *options, "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return program

    def test_each_way(self) -> None:
        for compiler in THERE:
            for way in WAYS:
                with self.subTest(f"{compiler} {way}"):
                    ended = run(self.program(compiler, HERE / "containers.cpp", *way), HAKMEM_COUNT="1")
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_heaps_each_way(self) -> None:
        for compiler in THERE:
            for way in WAYS:
                with self.subTest(f"{compiler} {way}"):
                    ended = run(self.program(compiler, HERE / "heaps.cpp", *way))
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_a_kept_block_is_noticed(self) -> None:
        ended = run(CONTAINERS, "leak")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("each block came back", ended.stderr)

    def test_refused_without_exceptions(self) -> None:
        for compiler in THERE:
            with self.subTest(compiler):
                program = self.program(compiler, self.source(REFUSED), "-std=c++17", *PLAIN)
                self.assertEqual(run(program, HAKMEM_OOM_REPORT="0").returncode, -6)

    def test_what_must_not_compile(self) -> None:
        for compiler in THERE:
            for what, text in WRONG.items():
                with self.subTest(f"{compiler}: {what}"):
                    source = self.source("#include <hakmem.hpp>\n" + text)
                    ended = run(compiler, "-std=c++17", *STRICT, "-fsyntax-only", "-I", INCLUDE, source)
                    self.assertNotEqual(ended.returncode, 0)
                    self.assertNotIn("hakmem.hpp: No such file", ended.stderr)

    def test_an_older_standard(self) -> None:
        source = self.source("#include <hakmem.hpp>\nint main() {}\n")
        ended = run(THERE[0], "-std=c++14", "-fsyntax-only", "-I", INCLUDE, source)
        self.assertIn("hakmem.hpp needs C++17", ended.stderr)

    def test_one_resource(self) -> None:
        for compiler in THERE:
            with self.subTest(compiler):
                other = self.source(SECOND, "other.cpp")
                self.assertEqual(run(self.program(compiler, self.source(FIRST), other, "-std=c++17")).returncode, 0)

    def test_it_leaves_no_macro_behind(self) -> None:
        source = self.source("#include <hakmem.hpp>\n")
        said = run(THERE[0], "-std=c++20", "-dM", "-E", "-I", INCLUDE, source).stdout
        ours = {line.split()[1] for line in said.splitlines() if line.startswith(("#define HAK_", "#define hak"))}
        self.assertEqual({word.split("(")[0] for word in ours}, {"HAK_STATS_HAS"})


if __name__ == "__main__":
    if not THERE:
        print("no g++ and no clang++")
        sys.exit(77)
    left_out = [name for name in COMPILERS if name not in THERE]
    if left_out:
        print("left out: " + ", ".join(left_out))
    unittest.main(argv=sys.argv[:1])
