"""Usage: test_real.py BUILD [NAME...]
Runs real programs that others have built for musl, from the Python package index and npm. They run in a root folder like that of a container. It has
the loader of Debian 13's musl, which is the version that they need, and no glibc. Each program runs with HAKMEM and without it, and must do the same.
The reports must say that HAKMEM served its calls. Without a NAME, all run except node_modules, which npm fetches and which takes half of the time."""
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
from kit import CACHE, enter, leave_out, make_root  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODULES = ("sharp@0.35.5", "lightningcss@1.33.0", "@swc/core@1.16.22")
TOOLS = "sh cat sha256sum sort env echo rm mkdir grep ls"
BEGIN = "set -e; export PATH=/bin:/usr/bin HOME=/tmp LC_ALL=C; cd /tmp/work; "
PROJECT = """cmake_minimum_required(VERSION 3.20)
project(real LANGUAGES NONE)
enable_testing()
set(all "")
foreach(i RANGE 1 150)
  string(REPEAT "line ${i};" ${i} text)
  list(APPEND all ${text})
  list(SORT all)
  list(REMOVE_DUPLICATES all)
  string(SHA256 sum "${text}")
  file(WRITE ${CMAKE_BINARY_DIR}/in${i}.txt "${sum}")
  add_custom_command(OUTPUT out${i}.txt DEPENDS in${i}.txt COMMAND ${CMAKE_COMMAND} -E cat in${i}.txt > out${i}.txt)
  list(APPEND outputs out${i}.txt)
endforeach()
add_custom_target(outputs ALL DEPENDS ${outputs})
foreach(i RANGE 1 8)
  add_test(NAME test${i} COMMAND ${CMAKE_COMMAND} -E compare_files in${i}.txt out${i}.txt)
endforeach()
list(LENGTH all length)
message(STATUS "${length} lines")
"""
# The commands that run in the root folder, and the smallest number of allocations that HAKMEM must have served in all processes together.
CASES = {
    "ninja": ("""{ echo 'rule add'; echo '  command = cat $in $in > $out; echo $out >> $out'; i=1
while [ $i -le 300 ]; do echo "build n$i.txt: add n$((i / 8)).txt"; i=$((i + 1)); done; } > build.ninja
echo begin > n0.txt; ninja -j4 | sed 's,^[^ ]* ,,' | sort | sha256sum; cat n*.txt | sha256sum; ninja -t graph | grep -c label; ninja -n""", 5_000),
    "cmake": ("""cp /tests/CMakeLists.txt .; cmake -G Ninja -B made . | grep lines; sha256sum < made/build.ninja; cmake --build made -j4 >/dev/null
cat made/out*.txt | sha256sum; cd made; ctest -j4 | grep 'tests passed'; cmake -E tar czf a.tgz in1.txt in2.txt; cmake -E tar tzf a.tgz
cmake -E sha256sum out*.txt | sha256sum""", 200_000),
    "clang-format": ("""clang-format --style=LLVM /source/src/slab/*.c /source/include/*.hpp | sha256sum
clang-format --style='{BasedOnStyle: Google, ColumnLimit: 60}' /source/src/heaps/*.c | sha256sum""", 100_000),
    "swig": ("""echo '%module real
%include std_string.i
%include std_vector.i
%include std_map.i
%template(Names) std::vector<std::string>;
%template(Map) std::map<std::string, std::vector<int>>;' > real.i
export SWIG_LIB="$(ls -d /real/swig-*/swig/data/share/swig/*)"
for language in python ruby java; do swig -c++ -$language -o $language.cxx real.i; done; cat *.cxx *.py | grep -v SWIG_LIB | sha256sum""", 100_000),
    "node": ("node /tests/real.mjs", 50_000),
    "node_modules": ("node /tests/real.mjs /modules", 100_000),
}


def debian_musl() -> Path:
    made = subprocess.run([ROOT / "tests/platform/everywhere/cached.sh", "musl", "trixie", "amd64", "musl"], capture_output=True, text=True)
    if made.returncode != 0:
        leave_out(f"Debian 13's musl cannot be had: {' '.join(made.stderr.split())}")
    return Path(made.stdout.strip()) / "usr/lib/ld-musl-x86_64.so.1"


def wheels() -> list[list[str]]:
    return [line.split() for line in (HERE / "wheels.txt").read_text().splitlines() if not line.startswith("#")]


def programs() -> Path:
    """Returns the folder that has a folder for each wheel. Unpacks the wheels the first time."""
    folder = CACHE / "musl-programs"
    for name, version, commands in wheels():
        place = folder / f"{name}-{version}"
        if place.exists():
            continue
        with tempfile.TemporaryDirectory() as part:
            got = subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--retries", "1", "download", "--no-deps",
                                  "--only-binary=:all:", "--platform=musllinux_1_2_x86_64", "--python-version=3.12", "--dest", part, f"{name}=={version}"],
                                 capture_output=True, text=True)
            found = list(Path(part).glob("*.whl"))
            if got.returncode != 0 or not found:
                leave_out(f"{name} {version} for musl cannot be had from the Python package index: {' '.join(got.stderr.split())[-200:]}")
            new = folder / f"{name}.{os.getpid()}"
            with zipfile.ZipFile(found[0]) as packed:
                packed.extractall(new)
            for program in (new / commands).iterdir():
                program.chmod(0o755)
            new.rename(place)
    return folder


def modules(loader: Path, folder: Path) -> Path:
    """Returns the folder of node's modules for musl. Fetches them the first time with the npm of the wheel."""
    made = CACHE / "musl-modules"
    if (made / ".made").exists() and (made / ".made").read_text() == " ".join(MODULES):
        return made
    (name, version, commands), = (wheel for wheel in wheels() if wheel[0].startswith("nodejs"))
    node = folder / f"{name}-{version}" / commands / "node"
    made.mkdir(parents=True, exist_ok=True)
    got = subprocess.run([loader, node, node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js", "install", "--no-save", "--ignore-scripts", "--os=linux",
                          "--cpu=x64", "--libc=musl", *MODULES], cwd=made, capture_output=True, text=True)
    if got.returncode != 0:
        leave_out(f"node's modules cannot be had from npm: {' '.join(got.stderr.split())[-300:]}")
    (made / ".made").write_text(" ".join(MODULES))
    return made


class Root:
    def __init__(self, root: Path, build: Path, loader: Path, names: list[str]) -> None:
        self.root, folder = root, programs()
        make_root(root, loader, build, TOOLS + " cp sed")
        for name, version, commands in wheels():
            for program in (folder / f"{name}-{version}" / commands).iterdir():
                (root / "usr/bin" / program.name).symlink_to(f"/real/{name}-{version}/{commands}/{program.name}")
        # The modules need a C++ library of the system, so they get the one of node's wheel.
        for library in folder.glob("nodejs*/*.libs/*.so*"):
            name = re.match(r"(.*)-[0-9a-f]{8}(\.so\.\d+)", library.name)
            (root / "usr/lib" / "".join(name.groups())).symlink_to(f"/real/{library.relative_to(folder)}")
        (root / "real").mkdir()
        (root / "tests").mkdir()
        (root / "tests/CMakeLists.txt").write_text(PROJECT)
        (root / "tests/real.mjs").write_text((HERE / "real.mjs").read_text())
        self.seen = {"real": folder, "source": ROOT, "dev": Path("/dev")}
        if "node_modules" in names:
            self.seen["modules"] = modules(loader, folder)

    def run(self, name: str, library: str) -> tuple[str, int]:
        """Returns the output and the number of allocations that HAKMEM served."""
        work, served = self.root / "tmp/work", self.root / "tmp/served"
        setting = f"export LD_PRELOAD={library} HAKMEM_REPORT=/tmp/served/%p.json; " if library else ""
        ended = enter(self.root, "/bin/sh", "-c", f"rm -rf /tmp/work /tmp/served; mkdir /tmp/work /tmp/served; {BEGIN}{setting}{CASES[name][0]}", seen=self.seen)
        said = ended.stdout + ended.stderr
        if ended.returncode != 0 or "cannot be preloaded" in said or "Error loading" in said or not work.exists():
            sys.exit(f"FAILED: {name} on {library or 'musl alone'} ended with {ended.returncode}\n{said}")
        return said, sum(json.loads(report.read_text())["served"]["malloc"] for report in served.iterdir())


def main() -> None:
    build, names = Path(sys.argv[1]), sys.argv[2:] or [name for name in CASES if name != "node_modules"]
    loader = debian_musl()
    with tempfile.TemporaryDirectory() as place:
        root = Root(Path(place) / "root", build, loader, names)
        version = re.search(r"Version ([\d.]+)", subprocess.run([loader], capture_output=True, text=True).stderr)[1]
        for name in names:
            alone, none = root.run(name, "")
            served = {}
            for library in ("libhakmem.so.0", "libhakmem-hardened.so.0"):
                said, served[library] = root.run(name, library)
                if said != alone:
                    sys.exit(f"FAILED: {name} on {library} differs\n{said}\nfrom musl's malloc\n{alone}")
            least = CASES[name][1]
            print(f"{name}: the same; served {served}", flush=True)
            if none != 0 or min(served.values()) < least:
                sys.exit(f"FAILED: {name}: less than {least} calls served, or some without HAKMEM: {none}")
        print(f"{len(names)} programs on musl {version}: all right")


main()
