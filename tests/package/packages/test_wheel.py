"""Builds the Python wheel as `make wheel` does, checks it with auditwheel, and uses it in a new virtual environment. All of HAKMEM there must come
from the wheel."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from kit import FOLDER, ROOT, attempt, environment, leave_out, must, need, run, step, version

NATIVE = ("libhakmem.so", "libhakmem-hardened.so", "libhakmem-record.so", "hakmem-run", "hakmem-play", "hakmem-replay")
GLIBC = (2, 17)
APP = """import json, sys
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libhakmem" in line}
kept = [bytes(1000) for _ in range(1000)]
print(json.dumps({"argv": sys.argv[1:], "mapped": sorted(mapped)}))
"""


def build() -> Path:
    for module in ("ziglang", "setuptools", "wheel", "auditwheel"):
        if not importlib.util.find_spec(module):
            leave_out(f"this Python has no {module}: tools/setup.sh test installs it where the Python package index can be reached")
    said = run(sys.executable, ROOT / "tools/dist/wheel.py", "--work", FOLDER / "wheel", "--output", FOLDER / "wheels", JOBS="2")
    return Path(said.strip().rpartition("wheel: ")[2])


def check_file(wheel: Path) -> None:
    must(wheel.name == f"hakmem-{version()}-py3-none-manylinux_2_17_x86_64.whl", wheel.name)
    with zipfile.ZipFile(wheel) as packed:
        files = {info.filename: info for info in packed.infolist()}
        for name in NATIVE:
            must(files[f"hakmem/native/{name}"].external_attr >> 16 & 0o111, f"{name} cannot be executed")
        for name in ("policy/options.def", "policy/profiles.def", "runtime/layout.def"):
            must(packed.read(f"hakmem/{Path(name).name}") == (ROOT / "src" / name).read_bytes(), name)
        must("Root-Is-Purelib: false" in packed.read(f"hakmem-{version()}.dist-info/WHEEL").decode(), "a wheel with machine code is said to have none")


def check_versions(wheel: Path, folder: Path) -> None:
    """Checks the versions of glibc that the wheel needs, by auditwheel, and by readelf, which applies no rules of its own."""
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    must('is consistent with the following platform tag: "manylinux_2_17_x86_64"' in said, said)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    for name in NATIVE:
        file = folder / "hakmem/native" / name
        if name == "hakmem-run":
            continue
        needed = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", run("readelf", "-VW", file))]
        must(needed and max(needed)[:2] <= GLIBC, f"{name} needs glibc {max(needed)}")
        must("debug_info" not in run("readelf", "-SW", file), f"{name} has debug data")
    flags = run("readelf", "-dW", folder / "hakmem/native/libhakmem.so")
    must("NODELETE" in flags and "INITFIRST" in flags and "BIND_NOW" in flags, flags)
    own = {line.split()[7].split("@")[0] for line in run("readelf", "--dyn-syms", "-W", folder / "hakmem/native/libhakmem.so").splitlines()
           if re.search(r" (GLOBAL|WEAK) +DEFAULT +(\d+|ABS) ", line)}
    listed = {line for line in (ROOT / "tests/api/abi/exports.txt").read_text().split("\n") if line and not line.startswith("#")}
    must(own == listed, f"exports: {sorted(own ^ listed)}")


class Venv:
    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        run(sys.executable, "-m", "venv", folder / "venv")
        self.bin = folder / "venv/bin"
        installed = attempt(self.bin / "pip", "-q", "--disable-pip-version-check", "--retries", "1", "install", wheel)
        if installed.returncode != 0:
            leave_out(f"pip cannot bring typer and rich: {' '.join(installed.stdout.split())[-200:]}")
        (folder / "app.py").write_text(APP)

    def run(self, *words: str, **more: str) -> str:
        path = f"{self.bin}:/usr/bin:/bin"
        ended = subprocess.run(words, cwd=self.folder, env=environment(HOME=str(self.folder), XDG_RUNTIME_DIR=str(self.folder)) | {"PATH": path} | more,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        must(ended.returncode == 0, f"{words} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout + ended.stderr

    def app(self, *words: str) -> dict:
        return json.loads(self.run(*words, "app.py", "an argument", "--x").splitlines()[-1])


def use(venv: Venv) -> None:
    native = next(Path(os.path.realpath(venv.folder)).glob("venv/lib/python*/site-packages/hakmem/native"))
    library, hardened = str(native / "libhakmem.so"), str(native / "libhakmem-hardened.so")
    argv = ["an argument", "--x"]
    must(venv.app("python3") == {"argv": argv, "mapped": []}, "the control: without it, no libhakmem")
    must(venv.run("hakmem", "--version") == f"hakmem {version()} ({library})\n", "the library of the wheel is not the first choice")
    for words, mapped in ((["hakmem", "run"], library), (["hakmem", "run", "--hardened", "--"], hardened), (["hakmem-run"], library),
                          (["hakmem-run", "--hardened"], hardened)):
        must(venv.app(*words, "python3") == {"argv": argv, "mapped": [mapped]}, words)
    (venv.folder / "app.py").write_text("import hakmem\nhakmem.preload()\n" + APP)
    must(venv.app("python3") == {"argv": argv, "mapped": [library]}, "hakmem.preload()")
    said = venv.run("hakmem", "doctor")
    must("HAKMEM serves here." in said and library in said and f"hardened library {hardened}" in " ".join(said.split()), said)
    must(f"HAKMEM {version()}, process" in venv.run("hakmem-run", "--report", "-", "bash", "-c", "true"), "bash on the wheel's library")
    venv.run("hakmem", "record", "--output", "recorded", "--", "bash", "-c", "true")
    recording = next((venv.folder / "recorded").glob("*.hkrec"))
    must(json.loads(venv.run("hakmem-play", "show", str(recording))), "hakmem-play")
    venv.run("hakmem-run", "--report", "/dev/null", "env", f"HAKMEM_LEARN_TRACE={venv.folder}/trace", "python3", "-c", "pass")
    if (venv.folder / "trace").exists():
        venv.run("hakmem-replay", "trace")
    check_recorder_messages(venv)


def check_recorder_messages(venv: Venv) -> None:
    """Checks the messages of the recorder. On an old glibc no function names an error without allocating, so the message has the number."""
    said = attempt("bash", "-c", "true", LD_PRELOAD=str(next(venv.folder.glob("venv/lib/python*/site-packages/hakmem/native/libhakmem-record.so"))),
                   HAKRECORD_FOLDER=str(venv.folder / "nowhere")).stdout
    must(re.search(r"hakmem record: .*error 2\b", said), said)


def main() -> None:
    need("cmake", "ninja", "readelf")
    if os.uname().machine != "x86_64":
        leave_out("the wheel is for x86-64")
    step("build")
    wheel = build()
    with tempfile.TemporaryDirectory() as name:
        step("auditwheel, versions")
        check_file(wheel)
        check_versions(wheel, Path(name) / "unpacked")
        step("pip install, and use")
        use(Venv(Path(name), wheel))
    print(f"wheel: {wheel.name}: all right")


if __name__ == "__main__":
    main()
