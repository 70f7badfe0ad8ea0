"""Tests the pages of hakmem report and hakmem profile in a browser."""

import json
import re
import shutil
import subprocess
import sys
import unittest
from html import unescape

from tool import PLAIN, ToolTest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDE, NARROW = 1280, 500
HEIGHT = re.compile(r'id="plot(\d)".*?class="main-svg"[^>]* height="(\d+)"', re.DOTALL)
STACKS, DEPTH = 1000, 100
# Counts what makes a page slow: measurements of the layout, and elements.
COUNTS = """<script>
const counts = {};
function count(of, name) {
  const one = Object.getOwnPropertyDescriptor(of, name), key = one.get ? "get" : "value", called = one[key];
  counts[name] = 0;
  Object.defineProperty(of, name, {...one, [key](...given) { counts[name]++; return called.apply(this, given); }});
}
for (const name of ["clientWidth", "clientHeight", "getBoundingClientRect", "getClientRects"]) count(Element.prototype, name);
for (const name of ["offsetWidth", "offsetHeight"]) count(HTMLElement.prototype, name);
count(Document.prototype, "createElement");
count(CanvasRenderingContext2D.prototype, "fillRect");
addEventListener("load", () => {
  const told = {counts: {...counts}, said: []}, canvas = document.querySelector("canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter", "ArrowUp"]) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
    told.said.push(document.querySelector("#said b").textContent);
  }
  canvas.dispatchEvent(new MouseEvent("mousemove", {clientX: canvas.getBoundingClientRect().left + 500, clientY: canvas.getBoundingClientRect().top + 70}));
  told.said.push(document.querySelector("#said b").textContent);
  document.documentElement.dataset.told = JSON.stringify(told);
});
</script>"""


class Page(ToolTest):
    def shown(self, width: int) -> str:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/browser"]
        command += [f"--window-size={width},1000", "--dump-dom", f"file://{self.folder}/out.html"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout

    def heights(self, width: int) -> dict[str, int]:
        shown = self.shown(width)
        return {plot: int(height) for plot, height in HEIGHT.findall(shown.rpartition("</script>")[0])}

    def test_in_a_narrow_window_the_plot_grows_by_its_legend(self) -> None:
        self.ok("run", "--report", "r.json", "--", PLAIN, "20000")
        report = json.loads((self.folder / "r.json").read_text())
        (self.folder / "later.json").write_text(json.dumps(report | {"time_ms": report["time_ms"] + 1000}))
        self.ok("report", "r.json", "later.json", "--html", "out.html")
        wide, narrow = self.heights(WIDE), self.heights(NARROW)
        self.assertEqual(wide["0"], narrow["0"], "the bars have no legend")
        self.assertGreater(narrow["1"], wide["1"])

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

    def test_a_flame_graph_of_100_000_frames(self) -> None:
        """The page measures its layout once, not once for each frame, and makes no element for a frame. The keys and the mouse find the frames."""
        stacks = [" ".join(f"0x{(depth * STACKS + stack) * 16:x}" for depth in range(DEPTH, 0, -1)) for stack in range(STACKS)]
        lines = [f"1: 1048576 [1: 1048576] @ {stack}" for stack in stacks]
        (self.folder / "big.heap").write_text("\n".join(["heap profile: 1: 1 [1: 1] @ heap_v2/1", *lines, "", "MAPPED_LIBRARIES:", ""]))
        self.ok("profile", "big.heap", "-o", "out.html")
        page = (self.folder / "out.html").read_text()
        (self.folder / "out.html").write_text(page.replace("<head>", "<head>" + COUNTS, 1))
        told = json.loads(unescape(re.search(r'data-told="(.*?)"', self.shown(1640))[1]))
        frames, made = told["counts"].pop("fillRect"), told["counts"].pop("createElement")
        self.assertEqual(frames, STACKS * DEPTH + 1)
        self.assertLess(made, 100)
        self.assertLessEqual(sum(told["counts"].values()), 1, told["counts"])
        first, second, third = (f"0x{(depth * STACKS) * 16:x}" for depth in (1, 2, 3))
        beside = [f"0x{(depth * STACKS + 1) * 16:x}" for depth in (2, 3)]
        self.assertEqual(told["said"], ["all", first, second, beside[0], beside[0], f"0x{(STACKS + 1) * 16:x}", beside[1]])


if __name__ == "__main__":
    if BROWSER is None:
        sys.exit(127)
    unittest.main(verbosity=2)
