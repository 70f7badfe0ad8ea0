"""Installs the build into a new prefix, then builds and runs one example as examples/README.md describes.

Usage: test_examples.py BUILD CMAKE PART
  c, cxx, heaps, python   checks the program and its output
  documents        checks that examples/README.md names each example and its command
  dockerfile       runs each step of examples/docker/Dockerfile unchanged, in folders instead of containers
  dockerfile_musl  does the same with Dockerfile.musl, and uses musl-gcc instead of Alpine's compiler
tests/package/rust runs the Rust example. If a program is missing that the test needs, the exit code is 77."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
BUILD, CMAKE, PART = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
CANNOT_RUN = 77
MIB_LINE = re.compile(r"^(.{16}) +([\d.]+) MiB with the program +([\d.]+) MiB resident +(\d+) blocks$", re.MULTILINE)


def must(good: bool, what: object) -> None:
    if not good:
        sys.exit(f"FAILED: {what}")


def run(*command: object, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_"))}
    ended = subprocess.run([str(word) for word in command], env=kept | more, capture_output=True, text=True)
    must(ended.returncode == 0, f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


def installed(folder: Path) -> Path:
    run(CMAKE, "--install", BUILD, "--prefix", folder / "prefix")
    return folder / "prefix"


def flags(prefix: Path) -> list[str]:
    if not shutil.which("pkg-config"):
        print("no pkg-config")
        sys.exit(CANNOT_RUN)
    paths = [str(path.parent) for path in prefix.rglob("hakmem.pc")]
    words = shlex.split(run("pkg-config", "--cflags", "--libs", "hakmem", PKG_CONFIG_PATH=paths[0]))
    return [*words, "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror",
            *(f"-Wl,-rpath,{word[2:]}" for word in words if word.startswith("-L"))]


def check_steps(said: str) -> None:
    """The program prints four lines: at the start, with the table, after the free, and after the trim."""
    lines = [(float(live), float(resident), int(blocks)) for _, live, resident, blocks in MIB_LINE.findall(said)]
    must(len(lines) == 4, said)
    _, full, freed, given_back = lines
    must(full[0] > 50 and full[1] > 50 and full[2] > 200_000, f"the table is not there: {said}")
    must(freed[0] < 10 and freed[2] < 5000, f"the blocks are not free: {said}")
    must(given_back[1] < 0.5 * full[1], f"free memory was not given back: {said}")


def test_c(folder: Path) -> None:
    run(os.environ.get("CC", "cc"), "-O2", EXAMPLES / "c/memory.c", *flags(installed(folder)), "-o", folder / "memory")
    report = folder / "report.json"
    check_steps(run(folder / "memory", report))
    must(json.loads(report.read_text())["served"]["malloc"] > 200_000, "the report does not count the table")


def test_cxx(folder: Path) -> None:
    words = flags(installed(folder))
    run(os.environ.get("CXX", "c++"), "-std=c++17", "-O2", EXAMPLES / "cxx/requests.cpp", *words, "-o", folder / "requests")
    said = run(folder / "requests", HAKMEM_COUNT="1")
    found = re.search(r"users: 500, (\d+) bytes; requests: 0 bytes now, (\d+) at the peak\n", said)
    must(bool(found) and 500 * 40 < int(found[1]) < 100_000 and int(found[2]) > 64 << 10, said)
    must(bool(re.search(r"HAKMEM [\d.]+ served [1-9]\d{4,} allocations; samples has room for (8000|8192) bytes", said)), said)


def test_heaps(folder: Path) -> None:
    """There are three tenants. The small one has too little memory for its larger queries, and the others do not notice this."""
    words = [*flags(installed(folder)), "-pthread"]
    run(os.environ.get("CXX", "c++"), "-std=c++17", "-O2", EXAMPLES / "heaps/tenants.cpp", *words, "-o", folder / "tenants")
    report = folder / "report.json"
    said = run(folder / "tenants", report)
    failed = {name: int(count) for name, count in re.findall(r"^(\w+) .* now 0 bytes  20 queries, (\d+) without memory$", said, re.MULTILINE)}
    must(failed.keys() == {"small", "medium", "large"} and failed["small"] > 3 and failed["medium"] == failed["large"] == 0, said)
    heaps = {heap["name"]: heap for heap in json.loads(report.read_text())["heaps"]}
    must(all(heap["peak"] <= heap["limit"] and heap["resets"] == 20 for heap in heaps.values()) and len(heaps) == 3, heaps)


def test_python(folder: Path) -> None:
    runner, report = installed(folder) / "bin/hakmem-run", folder / "report.json"
    program = EXAMPLES / "python/words.py"
    said = run(runner, "--report", report, sys.executable, program, PYTHONMALLOC="malloc")
    must(said == run(sys.executable, program) and "words, the most frequent" in said, said)
    must(json.loads(report.read_text())["served"]["malloc"] > 500_000, "HAKMEM did not serve Python")


def test_documents(_: Path) -> None:
    said = (EXAMPLES / "README.md").read_text()
    for folder in sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
        files = [path.relative_to(EXAMPLES).as_posix() for path in folder.rglob("*") if path.is_file() and "target" not in path.parts]
        must(any(f"({name})" in said for name in files), f"examples/README.md does not name {folder.name}")
    for name in re.findall(r"\]\(([^)]+)\)", said):
        must((EXAMPLES / name).is_file(), f"examples/README.md names {name}")


def instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def build_here(folder: Path, build: str, more: dict[str, str]) -> None:
    here = {"-S .": f"-S {ROOT}", "/build": str(folder / "build"), "/usr/local": str(folder / "local"), **more}
    for old, new in here.items():
        must(old in build, f"no {old} in {build}")
        build = build.replace(old, new)
    run("/bin/sh", "-c", build)


def test_dockerfile_musl(folder: Path) -> None:
    """The test's own program takes the place of Alpine's busybox, because it is the only dynamic program for musl here."""
    busybox = shutil.which("busybox")
    if not shutil.which("musl-gcc") or not busybox:
        print("no musl-gcc (musl-tools) or no busybox (busybox-static)")
        sys.exit(CANNOT_RUN)
    steps = instructions((EXAMPLES / "docker/Dockerfile.musl").read_text())
    must([word for word, _ in steps] == ["ARG", "FROM", "RUN", "WORKDIR", "COPY", "RUN", "FROM", "COPY", "ENV", "CMD"], steps)
    must({"cmake", "ninja", "gcc", "g++", "musl-dev", "linux-headers"} <= set(steps[2][1].split()), steps[2])
    must(steps[4][1] == ". ." and steps[7][1] == "--from=build /usr/local/ /usr/local/", steps)
    build_here(folder, steps[5][1], {"-G Ninja": f"-G Ninja -DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/musl.cmake"})
    name, _, library = steps[8][1].partition("=")
    (found,) = (folder / "local").rglob(library)
    run("musl-gcc", "-O1", "-fno-builtin", ROOT / "tests/platform/musl/crowd.c", "-o", folder / "crowd")
    said = run(folder / "crowd", "2", "50000", HAKMEM_REPORT="-", **{name: library, "LD_LIBRARY_PATH": str(found.parent)})
    served = re.search(r"served (\d+) allocations", said)
    must("100000 blocks" in said and bool(served) and int(served[1]) >= 100_000, said)  # type: ignore[index]
    words = json.loads(steps[9][1])
    must(words[0] == "/bin/sh" and run(busybox, *["sh", *words[1:]]) == "100000 words\n", words)


def test_dockerfile(folder: Path) -> None:
    """Folders stand for /source, /build and /usr/local. apt-get is not called. The loader gets its path without ldconfig."""
    steps = instructions((EXAMPLES / "docker/Dockerfile").read_text())
    must([word for word, _ in steps] == ["ARG", "FROM", "RUN", "WORKDIR", "COPY", "RUN", "FROM", "COPY", "RUN", "ENV", "CMD"], steps)
    packages = {word for word in steps[2][1].split("&&")[1].split() if not word.startswith("-")} - {"apt-get", "install"}
    must({"cmake", "ninja-build", "gcc", "libc6-dev"} <= packages, packages)
    must(steps[4][1] == ". ." and steps[7][1] == "--from=build /usr/local/ /usr/local/" and steps[8][1] == "ldconfig", steps)
    build_here(folder, steps[5][1], {})
    name, _, library = steps[9][1].partition("=")
    (found,) = (folder / "local").rglob(library)
    words = json.loads(steps[10][1])
    said = run(*words, **{name: library, "LD_LIBRARY_PATH": str(found.parent)})
    must("100000 words" in said and "where the memory is" in said and "cannot be preloaded" not in said, said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        globals()[f"test_{PART}"](Path(place))
    print(f"example {PART}: all right")
