"""Usage: test_rust.py FOLDER PART
Tests the crates of rust/. They are built in FOLDER, which also has CARGO_HOME. The parts are:
  crates    cargo test of each crate, without features
  features  cargo test of hakmem with all features, and of hakmem-ctl with its own features
  plugin    a cdylib with local_dynamic_tls, opened by a program that uses the C library's malloc
  static    static programs, in which the feature override also decides which malloc serves
  machines  cargo test for aarch64 under an emulator; a machine that HAKMEM does not support is refused
  example   examples/rust, built and run
  package   cargo package: the archives have the C sources and can be built on their own
  program   ripgrep from the registry, with HAKMEM as its allocator and without it
Exits with 77 and a notice if cargo is missing or its registry cannot be reached."""
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CRATES = ROOT / "rust"
FOLDER, PART = Path(sys.argv[1]).resolve(), sys.argv[2]
CANNOT_RUN = 77
UNREACHABLE = re.compile(r"download of|failed to (?:fetch|query|update|download)|Could not resolve|network|offline|Timeout was reached|no matching package")
PACKAGED = FOLDER / "packaged"
ALL_FEATURES = "hardened,stats,override,allocator-api2"
RIPGREP = "15.1.0"
GLOBAL = "\n#[global_allocator]\nstatic GLOBAL: hakmem::HakMem = hakmem::HakMem;\n"


def leave_out(reason: str) -> None:
    print(f"notice: the tests of the Rust crates were left out: {reason}")
    sys.exit(CANNOT_RUN)


def find(program: str) -> str:
    """Returns the path of the program. Also looks in the user's .cargo/bin, which PATH may not have."""
    users = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cargo/bin"
    return shutil.which(program) or shutil.which(program, path=str(users)) or ""


def environment() -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_PRELOAD", "RUSTFLAGS", "CARGO_"))}
    mine |= {"CARGO_HOME": str(FOLDER / "home"), "CARGO_TARGET_DIR": str(FOLDER / "target"), "CARGO_NET_RETRY": "1",
             "CARGO_HTTP_TIMEOUT": "20", "CARGO_TERM_COLOR": "never", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}
    mine["PATH"] = str(Path(CARGO).parent) + ":" + mine.get("PATH", "/usr/bin:/bin")
    return mine


CARGO = find("cargo")
if not CARGO or subprocess.run([CARGO, "--version"], capture_output=True).returncode != 0:
    leave_out("there is no cargo that works")
ENVIRONMENT = environment()


def run(*command: object, folder: Path = CRATES, must: bool = True, **more: str) -> subprocess.CompletedProcess:
    print("+", *command, flush=True)
    ended = subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT | more, capture_output=True, text=True)
    if must and ended.returncode != 0:
        sys.exit(f"{ended.stdout}{ended.stderr}\nFAILED: {command[0]} ended with {ended.returncode}")
    return ended


def must(good: bool, what: object) -> None:
    if not good:
        sys.exit(f"FAILED: {what}")


def fetch(folder: Path, *options: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    ended = run(CARGO, "fetch", *options, folder=folder, must=False)
    if ended.returncode != 0 and UNREACHABLE.search(ended.stderr):
        leave_out(f"the registry of cargo cannot be reached: {ended.stderr.strip().splitlines()[-1]}")
    must(ended.returncode == 0, ended.stderr)


def passed(said: str) -> int:
    """Returns the number of tests that passed."""
    return sum(map(int, re.findall(r"test result: ok\. (\d+) passed", said)))


def test_crates() -> None:
    said = run(CARGO, "test", "--locked", "--workspace").stdout
    must(passed(said) >= 28, said)
    must("protections: hardened false" in said and "override false" in said, said)


def test_features() -> None:
    said = run(CARGO, "test", "--locked", "-p", "hakmem", "--features", ALL_FEATURES).stdout
    must(passed(said) >= 10, said)
    must("protections: hardened true" in said and "override true" in said, said)
    said = run(CARGO, "test", "--locked", "-p", "hakmem-ctl", "--all-features").stdout
    must(passed(said) >= 20, said)


def relocations(library: Path) -> set[str]:
    return set(re.findall(r"R_X86_64_(?:TPOFF64|DTPMOD64|TLSDESC)", run("readelf", "-rW", library).stdout))


PLUGIN_USER = """import ctypes, sys
plugin = ctypes.CDLL(sys.argv[1])
plugin.plugin_sum.restype = plugin.plugin_served.restype = ctypes.c_uint64
plugin.plugin_sum.argtypes = [ctypes.c_uint32]
before = plugin.plugin_served()
total = plugin.plugin_sum(1000)
print(total, plugin.plugin_served() - before)
"""


def test_plugin() -> None:
    library = FOLDER / "target/debug/examples/libplugin.so"
    for features in ([], ["--features", "local_dynamic_tls"]):
        run(CARGO, "build", "--locked", "-p", "hakmem", "--example", "plugin", *features)
        static = "R_X86_64_TPOFF64" in relocations(library)
        must(static == (not features), f"static thread-local storage with {features}: {static}")
        total, served = map(int, run(sys.executable, "-c", PLUGIN_USER, library, HAKMEM_COUNT="1").stdout.split())
        must(total == 499500 and 1000 <= served < 1100, f"{features}: the sum is {total}, HAKMEM served {served}")


def test_static() -> None:
    for features, word in ([], "false"), (["--features", "override"], "true"):
        # With --target, cargo does not use the flags for build scripts.
        said = run(CARGO, "test", "--locked", "--target", "x86_64-unknown-linux-gnu", "-p", "hakmem", "--test", "served", *features,
                   RUSTFLAGS="-C target-feature=+crt-static").stdout
        must(f"override {word}" in said, said)
    programs = [path for path in (FOLDER / "target/x86_64-unknown-linux-gnu/debug/deps").glob("served-*") if not path.suffix]
    must(programs and not any("NEEDED" in run("readelf", "-dW", path).stdout for path in programs), f"not static: {programs}")


MACHINE = "aarch64-unknown-linux-gnu"


def emulated() -> dict[str, str]:
    """Returns the variables that cargo needs to build for MACHINE and to run its programs."""
    emulator = run(ROOT / "tests/platform/everywhere/emulator.sh", must=False)
    library = run("rustc", "--print", "target-libdir", "--target", MACHINE).stdout.strip()
    for there, what in ((shutil.which("aarch64-linux-gnu-gcc"), "aarch64-linux-gnu-gcc"), (emulator.returncode == 0, "emulator for aarch64"),
                        (Path(library).exists(), f"standard library of Rust for it (rustup target add {MACHINE})")):
        if not there:
            leave_out(f"there is no {what}")
    prefix = f"CARGO_TARGET_{MACHINE.upper().replace('-', '_')}"
    return {f"{prefix}_LINKER": "aarch64-linux-gnu-gcc", f"{prefix}_RUNNER": f"{emulator.stdout.strip()} -L /usr/aarch64-linux-gnu"}


def test_machines() -> None:
    machine = emulated()
    # The test `served` is left out, because it counts threads, and the emulator has some of its own.
    for features in ([], ["--features", "override"]):
        said = run(CARGO, "test", "--locked", "--target", MACHINE, "-p", "hakmem", "--test", "global", *features, **machine).stdout
        must(passed(said) >= 1, said)
    program = next(path for path in (FOLDER / f"target/{MACHINE}/debug/deps").glob("global-*") if not path.suffix)
    must("AArch64" in run("readelf", "-hW", program).stdout, f"{program} is for another machine")
    # Runs only the build script, for a machine whose compiler is not installed here.
    script = max((FOLDER / "target/debug/build").glob("hakmem-sys-*/build-script-build"), key=lambda path: path.stat().st_mtime)
    refused = run(script, must=False, CARGO_MANIFEST_DIR=str(CRATES / "hakmem-sys"), CARGO_CFG_TARGET_OS="linux", CARGO_CFG_TARGET_ARCH="riscv64")
    must(refused.returncode != 0 and "x86-64 and aarch64, the target is linux on riscv64" in refused.stderr, refused.stderr)


def test_example() -> None:
    # Works on a copy, because cargo writes Cargo.lock beside the manifest.
    folder = FOLDER / "example"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "examples/rust", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    manifest = folder / "Cargo.toml"
    must("../../rust/hakmem" in manifest.read_text(), "the example names the crate of this tree")
    manifest.write_text(manifest.read_text().replace("../../rust/hakmem", str(CRATES / "hakmem")))
    said = run(CARGO, "run", folder=folder).stdout
    steps = [tuple(map(float, found)) for found in re.findall(r"([\d.]+) MiB with the program +([\d.]+) MiB resident +(\d+) blocks", said)]
    must(len(steps) == 4, said)
    must(" hak_attach" in run("nm", FOLDER / "target/debug/hakmem-example").stdout, "the linker keeps hak_attach, by which `hakmem` samples the program")
    must(steps[1][0] > 50 and steps[1][2] > 200_000 and steps[2][2] < 1000 and steps[3][1] < 0.5 * steps[1][1], said)


def packed(crate: str) -> set[str]:
    with tarfile.open(next((PACKAGED / "package").glob(f"{crate}-[0-9]*.crate"))) as archive:
        must(not any(member.issym() or member.islnk() for member in archive), f"{crate}: a link in the archive")
        return {member.name.split("/", 1)[1] for member in archive}


def forget_packaged() -> None:
    """Removes what cargo has unpacked and built of a version, because cargo would use it again after a change."""
    for kept in [PACKAGED, *(FOLDER / "home/registry").glob("*/*/hakmem*")]:
        shutil.rmtree(kept, ignore_errors=True)


def test_package() -> None:
    forget_packaged()
    # --allow-dirty is needed because a working tree may have changes that are not committed.
    run(CARGO, "package", "--locked", "--workspace", "--allow-dirty", CARGO_TARGET_DIR=str(PACKAGED))
    sources = {f"core/{path.relative_to(ROOT / 'src')}" for path in (ROOT / "src").rglob("*") if path.suffix in (".c", ".h", ".def")}
    found = packed("hakmem-sys")
    must(len(sources) > 200 and sources <= found, f"not in the package: {sorted(sources - found)}")
    must("include/hakmem.h" in found and all("LICENSE" in packed(crate) for crate in ("hakmem", "hakmem-ctl")), found)


def ripgrep(name: str, features: str) -> Path:
    """Makes a copy of ripgrep's source. If features are given, HAKMEM is its allocator."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    source = next((FOLDER / "home/registry/src").glob(f"*/ripgrep-{RIPGREP}"))
    shutil.copytree(source, folder)
    if features != "none":
        with open(folder / "Cargo.toml", "a") as manifest:
            manifest.write(f'\n[dependencies.hakmem]\npath = "{CRATES}/hakmem"\nfeatures = [{features}]\n')
        with open(folder / "crates/core/main.rs", "a") as main:
            main.write(GLOBAL)
    return folder


def report_of(program: Path, *options: str) -> tuple[list[str], dict]:
    report = FOLDER / "ripgrep.json"
    report.unlink(missing_ok=True)
    said = run(program, *options, ROOT / "src", ROOT / "docs", HAKMEM_REPORT=str(report)).stdout
    return sorted(said.splitlines()), json.loads(report.read_text()) if report.exists() else {}


def test_program() -> None:
    probe = FOLDER / "probe"
    (probe / "src").mkdir(parents=True, exist_ok=True)
    (probe / "src/lib.rs").write_text("")
    (probe / "Cargo.toml").write_text('[package]\nname = "probe"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
                                      f'[dependencies]\nripgrep = "={RIPGREP}"\n')
    fetch(probe)
    outputs = {}
    for name, features in (("ripgrep-plain", "none"), ("ripgrep-hakmem", '"override"')):
        folder = ripgrep(name, features)
        run(CARGO, "build", folder=folder)
        program = FOLDER / f"target/{name}"
        shutil.copy(FOLDER / "target/debug/rg", program)
        outputs[name], report = report_of(program, "--no-heading", "-n", "-j4", r"hk_\w+_(free|purge)\b")
        must(bool(report) == (features != "none"), f"{name}: a report of HAKMEM: {bool(report)}")
    must(len(outputs["ripgrep-plain"]) > 100, "ripgrep found next to nothing")
    must(outputs["ripgrep-plain"] == outputs["ripgrep-hakmem"], "ripgrep finds other lines on HAKMEM")
    served = report["served"]["malloc"]
    must(served > 10_000, f"HAKMEM served {served} allocations of ripgrep's")
    print(f"ripgrep {RIPGREP}: {len(outputs['ripgrep-hakmem'])} lines, HAKMEM served {served}")


if __name__ == "__main__":
    fetch(CRATES, "--locked")
    globals()[f"test_{PART}"]()
    print(f"rust {PART}: all right")
