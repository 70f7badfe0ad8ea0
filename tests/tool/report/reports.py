"""The common parts of the tests of the report: they run programs with HAKMEM preloaded, and check what holds for each report."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import jsonschema
from prometheus_client.openmetrics.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[3]
VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/report.schema.json").read_text()))
PATIENCE_S = 100  # seconds for each event, also on a busy machine
LIBRARY, WORKER = sys.argv[1:3]


def read(path: Path) -> dict:
    """Returns the report. It must match its schema, and the mapped total must not be negative."""
    report = json.loads(path.read_text())
    VALIDATOR.validate(report)
    assert report["mapped"]["total"] >= 0
    return report


def parts_sum_to_resident(report: dict) -> bool:
    """Returns whether the sum is right within 2 %, and whether no part has more resident bytes than mapped bytes."""
    total = sum(report["resident_parts"].values())
    mapped = report["mapped"]["parts"]
    fits = all(report["resident_parts"][part] <= mapped[part] for part in mapped)
    return fits and report["resident"] > 0 and abs(total - report["resident"]) <= report["resident"] / 50


def read_metrics(text: str) -> dict[tuple[str, tuple], float]:
    """Returns each sample by name and labels, as a strict parser reads them. Families must have a type."""
    samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge", "info"), family
        assert (family.unit == "bytes") == family.name.endswith("_bytes"), family
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return samples


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def environment(self, **options: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        return {**plain, "LD_PRELOAD": LIBRARY, **{f"HAKMEM_{name.upper()}": value for name, value in options.items()}}

    def start(self, *arguments: str, **options: str) -> subprocess.Popen:
        """Starts the worker and returns it after it has printed its first line."""
        worker = subprocess.Popen([WORKER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=self.environment(**options))
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        worker.first_line = worker.stdout.readline().strip()
        return worker

    def end(self, worker: subprocess.Popen) -> str:
        """Ends the input of the worker, and returns its stderr."""
        errors = worker.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(worker.returncode, 0, errors)
        return errors

    def wait_for(self, what: str, happened) -> object:
        deadline = time.monotonic() + PATIENCE_S
        while not (result := happened()):
            self.assertLess(time.monotonic(), deadline, f"waited in vain: {what}")
            time.sleep(0.005)
        return result


def main() -> None:
    unittest.main(argv=sys.argv[:1])
