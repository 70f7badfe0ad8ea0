#!/usr/bin/env python3
"""Runs tests for systems other than this one.

run.py aarch64 [--quick] [--clang]   builds with a cross compiler and runs under an emulator; --quick runs a part of it, which takes minutes
run.py programs                runs real Debian programs for aarch64, with the library preloaded
run.py pages                   runs all quick tests on a core whose system has pages of 16 and 64 KiB
run.py litmus                  checks the memory orders with herd7
run.py all                     does all of these
  not_emulated.txt   lists tests that cannot run under an emulator, with the reasons; they are left out
  fine_pages.txt     lists cases of unit tests that must fail on larger pages, and tests that cannot run there, with the reasons
The script exits with 77 if this machine has no cross compiler or no emulator, and cannot fetch it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JOBS = os.environ.get("JOBS", str(os.cpu_count()))
CANNOT_RUN = 77
# Tests of behavior that may differ on another processor: threads, remote frees, fork, the address space, and tags.
QUICK = ["stress_emulated", "fork_storm_emulated", "tagged_pointers", "address_window", "address_window_39", "address_window_46"]


def left_out(name: str) -> list[str]:
    """Returns the tests of a list whose lines are `name reason`. `unit/case reason` is a case that must fail (TEST_MUST_FAIL in
    tests/unit/unit.c)."""
    lines = [line.split(maxsplit=1) for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]
    wrong = [line for line in lines if len(line) != 2]
    if wrong:
        sys.exit(f"{name}: no reason: {wrong}")
    return [line[0] for line in lines if "/" not in line[0]]


def run(*command, **more) -> int:
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run([str(word) for word in command], cwd=ROOT, **more).returncode


def tests(folder: Path, names: list[str], excluded: list[str]) -> int:
    chosen = ["-R", f"^({'|'.join(names)})$"] if names else ["-L", "^quick$", "-LE", "^programs$"]
    without = ["-E", f"^({'|'.join(excluded)})$"] if excluded else []
    return run("ctest", "--test-dir", folder, *chosen, *without, "-j", JOBS, "--output-on-failure", "--no-tests=error")


def cannot(reason: str) -> int:
    print(f"everywhere: {reason}")
    return CANNOT_RUN


def aarch64(quick: bool, clang: bool = False) -> int:
    if not shutil.which("aarch64-linux-gnu-gcc"):
        return cannot("there is no aarch64-linux-gnu-gcc (tools/setup.sh test installs it where it can)")
    if subprocess.run([HERE / "emulator.sh"], stdout=subprocess.DEVNULL).returncode != 0:
        return cannot("there is no emulator for aarch64")
    preset = "aarch64-clang" if clang else "aarch64"
    folder = ROOT / f"build-{preset}"
    targets = ["--target", "hakmem", *(f"test_{name}" for name in QUICK if not re.search(r"_\d+$|_emulated$", name)), "test_fork_storm", "test_stress"] if quick else []
    if run("cmake", "--preset", preset, "--log-level=NOTICE") or run("cmake", "--build", folder, "-j", JOBS, *targets):
        return 1
    failed = run(sys.executable, ROOT / "tests/model/hitpath/check_hitpath.py", folder / "libhakmem.so")
    return failed | tests(folder, QUICK if quick else [], left_out("not_emulated.txt"))


PROGRAMS = {
    "bash": (["bin/bash", "-c", "a=(); for i in {1..3000}; do a+=($i$i); done; (echo ${#a[@]}); s=$(printf '%s,' \"${a[@]}\"); echo ${#s}"], "3000\n24786\n"),
    "python3": (["usr/bin/python3", "-c", """
import json, threading, hashlib, zlib
def work(n):
    rows = [{str(i): 'x' * (i % 300), 'n': [i] * (i % 20)} for i in range(3000)]
    out[n] = hashlib.sha256(zlib.compress(json.dumps(rows).encode())).hexdigest()
out = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(set(out.values())), len(out))
"""], "1 4\n"),
    "sqlite3": (["usr/bin/sqlite3", ":memory:", "create table t(a integer, b text); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) "
                 "insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), sum(length(b)) from t; select a from t order by b desc limit 3;"], None),
    "cc1": (["usr/lib/gcc/aarch64-linux-gnu/12/cc1", "-quiet", "-O2", "many.c", "-o", "-"], None),
    "git": (["usr/bin/git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-C", "repository", "commit", "-qm", "first"], ""),
}


def programs() -> int:
    """Runs each program with and without the library. The output must be the same, and the report must say that HAKMEM served the program."""
    emulator = subprocess.run([HERE / "emulator.sh"], capture_output=True, text=True).stdout.strip()
    made = subprocess.run([HERE / "cached.sh", "arm64-root", "bookworm", "arm64", "bash", "coreutils", "python3", "gcc", "git", "sqlite3", "libc6-dev"],
                          capture_output=True, text=True)
    library = ROOT / "build-aarch64/libhakmem.so"
    if not emulator or made.returncode != 0:
        return cannot(f"no emulator, or no root for arm64: {made.stderr.strip()}")
    if not library.exists() and aarch64(True):
        return 1
    wrong = 0
    for name, (command, expected) in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            outputs = [one_program(emulator, Path(made.stdout.strip()), command, Path(folder, side), preload)
                       for side, preload in (("plain", None), ("served", library))]
        same = outputs[0][:2] == outputs[1][:2] and outputs[1][0] == 0 and (expected is None or outputs[1][1] == expected)
        served = outputs[1][2]
        print(f"{name}: {'the same' if same else f'DIFFERS: {outputs}'[:2000]}; HAKMEM served {served} allocations")
        wrong |= not same or served < 100
    return wrong


def one_program(emulator: str, root: Path, command: list[str], folder: Path, library) -> tuple[int, str, int]:
    """Returns exit code, output, and the number of allocations that HAKMEM served."""
    (folder / "repository").mkdir(parents=True)
    (folder / "many.c").write_text("int abs(int);\n" + "".join(f"int f{i}(int x) {{ return x * {i} + abs(x); }}\n" for i in range(400)))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONMALLOC": "malloc", "PYTHONHOME": str(root / "usr"), "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_DATE": "1000000000 +0000", "GIT_COMMITTER_DATE": "1000000000 +0000"}
    if library:
        env |= {"LD_PRELOAD": str(library), "HAKMEM_REPORT": str(folder / "report.json")}
    start = [emulator, "-L", str(root)]
    if command[0].endswith("git"):
        for i in range(60):
            (folder / "repository" / f"{i}.txt").write_text(f"line {i}\n" * 500)
        for words in (["init", "-q"], ["add", "."]):
            subprocess.run([*start, str(root / command[0]), "-C", "repository", *words], cwd=folder, env={**env, "HAKMEM_REPORT": "/dev/null"}, check=True, capture_output=True)
    done = subprocess.run([*start, str(root / command[0]), *command[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    report = folder / "report.json"
    found = re.search(r'"malloc": *(\d+)', report.read_text()) if report.exists() else None
    return done.returncode, done.stdout, int(found[1]) if found else 0


def pages() -> int:
    failed = 0
    rows = [line.split(maxsplit=3) for line in (HERE / "fine_pages.txt").read_text().splitlines() if not line.startswith("#")]
    for kib in ("16", "64"):
        preset = f"page{kib}"
        folder = ROOT / f"build-{preset}"
        failed |= run("cmake", "--preset", preset, "--log-level=NOTICE") or run("cmake", "--build", folder, "-j", JOBS)
        failed |= tests(folder, [], [name for name, case, sizes, _ in rows if case == "-" and kib in sizes.split(",")])
    return failed


def main() -> int:
    words = sys.argv[1:]
    parts = {"aarch64": lambda: aarch64("--quick" in words, "--clang" in words), "programs": programs, "pages": pages,
             "litmus": lambda: run(sys.executable, ROOT / "tests/model/litmus/run_litmus.py")}
    if not words or words[0] not in (*parts, "all"):
        sys.exit(__doc__)
    codes = {name: part() for name, part in parts.items() if words[0] in (name, "all")}
    print("everywhere:", ", ".join(f"{name}: {'passed' if code == 0 else 'cannot run' if code == CANNOT_RUN else 'FAILED'}" for name, code in codes.items()))
    return 1 if any(code not in (0, CANNOT_RUN) for code in codes.values()) else max(codes.values())


if __name__ == "__main__":
    sys.exit(main())
