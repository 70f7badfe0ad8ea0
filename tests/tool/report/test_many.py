"""Checks the reports of a tree of processes. Each process writes one, even a child that ends by _exit, and no child overwrites the report of its
parent. If a process has two copies of HAKMEM, only the copy that serves it writes a report.

test_many.py LIBRARY WORKER STATIC SHARED HARDENED    STATIC and SHARED are the worker linked with libhakmem.a and with libhakmem.so"""
import os
import subprocess
import sys
from pathlib import Path

import reports

STATIC, SHARED, HARDENED = sys.argv[3:6]
CHILDREN, BLOCKS = 3, 5000


class Many(reports.Case):
    def run_it(self, *words: str, preload: str = reports.LIBRARY, **options: str) -> subprocess.CompletedProcess:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * reports.PATIENCE_S,
                              env={**self.environment(**options), "LD_PRELOAD": preload}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def found(self, folder: Path) -> dict[str, dict]:
        return {file.name: reports.read(file) for file in folder.iterdir()}

    def check_tree(self, found: dict[str, dict]) -> None:
        """Checks a parent and its children. Each must have its own counts."""
        parent = next(report for report in found.values() if report["served"]["malloc"] < BLOCKS)
        children = [report for report in found.values() if report is not parent]
        self.assertEqual(len(children), CHILDREN)
        for report in children:
            self.assertEqual(report["parent"], parent["process"])
            self.assertGreaterEqual(report["served"]["malloc"], BLOCKS)
        self.assertEqual({report["command"] for report in found.values()}, {Path(reports.WORKER).name[:15]})

    def test_a_folder(self) -> None:
        self.run_it(reports.WORKER, "children", str(CHILDREN), report=f"{self.folder}/")
        found = self.found(self.folder)
        self.assertEqual(set(found), {f"{report['process']}.json" for report in found.values()})
        self.check_tree(found)

    def test_a_folder_that_is_not_there(self) -> None:
        done = self.run_it(reports.WORKER, "children", "1", report=f"{self.folder}/none/")
        self.assertEqual(done.stderr, f'hakmem: option report: "{self.folder}/none/" cannot be written: no such file or folder\n' * 2)

    def test_a_file_is_the_first_processs(self) -> None:
        self.run_it(reports.WORKER, "children", str(CHILDREN), report=f"{self.folder}/r.json")
        found = self.found(self.folder)
        first = found["r.json"]["process"]
        named = {"r.json" if report["process"] == first else f"r.{report['process']}.json" for report in found.values()}
        self.assertEqual(set(found), named)
        self.check_tree(found)

    def test_so_are_other_files(self) -> None:
        path = self.folder / "p.heap"
        self.run_it(reports.WORKER, "children", "1", heap_profile=str(path), explain=str(self.folder / "log"),
                    profile_save=f"{self.folder}/saved/")
        names = {file.name for file in self.folder.iterdir()}
        self.assertLessEqual({"p.heap", "log"}, names)
        self.assertEqual(len([name for name in names if name.startswith("p.") and name.endswith(".heap")]), 2)

    def test_programs_that_a_process_starts(self) -> None:
        """The shell writes its report to the file that the option names. A program that has another value of the option does not count as a child."""
        inner, other = self.folder / "inner.json", self.folder / "r.json"
        script = f"{reports.WORKER} idle; HAKMEM_REPORT={inner} {reports.WORKER} idle; exit 0"
        self.run_it("/bin/sh", "-c", script, report=str(other))
        found = self.found(self.folder)
        self.assertEqual(found["r.json"]["command"], "sh")
        self.assertEqual(found["inner.json"]["parent"], found["r.json"]["process"])
        child = next(report for name, report in found.items() if name not in ("r.json", "inner.json"))
        self.assertIn(f"r.{child['process']}.json", found)
        self.assertEqual(len(found), 3)

    def test_titles_and_shared_pages(self) -> None:
        """The title is what a program has set, or the first word of the command line. It has no arguments, which may be secret."""
        self.run_it("/bin/bash", "-c", f"exec -a 'shop: worker 3' {reports.WORKER} idle secret", report=f"{self.folder}/")
        (report,) = self.found(self.folder).values()
        self.assertEqual(report["title"], "shop: worker 3")
        self.assertTrue(0 < report["resident_pss"] <= report["resident"] + (1 << 20))
        self.assertGreaterEqual(report["resident_peak"] + (1 << 20), report["resident"])

    def test_devices_and_pipes_are_for_all(self) -> None:
        self.assertEqual(self.run_it(reports.WORKER, "children", "2", report="-").stderr.count("where the memory is"), 3)
        self.assertEqual(self.run_it(reports.WORKER, "children", "2", report="/dev/stderr").stderr.count("where the memory is"), 3)

    def test_a_vfork_child_is_no_process_of_its_own(self) -> None:
        self.run_it(reports.WORKER, "vforks", report=f"{self.folder}/")
        self.assertEqual(len(self.found(self.folder)), 1)

    def test_exit_in_a_signal_handler(self) -> None:
        """The interrupted thread may hold a lock. Then no report is written, but the process must end."""
        self.run_it(reports.WORKER, "interrupted", report=f"{self.folder}/")
        self.assertGreater(len(self.found(self.folder)), 1)

    def test_metrics_of_all_in_one_folder(self) -> None:
        self.run_it(reports.WORKER, "children", str(CHILDREN), report=f"{self.folder}/%p.prom")
        samples: dict = {}
        for file in self.folder.iterdir():
            samples |= reports.read_metrics(file.read_text())
        pids = {dict(labels)["pid"] for _, labels in samples}
        self.assertEqual(len(pids), CHILDREN + 1)
        self.assertEqual({dict(labels)["command"] for _, labels in samples}, {Path(reports.WORKER).name[:15]})
        served = [value for (name, _), value in samples.items() if name == "hakmem_mallocs_total"]
        self.assertEqual(len([value for value in served if value >= BLOCKS]), CHILDREN)

    def test_linked_and_preloaded(self) -> None:
        """The copy of HAKMEM whose malloc the process uses writes the report. The other copy reads no options."""
        for program, preload in ((STATIC, reports.LIBRARY), (STATIC, HARDENED), (SHARED, HARDENED), (SHARED, reports.LIBRARY)):
            with self.subTest(program=program, preload=preload):
                folder = self.folder / f"{Path(program).name}-{Path(preload).name}"
                folder.mkdir()
                done = self.run_it(program, "children", "1", preload=preload, report=f"{folder}/r.json", weather="1")
                self.assertEqual(done.stderr, "hakmem: unknown option HAKMEM_WEATHER is ignored\n")
                found = self.found(folder)
                self.assertEqual(len(found), 2)
                self.assertGreater(found["r.json"]["served"]["malloc"], 0)
                self.assertGreaterEqual(max(report["served"]["malloc"] for report in found.values()), BLOCKS)


if __name__ == "__main__":
    reports.main()
