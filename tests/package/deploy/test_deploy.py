"""Checks the parts of docs/DEPLOY.md that need no server: the unit, the pod, the image, the sweep, and Python's multiprocessing. It also checks that
each of these checks can fail."""

import json
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

from hakmem import options
from page import BLOCKS, Case, REPORTS, TEXT

JOBS = """
import multiprocessing

def job(number):
    kept = [bytearray(1000 + i % 50) for i in range(20000)]

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    jobs = [multiprocessing.Process(target=job, args=(i,)) for i in range(3)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()
"""
INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "CMD"}
SYSTEM_PYTHON = "/usr/bin/python3"  # it has PyYAML as a Debian package


class Page(Case):
    def test_all_options_exist(self) -> None:
        named = set(re.findall(r"(?<!-D)HAKMEM_([A-Z_]+)", TEXT))
        self.assertGreater(len(named), 4)
        self.assertEqual({name for name in named if name.lower() not in options.table()}, set())

    def test_each_block_is_tried(self) -> None:
        tests = "".join(file.read_text() for file in self.files())
        self.assertEqual([name for name in BLOCKS if not re.search(f"""["']{name}["']""", tests)], [])
        self.assertGreater(len(BLOCKS), 10)

    @staticmethod
    def files() -> list[Path]:
        return sorted(Path(__file__).parent.glob("test_*.py"))


class Unit(Case):
    def verify(self, drop_in: str) -> str:
        self.needs("systemd-analyze")
        (self.folder / "redis-server.service").write_text("[Service]\nExecStart=/bin/true\n")
        (self.folder / "redis-server.service.d").mkdir(exist_ok=True)
        (self.folder / "redis-server.service.d/override.conf").write_text(drop_in)
        done = subprocess.run(["systemd-analyze", "verify", "redis-server.service"], cwd=self.folder, capture_output=True, text=True,
                              env=self.env | {"SYSTEMD_UNIT_PATH": f"{self.folder}:"}, check=False)
        return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if str(self.folder) in line)

    def test_the_drop_in_is_understood(self) -> None:
        self.assertEqual(self.verify(BLOCKS["unit"]), "")

    def test_a_mistake_would_be_seen(self) -> None:
        self.assertIn("Unknown key", self.verify(BLOCKS["unit"].replace("StateDirectory", "StateFolder")))

    def test_its_variables(self) -> None:
        variables = dict(word.split("=", 1) for line in re.findall(r"(?m)^Environment=(.*)$", BLOCKS["unit"]) for word in line.split())
        self.assertEqual(variables["HAKMEM_REPORT"], f"{REPORTS}/")
        for name, value in variables.items():
            if name.startswith("HAKMEM_"):
                options.check(name[len("HAKMEM_"):].lower(), value, name)


class Pod(Case):
    def test_it_is_whole(self) -> None:
        load = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"
        done = subprocess.run([SYSTEM_PYTHON, "-c", load], input=BLOCKS["pod"], capture_output=True, text=True, check=False)
        if "No module named 'yaml'" in done.stderr:
            self.skipTest("PyYAML is not installed")
        pod = json.loads(done.stdout)["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["initContainers"] + pod["containers"]:
            self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
        server, metrics = pod["containers"]
        environment = {entry["name"]: entry["value"] for entry in server["env"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
        self.assertEqual(environment["LD_PRELOAD"], pod["initContainers"][0]["command"][-1])
        self.assertTrue(environment["LD_PRELOAD"].startswith(mounts["hakmem"]))
        self.assertTrue(environment["HAKMEM_REPORT"].startswith(mounts["reports"]))
        self.assertIn(f"--collector.textfile.directory={metrics['volumeMounts'][0]['mountPath']}", metrics["args"])
        for name, value in environment.items():
            if name != "LD_PRELOAD":
                options.check(name[len("HAKMEM_"):].lower(), value, name)


class Image(Case):
    def test_its_lines(self) -> None:
        lines = [line.split(maxsplit=1) for line in BLOCKS["image"].splitlines() if line]
        self.assertEqual({word for word, _ in lines} - INSTRUCTIONS, set())
        copied = next(rest for word, rest in lines if word == "COPY" and "--from=hakmem" in rest).split()
        preload = next(rest for word, rest in lines if word == "ENV")
        self.assertEqual(preload, f"LD_PRELOAD={copied[-1]}")
        self.assertIsInstance(json.loads(next(rest for word, rest in lines if word == "CMD")), list)


class Commands(Case):
    def test_multiprocessing(self) -> None:
        (self.folder / "jobs.py").write_text(JOBS)
        self.run_it(self.command("multiprocessing", python3=os.path.realpath(self.needs("python3")) if self.plain() else os.sys.executable))
        found = self.served(20000, "python3", processes=3)
        parents = {row["parent"] for row in found["processes"]}
        self.assertTrue(parents & {row["process"] for row in found["processes"]})

    def plain(self) -> bool:
        """Returns False if python3 is a shell script, as pyenv's is."""
        with open(self.needs("python3"), "rb") as file:
            return file.read(4) == b"\x7fELF"

    def test_the_sweep(self) -> None:
        for name, age in (("1.prom", 0), ("2.prom", 600), ("3.json", 600)):
            (self.reports / name).touch()
            os.utime(self.reports / name, (time.time() - age,) * 2)
        self.run_it(self.command("sweep"))
        self.assertEqual({file.name for file in self.reports.iterdir()}, {"1.prom", "3.json"})

    def test_glibc_would_be_seen(self) -> None:
        """Negative control of all tests that check whether HAKMEM serves a program."""
        (self.folder / "jobs.py").write_text(JOBS)
        command = self.command("multiprocessing", python3=os.sys.executable).replace("LD_PRELOAD=", "LD_PRELOAD_NOT=")
        self.run_it(command)
        with self.assertRaises(AssertionError):
            self.served(1, "python3")


if __name__ == "__main__":
    unittest.main(verbosity=2)
