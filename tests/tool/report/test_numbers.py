"""Compares mallinfo2, mallinfo, malloc_info and malloc_stats with the report, and the report with /proc/self/smaps. The process is idle between these
calls.

test_numbers.py LIBRARY WORKER"""
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import reports

FIELDS = ["arena", "ordblks", "hblks", "hblkhd", "fsmblks", "uordblks", "fordblks", "keepcost"]
INT_MAX = 2**31 - 1
LOADERS_OWN = 256 * 1024  # bytes of anonymous memory of the C library and the loader


class Numbers(reports.Case):
    def setUp(self) -> None:
        super().setUp()
        subprocess.run([reports.WORKER, "numbers", str(self.folder / "n")], check=True, timeout=reports.PATIENCE_S,
                       env=self.environment())
        self.report = reports.read(self.folder / "n.json")
        self.parts = self.report["mapped"]["parts"]
        self.sums = {key: sum(tier[key] for tier in self.report["tiers"][:3])
                     for key in ("slabs", "live", "rounding", "in_bins", "remote", "free_in_slabs", "tails", "live_blocks")}

    def test_mallinfo(self) -> None:
        lines = (self.folder / "n.info").read_text().splitlines()
        wide = dict(zip(FIELDS, map(int, lines[0].split())))
        sums, parts, large = self.sums, self.parts, self.report["tiers"][3]
        used = sums["live"] + sums["rounding"] + sums["remote"]
        free = sums["in_bins"] + sums["free_in_slabs"] + parts["idle"]
        self.assertEqual(wide, {
            "arena": used + free + sums["tails"], "ordblks": sums["slabs"], "hblks": large["live_blocks"], "hblkhd": large["live"],
            "fsmblks": sums["in_bins"], "uordblks": used, "fordblks": free,
            "keepcost": self.report["idle"]["dirty"] + parts["large_cached"]})
        self.assertEqual([int(word) for word in lines[1].split()], [min(value, INT_MAX) for value in wide.values()])

    def test_malloc_info(self) -> None:
        root = ElementTree.parse(self.folder / "n.xml").getroot()
        classes = {row["size"]: row for row in self.report["classes"] if row["slabs"] > 0}
        sizes = {int(size.get("to")): size for size in root.iter("size")}
        self.assertEqual(set(sizes), set(classes))
        for to, size in sizes.items():
            row = classes[to]
            self.assertEqual(int(size.get("total")), row["in_bins"] + row["free_in_slabs"])
            self.assertEqual(int(size.get("count")) * to, int(size.get("total")))
            self.assertEqual(int(size.get("live")), row["live"] + row["rounding"])
        totals = {total.get("type"): (int(total.get("count")), int(total.get("size"))) for total in root.iter("total")}
        large = self.report["tiers"][3]
        self.assertEqual(totals["mmap"], (large["live_blocks"], large["live"]))
        self.assertEqual(totals["live"], (self.sums["live_blocks"], self.sums["live"] + self.sums["rounding"]))
        self.assertEqual(totals["fast"][1], self.sums["in_bins"])
        self.assertEqual(totals["rest"][1], self.sums["free_in_slabs"] + self.parts["idle"])
        self.assertEqual(int(root.find("system").get("size")), self.report["mapped"]["total"])
        self.assertEqual({space.get("type"): int(space.get("size")) for space in root.iter("aspace")}, self.parts)

    def test_malloc_stats(self) -> None:
        text = (self.folder / "n.txt").read_text()
        for name, value in self.report["counters"].items():
            self.assertRegex(text, rf"\n  {name} +{value} ")
        for tier in self.report["tiers"]:
            self.assertRegex(text, rf"\n{tier['tier']} +{tier['served']} ")

    def test_the_kernels_numbers(self) -> None:
        resident = named = 0
        for line in (self.folder / "n.smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                has_name = len(line.split()) > 5
            elif line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
                named += int(line.split()[1]) * 1024 if has_name else 0
        self.assertLess(abs(self.report["resident"] - resident), resident / 50)
        self.assertTrue(reports.parts_sum_to_resident(self.report))
        rest = self.report["resident_parts"]["rest_of_process"]
        self.assertTrue(named * 0.98 <= rest <= named + LOADERS_OWN, f"rest_of_process {rest}, mappings with a name {named}")

    def test_what_was_touched_is_found(self) -> None:
        self.assertEqual(self.report["tiers"][3]["live"], 5 << 20)
        self.assertTrue(1 << 20 <= self.report["resident_parts"]["large_live"] <= 3 << 20)
        asked = sum(i * 13 + 1 for i in range(3000) if i % 3)
        self.assertTrue(asked <= self.sums["live"] + self.sums["rounding"])
        self.assertLess(abs(self.sums["live"] - asked), asked / 10)


if __name__ == "__main__":
    reports.main()
