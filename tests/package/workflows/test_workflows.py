"""Tests check_workflows.py: it accepts the tree, and it reports each change of one place."""
import shutil
import tempfile
import unittest
from pathlib import Path

from check_workflows import check

ROOT = Path(__file__).resolve().parents[3]
CI = ".github/workflows/ci.yml"

# File, old text, new text, and the report that the change must cause.
CHANGES = [
    (CI, "make check", "make chek", "ci.yml: the Makefile has no target chek"),
    (CI, "PRESETS=clang", "PRESETS=klang", "ci.yml: there is no preset klang"),
    (CI, "command: make test PRESETS=tsan", "command: make check", "ci.yml does not test the preset tsan"),
    (CI, "command: make check", "command: make all", "ci.yml does not test the preset release"),
    (".github/workflows/full.yml", "make test", "ctest", "full.yml: it calls no make"),
    ("Makefile", "\ncheck:", "\nchecked:", "ci.yml: the Makefile has no target check"),
    ("tools/test_all.sh", "${*:-release", "${*:-fuzz release", "ci.yml does not test the preset fuzz"),
]


class Workflows(unittest.TestCase):
    def test_the_tree(self) -> None:
        self.assertEqual(check(ROOT), [])

    def test_each_change(self) -> None:
        for name, old, new, expected in CHANGES:
            with self.subTest(expected), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                shutil.copytree(ROOT / ".github", root / ".github")
                for copied in ("Makefile", "CMakePresets.json", "tools/test_all.sh"):
                    (root / copied).parent.mkdir(exist_ok=True)
                    shutil.copy(ROOT / copied, root / copied)
                text = (root / name).read_text()
                self.assertIn(old, text)
                (root / name).write_text(text.replace(old, new))
                self.assertIn(expected, check(root))


if __name__ == "__main__":
    unittest.main()
