#!/usr/bin/env python3
"""Runs the litmus tests of the protocols between threads with herd7, on the memory model of C (RC11).

run_litmus.py [FILE...]
  Each file has a forbidden outcome and places of the form {order|weaker order}. With the orders of the code, no execution may show the outcome.
  Negative controls: if any one of the orders is weakened, some execution must show the outcome.
  In RC11, no load can be reordered after a later store of its thread, although processors do this. A file whose controls are about this reordering
  names another model of C ("Model c11_partialSC"). The script exits with 77 if herd7 is not installed and Debian's herd7 cannot be fetched.
"""
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHOICE = re.compile(r"\{(atomic_thread_fence\(\w+\);|memory_order_\w+)\|(atomic_thread_fence\(\w+\);|memory_order_\w+|)\}")
ORDER = re.compile(r"memory_order_(?!seq_cst)|hk_load_acquire|hk_store_release|HK_FENCE|__ATOMIC_(?!SEQ_CST)|hk_replace\(")
LEAST = 8  # least number of files


def herd() -> list[str]:
    """Returns the command for herd7. If this system has none, it is Debian's from a later suite, run with the loader and libraries that it was built
    for."""
    if shutil.which("herd7"):
        return ["herd7"]
    arch, triple, loader = {"x86_64": ("amd64", "x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2"),
                            "aarch64": ("arm64", "aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1")}[platform.machine()]
    found = subprocess.run([HERE.parents[1] / "platform/everywhere/cached.sh", "herd", "sid", arch, "herdtools7"], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"litmus: there is no herd7 here: {found.stderr.strip()}")
        sys.exit(77)
    root = Path(found.stdout.strip())
    libraries = f"{root}/usr/lib/{triple}"
    command = [f"{root}/usr/{loader}", "--library-path", libraries, f"{root}/usr/bin/herd7", "-set-libdir", f"{root}/usr/share/herdtools7/herd"]
    # The suite changes, so its current version may not run here.
    tried = subprocess.run([*command, "-version"], capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"litmus: Debian's herd7 does not run here: {tried.stderr.strip()}")
        sys.exit(77)
    return command


def variant(text: str, weakened: int) -> str:
    """Returns the text with the orders of the code. If a number is given, this one order is weakened."""
    choices = iter(range(len(CHOICE.findall(text))))
    return CHOICE.sub(lambda found: found[2 if next(choices) == weakened else 1], text)


def observed(command: list[str], text: str) -> str:
    """Returns Never, Sometimes or Always."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "test.litmus")
        file.write_text(text)
        named = re.search(r"^ *Model (\w+)", text, re.MULTILINE)
        done = subprocess.run([*command, "-model", f"{named[1] if named else 'rc11'}.cat", str(file)], capture_output=True, text=True, cwd=folder, timeout=500)
    said = re.search(r"^Observation \S+ (Never|Sometimes|Always)", done.stdout, re.MULTILINE)
    return said[1] if said else f"nothing: {done.stdout[-300:]}{done.stderr[-600:]}"


def check(command: list[str], path: Path) -> list[str]:
    text, wrong = path.read_text(), []
    choices = CHOICE.findall(text)
    if not choices:
        wrong.append(f"{path.name}: no order to weaken: it has no control")
    result = observed(command, variant(text, -1))
    if result != "Never":
        wrong.append(f"{path.name}: with the code's orders, the outcome is seen: {result}")
    for number, choice in enumerate(choices):
        result = observed(command, variant(text, number))
        if result not in ("Sometimes", "Always"):
            wrong.append(f"{path.name}: control {number + 1} ({choice[0]} weakened) does not show the outcome: {result}")
    print(f"{path.stem}: {len(choices)} orders{', WRONG' if wrong else ''}")
    return wrong


def names_are_there(paths: list[Path]) -> list[str]:
    """Checks that each function that a comment names exists in the core."""
    core = "\n".join(path.read_text() for path in (HERE.parents[2] / "src").rglob("*.[ch]"))
    return [f"{path.name}: there is no {name}() in src/" for path in paths for name in re.findall(r"\b([a-z_]{5,})\(\)", path.read_text())
            if not re.search(rf"\b{name}\(", core)]


def orders_have_reasons() -> list[str]:
    """Checks that the table of docs/PROOFS.md names each file of the core that has an explicit memory order."""
    root = HERE.parents[2]
    table = (root / "docs/PROOFS.md").read_text().split("### Each order")[1].split("\n## ")[0]
    named = set(re.findall(r"\b[a-z_]+\.[ch]\b", table))
    with_order = {path.name for path in (root / "src").rglob("*.[ch]") if path.name != "base.h" and ORDER.search(path.read_text())}
    wrong = [f"docs/PROOFS.md: no reason for the memory orders in {name}" for name in sorted(with_order - named)]
    return wrong + [f"docs/PROOFS.md: no memory order is in {name}" for name in sorted(named - with_order)]


def main() -> int:
    paths = [Path(word) for word in sys.argv[1:]] or sorted(HERE.glob("*.litmus"))
    command = herd()
    wrong = names_are_there(paths) + orders_have_reasons() + [line for path in paths for line in check(command, path)]
    if not sys.argv[1:] and len(paths) < LEAST:
        wrong.append(f"{len(paths)} files only")
    print("\n".join(wrong) if wrong else f"litmus: {len(paths)} protocols, no forbidden outcome; each weakened order shows it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
