"""Tests the page of hakmem report in a browser."""

import json
import re
import shutil
import subprocess
import sys
import unittest

from tool import PLAIN, ToolTest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDE, NARROW = 1280, 500
HEIGHT = re.compile(r'id="plot(\d)".*?class="main-svg"[^>]* height="(\d+)"', re.DOTALL)


class Page(ToolTest):
    def heights(self, width: int) -> dict[str, int]:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/browser"]
        command += [f"--window-size={width},1000", "--dump-dom", f"file://{self.folder}/out.html"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout
        return {plot: int(height) for plot, height in HEIGHT.findall(shown.rpartition("</script>")[0])}

    def test_in_a_narrow_window_the_plot_grows_by_its_legend(self) -> None:
        self.ok("run", "--report", "r.json", "--", PLAIN, "20000")
        report = json.loads((self.folder / "r.json").read_text())
        (self.folder / "later.json").write_text(json.dumps(report | {"time_ms": report["time_ms"] + 1000}))
        self.ok("report", "r.json", "later.json", "--html", "out.html")
        wide, narrow = self.heights(WIDE), self.heights(NARROW)
        self.assertEqual(wide["0"], narrow["0"], "the bars have no legend")
        self.assertGreaterEqual(narrow["1"], wide["1"] + 40)


    def test_of_a_difference(self) -> None:
        """Each plot must be drawn with its texts inside it, in a wide window and in a narrow one."""
        for name, count in (("a", "2000"), ("b", "200000")):
            self.ok("run", "--report", f"{name}.json", "--set", "heap_sample=1k", "--", PLAIN, count)
        self.ok("diff", "a.json", "b.json", "--html", "out.html")
        text = (self.folder / "out.html").read_text()
        plots = set(re.findall(r'class="plot" id="plot(\d)"', text))
        for width in (WIDE, NARROW):
            self.assertEqual(set(self.heights(width)), plots)
        self.assertIn("0", plots)


if __name__ == "__main__":
    if BROWSER is None:
        sys.exit(127)
    unittest.main(verbosity=2)
