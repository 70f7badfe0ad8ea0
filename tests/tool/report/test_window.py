"""Checks that each format of the report says whether the window exists in which frees may be hits. Nothing else would show that the window is
missing, because the slow path serves every call in any case.

test_window.py LIBRARY WORKER"""
import re
import subprocess

import reports


class Window(reports.Case):
    def told(self, *arguments: str, **options: str) -> tuple[int, int]:
        """Returns the bytes of the window, and the bytes of the heap outside it. All formats of the report must agree."""
        said = set()
        for form in ("json", "prom", "txt"):
            path = self.folder / f"report.{form}"
            subprocess.run([reports.WORKER, *arguments], check=True, timeout=reports.PATIENCE_S, stdin=subprocess.DEVNULL,
                           env=self.environment(report=str(path), **options))
            said.add(self.read(path, form))
        self.assertEqual(len(said), 1, said)
        return said.pop()

    def read(self, path, form: str) -> tuple[int, int]:
        if form == "json":
            counters = reports.read(path)["counters"]
            return counters["hit_window"], counters["outside_window"]
        if form == "prom":
            values = {name: value for (name, _), value in reports.read_metrics(path.read_text()).items()}
            return int(values["hakmem_hit_window_bytes_total"]), int(values["hakmem_outside_window_bytes_total"])
        return tuple(int(re.search(rf"\n  {name} +(\d+) ", path.read_text())[1]) for name in ("hit_window", "outside_window"))

    def test_the_heap_lies_in_it(self) -> None:
        window, outside = self.told("idle")
        self.assertGreaterEqual(window, 1 << 30)
        self.assertEqual(outside, 0)

    def test_an_option_that_sees_each_call_shuts_it(self) -> None:
        window, outside = self.told("idle", trace_ring="16")
        self.assertEqual((window, outside), (0, 0))

    def test_the_heap_lies_outside_it(self) -> None:
        window, outside = self.told("outside")
        self.assertGreaterEqual(window, 1 << 30)
        self.assertGreater(outside, 1 << 20)


if __name__ == "__main__":
    reports.main()
