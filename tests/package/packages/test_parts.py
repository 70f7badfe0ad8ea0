"""Checks the parts that packages are made of: tables that must agree, and the small programs of tools/dist."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "cmake/packages"
sys.path.insert(0, str(ROOT / "tools/dist"))
sys.dont_write_bytecode = True

import finish_deb  # noqa: E402
import source  # noqa: E402
import zig_cc  # noqa: E402


def project_version() -> str:
    return re.search(r"project\(hakmem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class Tables(unittest.TestCase):
    def test_the_symbols_are_those_that_the_library_exports(self) -> None:
        head, _, *rows = (PACKAGES / "symbols").read_text().splitlines()
        self.assertEqual(head, "libhakmem.so.0 libhakmem0")
        exported = [line for line in (ROOT / "tests/api/abi/exports.txt").read_text().split("\n") if line and not line.startswith("#")]
        self.assertEqual([row.split("@")[0].strip() for row in rows], exported, "a new one gets a row with the version that brings it")

    def test_the_changelog_is_of_this_version(self) -> None:
        self.assertTrue((PACKAGES / "changelog.Debian").read_text().startswith(f"hakmem ({project_version()}-"))

    def test_the_maintainer_is_a_placeholder(self) -> None:
        for path in (ROOT / "cmake/HakmemPackages.cmake", PACKAGES / "changelog.Debian"):
            self.assertEqual(set(re.findall(r"<[^<>]*@([^<>]*)>", path.read_text())), {"hakmem.invalid"})

    def test_each_program_has_a_page(self) -> None:
        for name in ("hakmem-run.1", "hakmem-play.1", "hakmem-replay.1", "hakmem.3"):
            text = (ROOT / "tools/man" / name).read_text()
            self.assertTrue(text.startswith(f".TH {name[:-2].upper()} {name[-1]} "), name)
        usage = (ROOT / "tools/hakmem-run.in").read_text()
        page = (ROOT / "tools/man/hakmem-run.1").read_text().replace("\\-", "-")
        for option in set(re.findall(r"(--[a-z]+)\b", usage.partition("name=")[0])):
            self.assertIn(option, page)


class Compiler(unittest.TestCase):
    def test_what_the_linker_is_told(self) -> None:
        words = "-fPIC -O2 -g -Wl,-z,now,-z,initfirst -shared -Wl,-soname,liba.so.0 -o liba.so -I include a.o -lpthread -lz b.a".split()
        self.assertEqual(zig_cc.for_the_linker(words), "-z now -z initfirst -soname liba.so.0 -o liba.so a.o -lz b.a".split())

    def test_what_is_for_musl(self) -> None:
        """A program is linked with musl's loader, so that a library can be preloaded into it. A library is linked with the names that zig made for
        musl."""
        folder = Path("/nowhere")
        self.assertIn("-dynamic", zig_cc.command("cc", "aarch64-linux-musl", folder, ["-o", "a", "a.o"]))
        for tool, target, words in (("cc", "aarch64-linux-musl", ["-c", "a.c"]), ("cc", "aarch64-linux-gnu.2.17", ["-o", "a", "a.o"])):
            self.assertNotIn("-dynamic", zig_cc.command(tool, target, folder, words))


class Description(unittest.TestCase):
    def test_it_is_wrapped_below_its_own_summary(self) -> None:
        text = finish_deb.description(f"of the project\n of the package\n {'word ' * 40}\n .\n The end.")
        first, *lines = text.split("\n")
        self.assertEqual((first, lines[-2:]), ("of the package", [" .", " The end."]))
        self.assertTrue(len(lines) > 4 and all(len(line) < 80 for line in lines), text)


class Tarball(unittest.TestCase):
    def test_what_builds_leave_is_left_out(self) -> None:
        for path in ("build", "build/a.o", "build-deb/x", "a/__pycache__/b.pyc", ".git/HEAD", "tools/hakmem/hakmem.egg-info/x", "rust/target/a"):
            self.assertTrue(source.LEFT_BY_BUILDS.search(path), path)
        for path in ("tools/packages/build.txt", "tests/process/programs/cases/builds.py", ".github/workflows/ci.yml", "CMakeLists.txt", "rust/hakmem-sys/build.rs"):
            self.assertFalse(source.LEFT_BY_BUILDS.search(path), path)

    def test_the_same_bytes_twice(self) -> None:
        made = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, ROOT / "tools/dist/source.py", "--output", folder], check=True, stdout=subprocess.DEVNULL)
                made.append(next(Path(folder).iterdir()).read_bytes())
        self.assertEqual(made[0], made[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
