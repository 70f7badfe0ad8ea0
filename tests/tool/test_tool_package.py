"""Checks the Python package: it can be installed from the tree, finds the library beside itself, and has the project's version."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from hakmem import __version__, library
from tool import LIBRARY, PLAIN, ROOT, ToolTest


class Installed(ToolTest):
    def setUp(self) -> None:
        """Installs the package without the network. The dependencies are in the venv of the tests."""
        super().setUp()
        self.tree, self.prefix = self.folder / "a tree", self.folder / "prefix"
        source = self.tree / "tools/hakmem"
        shutil.copytree(
            ROOT / "tools/hakmem", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        )
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
            "--target",
            str(self.prefix),
            str(source),
        ]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        del self.env["HAKMEM_LIBRARY"]
        self.env["PYTHONPATH"] = str(self.prefix)

    def installed(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(self.prefix / "bin/hakmem"), *words], env=self.env, capture_output=True, text=True, check=False
        )

    def test_it_finds_the_library_of_its_prefix(self) -> None:
        library = self.prefix / "lib/libhakmem.so"
        library.parent.mkdir()
        shutil.copy(LIBRARY, library)
        self.assertEqual(self.installed("--version").stdout, f"hakmem {__version__} ({library})\n")
        self.assertEqual(self.installed("run", "--", PLAIN).stdout, "1000\n")
        report = self.folder / "r.json"
        self.installed("run", "--report", str(report), "--", PLAIN)
        done = self.installed("report", str(report), "--html", str(self.folder / "out.html"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_has_the_man_page_the_types_and_the_api(self) -> None:
        manual = (self.prefix / "share/man/man1/hakmem.1").read_text()
        self.assertEqual(manual, (ROOT / "tools/hakmem/man/hakmem.1").read_text())
        self.assertTrue((self.prefix / "hakmem/py.typed").exists())
        script = "import hakmem; print(hakmem.__file__, hakmem.Report({}).resident)"
        done = subprocess.run([sys.executable, "-c", script], env=self.env, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, f"{self.prefix}/hakmem/__init__.py None\n")

    def test_it_finds_the_build_of_the_tree_it_was_installed_from(self) -> None:
        """Tests the state after `make` and `pip install tools/hakmem`, without `make install`."""
        for path in ("src/base", "build"):
            (self.tree / path).mkdir(parents=True)
        (self.tree / "src/base/base.h").touch()
        (self.tree / "build/libhakmem.so").symlink_to(LIBRARY)
        self.assertEqual(self.installed("--version").stdout, f"hakmem {__version__} ({os.path.realpath(LIBRARY)})\n")

    def test_no_place_is_searched_twice(self) -> None:
        done = self.installed("doctor")
        places = [line.strip() for line in done.stdout.splitlines() if line.strip().endswith("/libhakmem.so")]
        self.assertEqual(len(places), len(set(places)), done.stdout)
        places = library.candidates()
        self.assertEqual(len(places), len(set(places)))

    def test_without_a_library_it_says_where_it_looked(self) -> None:
        done = self.installed("run", "--", PLAIN)
        if done.returncode == 0:
            self.skipTest("this machine has an installed libhakmem.so")
        self.assertEqual(done.returncode, 66)
        self.assertIn(str(self.prefix / "lib/libhakmem.so"), done.stderr)


class Version(unittest.TestCase):
    def test_it_is_the_projects(self) -> None:
        text = (ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(re.search(r"project\(hakmem VERSION ([\d.]+)", text)[1], __version__)


class Source(ToolTest):
    def test_the_tree_serves_its_own_build(self) -> None:
        """From the source tree, the tool finds the build of that tree."""
        del self.env["HAKMEM_LIBRARY"]
        places = [str(place) for place in library.candidates()]
        self.assertIn(str(ROOT / "build/libhakmem.so"), places)
        self.assertLess(places.index(str(ROOT / "build/libhakmem.so")), places.index("/usr/lib/libhakmem.so"))
        self.assertTrue(os.path.isfile(LIBRARY))


if __name__ == "__main__":
    unittest.main(verbosity=2)
