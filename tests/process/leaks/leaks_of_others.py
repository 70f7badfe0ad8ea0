"""Compares `hakmem leaks` with other tools on the programs with planted leaks, and prints the result as a table in Markdown. It is not a test.

    tools/in_venv.sh tests/process/leaks/leaks_of_others.py BUILD [PROGRAM...]

BUILD is the build's folder. PROGRAM is the name of a source without its suffix. The script needs rustc, Go, Node and Python. Of these tools, it uses
those that are installed: heaptrack, gperftools (HEAPPROFILE and google-pprof), jemalloc (jeprof), LeakSanitizer (liblsan.so.0), valgrind, and memray
for the Python that the environment variable MEMRAY_PYTHON names. Each tool ranks the lines by bytes that are live or leaked at the end. Of each
stack, the line is the innermost one of the program's own file. Stacks without such a line are left out. For jeprof and google-pprof, the function
stands for the line. In the table, "first" means that the first line is the marked one, and "in the list" that a later line is."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(sys.argv[1]).resolve()
BUILT = BUILD / "tests/leaks"
ROOT = Path(__file__).resolve().parents[3]
HAKMEM = {"HAKMEM_LIBRARY": str(BUILD / "libhakmem.so"), "PYTHONPATH": str(ROOT / "tools/hakmem")}
os.environ.update(HAKMEM, TOOL_PROGRAMS=str(BUILT), LEAK_PROGRAMS=str(BUILT), LEAK_CLOCK="", LEAK_RUNTIMES="yes")
sys.path[:0] = [HAKMEM["PYTHONPATH"], str(ROOT / "tests/tool")]
import test_leaks  # noqa: E402
from test_tool_scripts import node, pythons, said_by  # noqa: E402

ENDS = (0, 23, -signal.SIGTERM, 128 + signal.SIGTERM)  # 23 is LeakSanitizer's
INTERVAL = 20  # jemalloc and gperftools write a profile every 2^20 bytes that are allocated, for programs that a signal ends
UNITS = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}
HEAPTRACK_STACK = re.compile(r"^([\d.]+)([BKMG]) leaked over .* calls from\n((?:  .*\n)+)", re.MULTILINE)
LSAN_STACK = re.compile(r"^(?:Direct|Indirect) leak of (\d+) byte.*\n((?:    #.*\n)+)", re.MULTILINE)
VALGRIND_STACK = re.compile(r"^==\d+== ([\d,]+) (?:\(.*\) )?bytes in .* lost in loss record .*\n((?:==\d+==    .*\n)+)", re.MULTILINE)
LINE = re.compile(r"([^/\s(:]+:\d+)(?::\d+)?\)?$", re.MULTILINE)
NOT_THE_NAME = re.compile(r"^(?:circle|journal)::|<[0-9a-f]{16}>$|\[inline\]$|\(.*|::h[0-9a-f]{16}$")  # in a frame of jeprof and google-pprof
Stacks = list[tuple[float, list[str]]]  # the bytes and the frames, the innermost first


class CannotRun(Exception):
    pass


@dataclass
class Program:
    source: Path
    command: list[str]
    waits: bool = False  # for a signal, after it has printed "ready"

    def functions(self, until: int | None = None) -> list[str]:
        """Returns the functions that the file defines up to a line. Scripts have none, because a tool for C does not know their functions."""
        lines = self.source.read_text().splitlines()[:until] if self.source.suffix not in (".py", ".js") else []
        return [name for line in lines if line[:1].isalpha() for name in re.findall(r"(\w+)\(", line.partition("{")[0])]

    def right(self) -> set[str]:
        """Returns the marked line, the line that test_leaks.py expects, and the function of the marked line."""
        (marked,) = [number for number, line in enumerate(self.source.read_text().splitlines(), 1) if test_leaks.LEAK.search(line)]
        return {f"{self.source.name}:{line}" for line in (marked, test_leaks.line_of(self.source))} | {*self.functions(marked)[-1:]}

    def run(self, prefix: list[str], folder: Path, ask: list[str] | None = None, **more: str) -> tuple[int, str]:
        """Runs the program until it ends. Returns its process id, and what it and the tool said."""
        environment = {name: value for name, value in os.environ.items() if name not in HAKMEM} | more
        with (folder / "errors").open("w+") as errors:
            process = subprocess.Popen([*prefix, *self.command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
            said = ""
            if self.waits:
                while process.stdout and "ready" not in said:
                    if not (line := process.stdout.readline()):
                        raise CannotRun("ends early")
                    said += line
                if ask:
                    said += subprocess.run([*ask, str(process.pid)], env=environment, capture_output=True, text=True, check=False).stdout
                os.kill(self.child_of(process.pid), signal.SIGTERM)
            said += process.communicate(timeout=590)[0]
            errors.seek(0)
            if process.returncode not in ENDS:
                raise CannotRun(f"exit code {process.returncode}")
            return process.pid, said + errors.read()

    def child_of(self, pid: int) -> int:
        """Returns the process that runs the program, if the tool is a script that starts it."""
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next((int(child) for child in children if os.path.realpath(f"/proc/{child}/exe") == os.path.realpath(self.command[0])), pid)


def hakmem(program: Program, folder: Path) -> Stacks:
    tool = [sys.executable, "-m", "hakmem"]
    begin = [*tool, "run", "--scripts", "--set", f"heap_sample={test_leaks.SAMPLE}", "--set", f"heap_profile={folder}/%p.heap", "--"]
    pid, said = program.run(begin, folder, [*tool, "leaks"], **HAKMEM)
    if not program.waits:
        profiles = sorted(folder.glob("*.heap"), key=lambda path: path.stem == str(pid))  # that of a forked child first
        said = subprocess.run([*tool, "leaks", str(profiles[0])], env=os.environ | HAKMEM, capture_output=True, text=True, check=False).stdout
    Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    found = [test_leaks.PLACE.search(line) for line in test_leaks.FIRST_LINES.findall(said)]
    return [(1 / (1 + rank), [f"{Path(place[1]).name}:{place[2]}"]) for rank, place in enumerate(found) if place]


def heaptrack(program: Program, folder: Path) -> Stacks:
    program.run(["heaptrack", "-o", f"{folder}/trace"], folder)
    (trace,) = folder.glob("trace*")
    said = said_by("heaptrack_print", *"-p 0 -a 0 -T 0 --print-leaks 1 --merge-backtraces 0 -f".split(), str(trace))
    return [(float(size) * UNITS[unit], LINE.findall(frames)) for size, unit, frames in HEAPTRACK_STACK.findall(said)]


def newest(reader: str, program: Program, profiles: list[Path]) -> Stacks:
    if not profiles:
        raise CannotRun("no profile")
    profile = str(max(profiles, key=lambda path: path.stat().st_mtime_ns))
    stacks = [line.rpartition(" ") for line in said_by(reader, "--collapsed", "--inuse_space", program.command[0], profile).splitlines()]
    return [(float(size), [NOT_THE_NAME.sub("", frame) for frame in reversed(frames.split(";"))]) for frames, _, size in stacks]


def gperftools(program: Program, folder: Path) -> Stacks:
    program.run([], folder, LD_PRELOAD="libtcmalloc.so.4", HEAPPROFILE=f"{folder}/profile", HEAP_PROFILE_ALLOCATION_INTERVAL=str(1 << INTERVAL))
    return newest("google-pprof", program, [*folder.glob("profile*.heap")])


def jemalloc(program: Program, folder: Path) -> Stacks:
    options = f"prof:true,prof_leak:true,lg_prof_sample:0,prof_final:true,lg_prof_interval:{INTERVAL}"
    pid, _ = program.run([], folder, LD_PRELOAD="libjemalloc.so.2", MALLOC_CONF=options)
    profiles = {path: path.name.startswith(f"jeprof.{pid}.") for path in folder.glob("jeprof.*.heap")}
    return newest("jeprof", program, [path for path, is_parents in profiles.items() if not is_parents] or [*profiles])


def lsan(program: Program, folder: Path) -> Stacks:
    if program.waits or "SIGTERM" in program.source.read_text():
        raise CannotRun("a signal ends it")
    slowly = "fast_unwind_on_malloc=0"  # LeakSanitizer then reads the unwind tables, as the programs have no frame pointers
    if program.source.suffix == ".rs":
        command = ["rustc", "-Zsanitizer=leak", "-g", "-O", "-o", f"{folder}/program", str(program.source)]
        subprocess.run(command, env=os.environ | {"RUSTC_BOOTSTRAP": "1"}, check=True, capture_output=True)
        said = Program(program.source, [f"{folder}/program"]).run([], folder, LSAN_OPTIONS=slowly)[1]
    else:
        said = program.run([], folder, LD_PRELOAD="liblsan.so.0", LSAN_OPTIONS=slowly)[1]
    return [(float(size), LINE.findall(frames)) for size, frames in LSAN_STACK.findall(said)]


def valgrind(program: Program, folder: Path) -> Stacks:
    said = program.run(["valgrind", "--leak-check=full"], folder)[1]
    return [(float(size.replace(",", "")), LINE.findall(frames)) for size, frames in VALGRIND_STACK.findall(said)]


def memray(program: Program, folder: Path) -> Stacks:
    if program.source.suffix != ".py":
        raise CannotRun("not Python")
    command = [os.environ["MEMRAY_PYTHON"], "-m", "memray"]
    Program(program.source, [str(program.source)]).run([*command, "run", "-o", "trace"], folder, PYTHONMALLOC="malloc")
    subprocess.run([*command, "transform", "--leaks", "-o", "table", "csv", "trace"], cwd=folder, check=True, capture_output=True)
    table = csv.DictReader((folder / "table").read_text().splitlines())
    rows = [(float(row["size"]), [frame.split(";") for frame in row["stack_trace"].split("|")]) for row in table]
    return [(size, [f"{Path(frame[1]).name}:{frame[2]}" for frame in frames if len(frame) == 3]) for size, frames in rows]


def verdict(tool, program: Program) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            stacks = tool(program, Path(folder))
        except (CannotRun, OSError, ValueError, subprocess.SubprocessError) as why:
            return f"cannot run: {why}"
    own = program.functions()
    sizes: Counter[str] = Counter()
    for size, frames in stacks:
        place = next((frame for frame in frames if frame in own or frame.startswith(f"{program.source.name}:")), "")
        if place and size:
            sizes[place] += size
    print(program.source.name, tool.__name__, sizes.most_common(4), file=sys.stderr, flush=True)
    ranks = [rank for rank, (place, _) in enumerate(sizes.most_common()) if place in program.right()]
    return "missed" if not ranks else "first" if ranks[0] == 0 else "in the list"


def programs(folder: Path) -> list[Program]:
    others = {source.stem: source for source in test_leaks.OTHERS}
    built = [test_leaks.SOURCES / f"{name}.c" for name in test_leaks.NAMES] + [others[name] for name in "worker forked family pages sessions".split()]
    found = [Program(source, [str(BUILT / f"test_leak_{source.stem}")]) for source in built]
    found.append(Program(others["filter"], [str(BUILT / "test_leak_plugin"), str(BUILT / "libtest_leak_filter.so")]))
    for name in ("circle", "journal"):
        subprocess.run(["rustc", "-g", "-O", "-o", str(folder / name), str(others[name])], check=True, capture_output=True)
        found.append(Program(others[name], [str(folder / name)]))
    found += [Program(source, [pythons()[-1], str(source)]) for source in others.values() if source.suffix == ".py"]
    found += [Program(path, [str(node()), "--no-turbo-inlining", "--expose-gc", str(path)], True) for path in others.values() if path.suffix == ".js"]
    shutil.copy(others["images"], folder)
    subprocess.run([str(test_leaks.GO), "build", "-o", "images", "images.go"], cwd=folder, env=os.environ | {"GOTOOLCHAIN": "local"}, check=True)
    return [*found, Program(others["images"], [str(folder / "images")], True)]


def main() -> None:
    tools = {"heaptrack": heaptrack, "google-pprof": gperftools, "jeprof": jemalloc, "valgrind": valgrind, "gcc": lsan}
    used = [hakmem, *[tool for name, tool in tools.items() if shutil.which(name)], *([memray] if "MEMRAY_PYTHON" in os.environ else [])]
    print("| program |", " | ".join(tool.__name__ for tool in used), "|\n|" + " --- |" * (1 + len(used)))
    with tempfile.TemporaryDirectory() as folder:
        for program in programs(Path(folder)):
            if not sys.argv[2:] or program.source.stem in sys.argv[2:]:
                print(f"| {program.source.name} |", " | ".join(verdict(tool, program) for tool in used), "|", flush=True)


if __name__ == "__main__":
    main()
