"""Tests that `hakmem leaks` names lines of Python and Node, which name the functions of their scripts if `hakmem run --scripts` starts them."""

import os
import re
import shutil
import subprocess
import unittest
from functools import lru_cache
from pathlib import Path

from hakmem import scripts
from tool import LIBRARY, PYTHON, TOOL, ToolTest

SHOP_PY = """
import json
import sys
import time


class Shop:
    def __init__(self):
        self.cache = {}

    def remember(self, number):
        self.cache[number] = json.dumps([number] * 500, indent=1)


kept = []


def leak(number):
    kept.append(bytes(3000))


step = Shop().remember if sys.argv[1] == "cache" else leak
for number in range(1 << 20):
    step(number)
    json.loads(json.dumps([number] * 500, indent=1))
    time.sleep(0.002)
"""
SHOP_JS = """
const kept = [];

function leak() {
  kept.push(new ArrayBuffer(3000));
}

setInterval(() => {
  leak();
  new ArrayBuffer(5000);
}, 2);
"""
NAMES = "import sys, sysconfig; print(sys.executable, sys.version_info >= (3, 12) and sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE') == 1)"


def said_by(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


@lru_cache
def pythons() -> list:
    """Returns the Pythons that can name their functions, at most one of each version."""
    names = filter(None, (shutil.which(f"python3{minor}") for minor in ("", *(f".{number}" for number in range(12, 20)))))
    found = (said_by(str(path), "-c", NAMES).rpartition(" ") for path in [*names, *Path.home().glob(".pyenv/versions/3.*/bin/python3")])
    return sorted({os.path.realpath(path) for path, _, able in found if able == "True"})


@lru_cache
def node() -> object:
    version = re.match(r"v(\d+)", said_by("node", "--version"))
    return shutil.which("node") if version and int(version[1]) >= 16 else None


class Lines(ToolTest):
    def leaks(self, name: str, text: str, function: str, *command: str) -> None:
        """Runs the program until the first suspected line is the one at which the function begins."""
        (self.folder / name).write_text(text)
        process = self.start(*TOOL, "run", "--scripts", "--set", "heap_sample=16k", "--", *command)
        self.addCleanup(Path(f"/tmp/perf-{process.pid}.map").unlink, missing_ok=True)
        line = next(number for number, line in enumerate(text.splitlines(), 1) if re.search(rf"\b{function.split('.')[-1]}\(", line))
        wanted, last = rf"^1\. \S+ \S+ in .* blocks, {name}:{line} \({re.escape(function)}\): ", ""

        def named() -> bool:
            nonlocal last
            done = self.tool("leaks", str(process.pid))
            last = done.stdout + done.stderr
            self.assertIsNone(process.poll(), last)
            return re.search(wanted, last) is not None

        self.wait_for(named, wanted)
        self.assertNotIn("functions of the interpreter", last)

    def test_python(self) -> None:
        if not pythons():
            self.skipTest("no Python of version 3.12 or newer")
        for python in pythons():
            with self.subTest(python):
                self.leaks("shop.py", SHOP_PY, "leak", python, "shop.py", "leak")
                self.leaks("shop.py", SHOP_PY, "Shop.remember", python, "shop.py", "cache")

    @unittest.skipIf(node() is None, "no Node of version 16 or newer")
    def test_node(self) -> None:
        self.leaks("shop.js", SHOP_JS, "leak", str(node()), "--no-turbo-inlining", "shop.js")

    def test_a_profile_at_exit(self) -> None:
        """The number in the name of the profile leads to the map, which stays when the process has ended."""
        if not pythons():
            self.skipTest("no Python of version 3.12 or newer")
        (self.folder / "shop.py").write_text("kept = []\ndef keep():\n    kept.extend(bytes(3000) for number in range(5000))\nkeep()\n")
        self.ok("run", "--scripts", "--set", "heap_sample=16k", "--set", f"heap_profile={self.folder}/%p.heap", "--", pythons()[-1], "shop.py")
        (profile,) = self.folder.glob("*.heap")
        self.addCleanup(Path(f"/tmp/perf-{profile.stem}.map").unlink)
        rows = self.ok("profile", "--allocated", profile.name).splitlines()
        self.assertRegex(rows[rows.index(next(row for row in rows if row.endswith("  line"))) + 1], r" shop\.py:2  keep\.<locals>\.<genexpr>$")

    def test_the_hint(self) -> None:
        """Without the option, a function of the interpreter is shown, and the tool says how the script's is found."""
        program = "import time\nprint('on', flush=True)\nwhile True: time.sleep(len(bytes(5000)) / 1e6)"
        process = self.start(PYTHON, "-c", program, LD_PRELOAD=LIBRARY, HAKMEM_HEAP_SAMPLE="1k")
        self.assertEqual(process.stdout.readline(), "on\n")
        self.assertIn("hakmem run --scripts", self.tool("profile", str(process.pid)).stderr)

    def test_the_environment(self) -> None:
        print_it = ("--", "sh", "-c", "echo $PYTHONPERFSUPPORT $PYTHONMALLOC $NODE_OPTIONS")
        self.assertEqual(self.ok("run", *print_it, NODE_OPTIONS="--title=x"), "--title=x\n")
        ours = "--perf-basic-prof --interpreted-frames-native-stack"
        self.assertEqual(self.ok("run", "--scripts", *print_it), f"1 malloc {ours}\n")
        self.assertEqual(self.ok("run", "--scripts", *print_it, NODE_OPTIONS="--title=x", PYTHONMALLOC="debug"), f"1 debug --title=x {ours}\n")

    def test_the_map_of_a_process_in_a_namespace(self) -> None:
        process = self.start("unshare", "--pid", "--fork", "sh", "-c", "echo $$; read line")
        if process.stdout.readline() != "1\n":
            self.skipTest("no permission to make a namespace")
        child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
        self.assertEqual(scripts.map_of(int(child)), (Path(f"/proc/{child}/root/tmp/perf-1.map"), {os.getuid()}))


if __name__ == "__main__":
    unittest.main()
