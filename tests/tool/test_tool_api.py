"""Checks the Python API: `import hakmem`."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import hakmem
from hakmem import reports
from tool import LIBRARY, PLAIN, PYTHON, ROOT, TOOL, ToolTest

README = ROOT / "tools/hakmem/README.md"
# The files of the API and of the types that it returns. mypy checks them with all its options.
STRICT = ("__init__", "api", "difference", "reports", "trouble", "figures", "completing", "manual", "top_flame", "process", "difference_views", "top_tables")
USER = """
import hakmem
report: hakmem.Report = hakmem.report("x.json")
resident: float | None = report.resident
parts: dict[str, float] = report.parts
difference: hakmem.Difference = hakmem.diff(1234, "b.json", symbols_b="kept")
changes: list[tuple[str, int]] = [(part.name, part.change) for term in difference.terms for part in term.parts]
environment: dict[str, str] = hakmem.environment(report="x.json", guard=True, goal="512m", purge_delay=500)
series: list[hakmem.Report] = hakmem.series("folder")
"""


class Api(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        patches = (mock.patch.dict("os.environ", self.env, clear=True),)
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def ran(self, name: str, count: int = 2000, **settings: object) -> Path:
        path = self.folder / name
        environment = hakmem.environment(report=str(path), **settings)
        subprocess.run([PLAIN, str(count)], env=environment, check=True, capture_output=True, cwd=self.folder)
        return path

    def test_a_file_and_a_folder(self) -> None:
        path = self.ran("r.json")
        report = hakmem.report(path)
        self.assertIsInstance(report, hakmem.Report)
        self.assertEqual(report.data, json.loads(path.read_text()))
        self.assertEqual(report.resident, report.data["resident"])
        later = dict(report.data, time_ms=report.data["time_ms"] + 1000)
        (self.folder / "later.json").write_text(json.dumps(later))
        self.assertEqual(hakmem.report(self.folder).data["time_ms"], later["time_ms"])
        self.assertEqual(len(hakmem.series(str(self.folder))), 2)
        self.assertEqual(len(hakmem.series(path, self.folder / "later.json")), 2)

    def test_environment(self) -> None:
        environment = hakmem.environment(report="r.json", purge_delay=7, LEARN="off")
        self.assertTrue(environment["LD_PRELOAD"].startswith(LIBRARY))
        self.assertEqual((environment["HAKMEM_PURGE_DELAY"], environment["HAKMEM_LEARN"]), ("7", "off"))
        self.assertTrue(environment["HAKMEM_REPORT"].endswith("/r.json"))
        self.assertNotIn("HAKMEM_REPORT", hakmem.environment())
        self.assertEqual(hakmem.environment(guard=True)["HAKMEM_SAFE_FREE"], "1")
        self.assertIn("hardened", hakmem.environment(hardened=True)["LD_PRELOAD"])
        self.assertTrue(hakmem.environment(live=True)["HAKMEM_REPORT"].startswith(str(self.live)))
        self.assertEqual(hakmem.report(self.ran("set.json", purge_delay=1234)).at("options", "purge_delay"), 1234)

    def test_a_process(self) -> None:
        program = self.start(*TOOL, "run", "--set", "report_every=50", "--set", "background=1", "--", PYTHON, "-c", "input()")
        live = self.live / f"{program.pid}.json"
        self.wait_for(lambda: live.exists() and reports.read(live), "a live report")
        self.assertEqual(hakmem.report(program.pid).number("process"), program.pid)
        self.ran("r.json")
        self.assertEqual(hakmem.diff(self.folder / "r.json", program.pid).b.process, program.pid)

    def test_this_process(self) -> None:
        with self.assertRaisesRegex(hakmem.Trouble, "does not run on HAKMEM"):
            hakmem.report()
        script = "import hakmem, os; kept = [bytes(1000) for _ in range(5000)]; r = hakmem.report(); assert r.number('process') == os.getpid(); print(int(r.parts['live']))"
        said = subprocess.run([sys.executable, "-c", script], env=hakmem.environment(), check=True, capture_output=True, text=True).stdout
        self.assertGreater(int(said), 5000 * 1000)

    def test_difference(self) -> None:
        a, b = self.ran("a.json", 100), self.ran("b.json", 200000)
        found = hakmem.diff(a, b)
        self.assertEqual(sum(term.change for term in found.terms), found.change)
        self.assertEqual(found.change, hakmem.report(b).data["resident"] - hakmem.report(a).data["resident"])
        self.assertEqual(found.term("live").name, "live")

    def test_troubles(self) -> None:
        (self.folder / "not.json").write_text("{}")
        for said, call in (
            ("no such file", lambda: hakmem.report(self.folder / "gone.json")),
            ("no JSON report", lambda: hakmem.report(str(self.folder / "not.json"))),
            ("there is no process", lambda: hakmem.report(2**22 + 1)),
            ("did you mean purge_delay", lambda: hakmem.environment(purge_delya=1)),
            ("not a number", lambda: hakmem.environment(purge_delay="soon")),
            ("No such file", lambda: hakmem.diff("gone.json", "gone.json")),
        ):
            with self.assertRaisesRegex(hakmem.Trouble, said):
                call()

    def test_names(self) -> None:
        self.assertTrue(set(hakmem.__all__) <= set(dir(hakmem)))
        for name in hakmem.__all__:
            self.assertTrue(hasattr(hakmem, name), name)
        with self.assertRaises(AttributeError):
            hakmem.nothing

    def test_import_is_quick(self) -> None:
        """The import loads no module before a name is used, because `hakmem run` imports the package too."""
        script = "import sys, hakmem; print(*[name for name in sys.modules if name.startswith('hakmem.')])"
        said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said.strip(), "")

    def test_the_examples_of_the_manual(self) -> None:
        examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        self.assertTrue(examples)
        for example in examples:
            done = subprocess.run([sys.executable, "-c", example], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^[+-]\d+ [\w' ]+: \[")


class Types(ToolTest):
    def mypy(self, *words: str) -> str:
        line = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(self.folder / "cache"), "--follow-imports=silent", *words]
        done = subprocess.run(line, cwd=ROOT / "tools/hakmem", capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def test_strict(self) -> None:
        self.assertIn("Success", self.mypy(*(f"hakmem/{name}.py" for name in STRICT)))

    def test_of_a_program_that_uses_it(self) -> None:
        self.assertTrue((ROOT / "tools/hakmem/hakmem/py.typed").exists())
        program = self.folder / "user.py"
        program.write_text(USER)
        self.assertIn("Success", self.mypy(str(program)))
        program.write_text(USER + "x: str = report.resident\n")
        self.assertIn("Incompatible types", self.mypy(str(program)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
