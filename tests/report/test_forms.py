"""Checks the forms of the report: JSON against its schema, OpenMetrics with a strict parser, equal numbers in both; and that each of
these checks can fail.

test_forms.py LIBRARY WORKER"""
import copy
import os
import resource
import stat
import subprocess
import threading
from pathlib import Path

import jsonschema
import reports


class Forms(reports.Case):
    def run_it(self, report: str) -> None:
        subprocess.run([reports.WORKER, "idle"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                       timeout=reports.PATIENCE_S, env=self.environment(report=report))

    def written(self, name: str) -> Path:
        path = self.folder / name
        self.run_it(str(path))
        self.assertEqual(os.listdir(self.folder), [name])
        return path

    def test_json(self) -> None:
        report = reports.read(self.written("report.json"))
        self.assertTrue(reports.parts_sum_to_resident(report))
        self.assertEqual(report["mapped"]["total"], sum(report["mapped"]["parts"].values()))
        self.assertEqual([tier["tier"] for tier in report["tiers"]], ["tiny", "mid", "large", "big"])

    def test_any_text_and_limits(self) -> None:
        """Quotes and control characters of an option; the limits that the process was given."""
        path, goal, limit = self.folder / "report.json", 'much \t"\\\x01\x1f', 1 << 33
        subprocess.run([reports.WORKER, "idle"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       timeout=reports.PATIENCE_S, env=self.environment(report=str(path), goal=goal),
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        report = reports.read(path)
        self.assertEqual(report["limits"]["address"], limit)
        self.assertEqual(report["options"]["goal"], goal)

    def test_checks_of_json_can_fail(self) -> None:
        report = reports.read(self.written("report.json"))
        for change in (lambda r: r.update(more=1), lambda r: r["counters"].pop("forks"), lambda r: r["tiers"].pop(),
                       lambda r: r["classes"][0].update(tier="big"), lambda r: r.update(resident=-1)):
            changed = copy.deepcopy(report)
            change(changed)
            with self.assertRaises(jsonschema.ValidationError):
                reports.VALIDATOR.validate(changed)
        for change in (lambda r: r["resident_parts"].update(rest_of_process=0), lambda r: r.update(resident=r["resident"] * 2),
                       lambda r: r["resident_parts"].update(live=r["mapped"]["parts"]["live"] + 1)):
            changed = copy.deepcopy(report)
            change(changed)
            self.assertFalse(reports.parts_sum_to_resident(changed))

    def test_metrics(self) -> None:
        text = self.written("report.prom").read_text()
        self.assertTrue(text.endswith("\n# EOF\n"))
        samples = reports.read_metrics(text)
        self.assertGreater({name: value for (name, _), value in samples.items()}["hakmem_mallocs_total"], 0)
        parts = [key for key in samples if key[0] == "hakmem_mapped_bytes"]
        report = reports.read(self.json_beside())
        self.assertEqual({dict(labels)["part"] for _, labels in parts}, set(report["mapped"]["parts"]))
        for counter in report["counters"]:
            self.assertTrue({f"hakmem_{counter}_total", f"hakmem_{counter}_bytes_total"} & {name for name, _ in samples}, counter)
        for key in report["tiers"][0].keys() - {"tier", "hit_rate"}:
            names = {name for name, labels in samples if ("tier", "tiny") in labels and "size" not in dict(labels)}
            self.assertTrue({f"hakmem_tier_{key}", f"hakmem_tier_{key}_bytes", f"hakmem_tier_{key}_total"} & names, key)

    def json_beside(self) -> Path:
        path = self.folder / "beside.json"
        self.run_it(str(path))
        return path

    def test_checks_of_metrics_can_fail(self) -> None:
        text = self.written("report.prom").read_text()
        for broken in (text.replace("# EOF\n", ""), text.replace("_total{", "{"), text + text,
                       text.replace("# UNIT hakmem_mapped_bytes bytes", "# UNIT hakmem_mapped_bytes stones")):
            with self.assertRaises(Exception):
                reports.read_metrics(broken)

    def test_text(self) -> None:
        text = self.written("report").read_text()
        for line in text.partition("\noptions\n")[2].splitlines():
            self.assertRegex(line, "^  [a-z_]+ ")
        for word in ("rest_of_process", "rounding", "tiny", "counters", "report_every"):
            self.assertIn(word, text)

    def test_what_is_no_file_stays_what_it_is(self) -> None:
        pipe = self.folder / "pipe.json"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
        reader.start()
        self.run_it(str(pipe))
        reader.join(reports.PATIENCE_S)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertIn('"resident_parts"', read[0])


if __name__ == "__main__":
    reports.main()
