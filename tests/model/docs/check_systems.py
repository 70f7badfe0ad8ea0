#!/usr/bin/env python3
"""Runs the commands of docs/SYSTEMS.md, and compares what they print with the page.

check_systems.py [--build FOLDER] [--update] [SYSTEM...]
  --build    the build that the commands use; the default is build/ of the source tree
  --update   writes what the commands print into the page, instead of comparing it
  SYSTEM     the number of a system, for example S8; the default is all systems

A command is a line that begins with "$ " in a block of kind console, and the lines after it that begin with "> ". The other lines up to the next
command are its output. The text must be equal.
A number of the output may differ from the page by half, because times, threads and other machines change counts; a 0 must stay a 0. Version numbers
and names such as S8 or glibc-2.36 are compared as text. Further words of a block's kind: "exact" compares numbers as text too, "huge" needs a kernel
that gives huge pages to those that ask, and "populate" needs Linux 5.14.
"""
import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/SYSTEMS.md"
MOST = 1.5
LIMIT_S = 500
CANNOT_RUN = 77
BLOCK = re.compile(r"^### (S\d+) .*?$|^```console([a-z ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


def steps(text: str) -> list[list[str]]:
    """Returns the command and the output of each step of a block."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        elif found:
            found[-1][1] += line + "\n"
    return found


def run(command: str, folder: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_PRELOAD"))}
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=own | {"LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0] + f"ended after {LIMIT_S} s\n"
    return "".join(line.rstrip() + "\n" for line in said.splitlines())


def apart(text: str) -> tuple[str, list[float]]:
    """Returns the text without its numbers and with single spaces, and the numbers."""
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
    return " ".join(NUMBER.sub("#", text).split()), numbers


def near(one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return low == high or (low > 0 and high <= MOST * low)


def alike(printed: str, page: str) -> bool:
    (words, numbers), (known_words, known) = apart(printed), apart(page)
    return words == known_words and len(numbers) == len(known) and all(map(near, numbers, known))


def gives_huge_pages(told: str) -> bool:
    """Returns whether bench/paging_cost, which printed `told`, got huge pages."""
    try:
        return json.loads(told)["huge_fault_ns"] > 0
    except (ValueError, KeyError, TypeError):
        return False


def populates(release: str) -> bool:
    return tuple(map(int, re.findall(r"\d+", release)[:2])) >= (5, 14)


def workplace(folder: str, build: Path) -> None:
    """Makes a folder that looks like the source tree, so that files that the commands write are in nobody's way."""
    for name in ("bench", "src", "tests", "tools"):
        (Path(folder) / name).symlink_to(ROOT / name)
    (Path(folder) / "build").symlink_to(build)


class Page:
    def __init__(self, given: argparse.Namespace, folder: str) -> None:
        self.given, self.folder, self.system, self.wrong, self.ran = given, folder, "", 0, 0

    def block(self, match: re.Match) -> str:
        if match[1]:
            self.system = match[1]
            return match[0]
        if self.given.system and self.system not in self.given.system:
            return match[0]
        words = match[2].split()
        if "huge" in words and not gives_huge_pages(run("build/bench/paging_cost", self.folder)):
            print(f"notice: {self.system} is left out: this kernel gives no huge pages")
            return match[0]
        if "populate" in words and not populates(platform.release()):
            print(f"notice: {self.system} is left out: this kernel is older than 5.14")
            return match[0]
        return f"```console{match[2]}\n{''.join(self.step(*step, 'exact' in words) for step in steps(match[3]))}```"

    def step(self, command: str, output: str, exact: bool) -> str:
        printed = run(command, self.folder)
        self.ran += 1
        if not self.given.update and not (printed == output if exact else alike(printed, output)):
            self.wrong += 1
            print(f"{self.system}: $ {command}\n  the page has\n{output}  printed was\n{printed}")
        return "$ " + command.replace("\n", "\n> ") + f"\n{printed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("system", nargs="*")
    given = parser.parse_args()
    missing = [name for name in ("valgrind", "cc", "nm", "objdump", "awk") if not shutil.which(name)]
    if missing or subprocess.run([ROOT / "tools/in_venv.sh", "-c", "import rich, typer"], capture_output=True).returncode != 0:
        print(f"systems: there is no {missing[0] if missing else 'venv with the packages of the tool'}")
        return CANNOT_RUN
    with tempfile.TemporaryDirectory(prefix="hakmem-systems-") as folder:
        workplace(folder, given.build.resolve())
        page = Page(given, folder)
        text = BLOCK.sub(page.block, PAGE.read_text())
    if given.update:
        PAGE.write_text(text)
    print(f"systems: {page.ran} commands, {page.wrong} print something else")
    return 1 if page.wrong or not page.ran else 0


if __name__ == "__main__":
    sys.exit(main())
