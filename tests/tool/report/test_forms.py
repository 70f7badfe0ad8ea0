"""Checks the formats of the report: JSON against its schema, OpenMetrics with a strict parser, and equal numbers in both. Also checks that each of
these checks can fail.

test_forms.py LIBRARY WORKER"""
import copy
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import jsonschema
import reports


# Three heaps: one whose limit has refused a call, one with a single block and a strange name, and one that has ended.
HEAPS = """
import ctypes
hakmem = ctypes.CDLL(None)
hakmem.hak_heap_create.restype = hakmem.hak_heap_malloc.restype = ctypes.c_void_p
hakmem.hak_heap_create.argtypes, hakmem.hak_heap_malloc.argtypes = [ctypes.c_char_p, ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t]
full, odd, gone = (hakmem.hak_heap_create(name, limit) for name, limit in ((b"full", 2 << 20), (b'o"d\\\x01\\xff\\xc3\\xa4', 0), (b"gone", 0)))
hakmem.hak_heap_malloc(odd, 100)
blocks = 0
while hakmem.hak_heap_malloc(full, 5000):
    blocks += 1
hakmem.hak_heap_destroy(ctypes.c_void_p(gone))
print(blocks)
"""


class Forms(reports.Case):
    def heaps_in(self, form: str) -> tuple[int, str]:
        """Returns how many blocks of 5000 bytes the limit of the full heap allowed, and the report."""
        path = self.folder / f"heaps.{form}"
        said = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, check=True, timeout=reports.PATIENCE_S,
                              env=self.environment(report=str(path)), text=True).stdout
        return int(said), path.read_text()

    def test_heaps_of_the_program(self) -> None:
        blocks, text = self.heaps_in("json")
        (self.folder / "again.json").write_text(text)
        report = reports.read(self.folder / "again.json")
        full, odd = report["heaps"]
        self.assertEqual((full["name"], odd["name"], odd["live_blocks"], odd["refused"]), ("full", 'o"d\\\x01\ufffdä', 1, 0))
        self.assertEqual((full["limit"], full["live_blocks"], full["served"], full["refused"]), (2 << 20, blocks, blocks, 1))
        self.assertTrue(blocks > 300 and full["live"] <= full["physical"] <= full["peak"] <= 2 << 20, full)
        self.assertEqual(report["mapped"]["parts"]["heaps"], full["physical"] + odd["physical"])
        blocks, text = self.heaps_in("prom")
        samples = {(name, dict(labels).get("name")): value for (name, labels), value in reports.read_metrics(text).items()}
        wanted = {"physical_bytes": full["physical"], "limit_bytes": 2 << 20, "live_blocks": blocks, "refused_total": 1}
        self.assertEqual({key: samples.get((f"hakmem_heap_{key}", "full")) for key in wanted}, wanted)
        self.assertEqual(samples["hakmem_heap_live_blocks", "o_d_____"], 1)
        blocks, text = self.heaps_in("txt")
        self.assertRegex(text, r"\n2 heaps of the program's own\n +physical +limit +peak")
        self.assertRegex(text, rf"\n +2\.0 MiB +2\.0 MiB .* {blocks} +{blocks} +1 +0  full\n")
        self.assertRegex(text, r'  o"d\\\\x01\\xffä\n')
        self.assertNotIn("gone", text)

    def test_no_heaps_of_the_program(self) -> None:
        report = reports.read(self.written("none.json"))
        self.assertFalse("heaps" in report or "heaps" in report["mapped"]["parts"])

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
        self.assertEqual([tier["tier"] for tier in report["tiers"]], ["tiny", "small", "medium", "large"])

    def test_any_text_and_limits(self) -> None:
        """Tests quotes and control characters in an option, and the limits of the process."""
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
                       lambda r: r["classes"][0].update(tier="large"), lambda r: r.update(resident=-1)):
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
