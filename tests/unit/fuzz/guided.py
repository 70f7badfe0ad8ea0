#!/usr/bin/env python3
"""Fuzzing by coverage, for people: `make fuzz`.   guided.py BUILD [--target NAME] [--seconds S]

Each target of targets.def, or one, for S seconds: on libFuzzer where the build has it, else on the project's own engine. It begins with
the cases of the tree and keeps new ones under BUILD/corpus; what fails is left in BUILD/faults, and makes the end 1.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARGEST = 8192


def names() -> list[str]:
    of_the_core = (HERE / "targets.def").read_text().split("#else", 1)[1]
    return re.findall(r"^FUZZ_TARGET\(\w+, (\w+),", of_the_core, re.MULTILINE)


def seeded(build: Path, name: str) -> Path:
    """The cases of the tree, and those found before."""
    folder = build / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate((HERE / "corpus" / f"{name}.txt").read_text().splitlines()):
        (folder / f"tree-{number}").write_bytes(bytes.fromhex(line.split("#")[0]))
    return folder


def command(build: Path, name: str, seconds: int, faults: Path) -> list[str]:
    programs, folder = build / "tests/fuzz", seeded(build, name)
    if (programs / "test_fuzz_libfuzzer").exists():
        options = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", "-len_control=0", "-print_final_stats=1", f"-artifact_prefix={faults}/{name}-"]
        return [str(programs / "test_fuzz_libfuzzer"), f"--target={name}", *options, str(folder)]
    own = [f"--seconds={seconds}", f"--largest={LARGEST}", f"--corpus={build}/corpus", f"--keep={build}/corpus"]
    return [str(programs / "test_fuzz_guided"), f"--target={name}", *own]


def fuzz(build: Path, name: str, seconds: int) -> bool:
    faults = build / "faults"
    faults.mkdir(exist_ok=True)
    done = subprocess.run(command(build, name, seconds, faults), cwd=faults, capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    runs = re.search(r"number_of_executed_units: (\d+)", said)
    cases = len(list((build / "corpus" / name).iterdir()))
    print(f"{name:<20} {runs[1] + ' inputs,' if runs else ''} {cases} cases{'' if done.returncode == 0 else '  FAILED'}", flush=True)
    if done.returncode != 0:
        print("\n".join(said.splitlines()[-30:]))
    return done.returncode == 0


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("build", type=Path)
    given.add_argument("--target", choices=names())
    given.add_argument("--seconds", type=int, default=10)
    asked = given.parse_args()
    well = [fuzz(asked.build.resolve(), name, asked.seconds) for name in ([asked.target] if asked.target else names())]
    if not all(well):
        sys.exit(f"{well.count(False)} of {len(well)} targets failed: inputs in {asked.build}/faults")


if __name__ == "__main__":
    main()
