"""Build systems and the compilers they drive: CMake with Ninja, Cargo, Go with cgo."""

import os
import re
import shutil
from pathlib import Path

from harness.case import WORKLOADS, Case, Skip
from harness.side import digest, digest_files


class CMakeNinja(Case):
    """CMake and Ninja build jsoncpp with its tests: identical objects, and every test's outcome."""

    name = "cmake"
    medium = 20
    least = 60
    packages = {"cmake": "cmake", "ninja": "ninja-build", "g++": "g++"}

    def prepare(self, kit):
        self.tree = kit.source("libjsoncpp")

    def run(self, side, group):
        build, source = side.fresh("build"), side.copy(self.tree, "source")
        env = {"CXXFLAGS": f"-w -ffile-prefix-map={side.dir}=."}
        made = side.run(["cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                         "-DJSONCPP_WITH_POST_BUILD_UNITTEST=OFF", "-DBUILD_SHARED_LIBS=OFF"], env=env)
        built = side.run(["ninja", "-j2", "-C", build], env=env, timeout=300)
        found = {"configure": made.outcome, "build": built.outcome, **digest_files(build, "*.o")}
        program = next(iter(sorted(build.rglob("jsoncpp_test"))), None)
        if program:
            tests = side.run([program])
            found.update((name, "ok" if word == "OK" else "fail")
                         for name, word in re.findall(r"^Testing (\S+): (OK|FAILED)", tests.out, re.MULTILINE))
            found["tests"] = tests.outcome
        return found


class Cargo(Case):
    """Cargo and rustc: a small crate with threads, built offline, and its tests."""

    name = "rust"
    medium = 7
    least = 6
    packages = {"cargo": "cargo"}

    def prepare(self, kit):
        self.cargo = shutil.which("cargo")
        homes = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
        self.env = {k: os.environ.get(k, v) for k, v in homes.items() if k in os.environ or v.is_dir()}

    def run(self, side, group):
        crate = side.copy(WORKLOADS / "crate", "crate")
        env = {**self.env, "CARGO_TARGET_DIR": side.fresh("target"), "CARGO_NET_OFFLINE": "true"}
        built = side.run([self.cargo, "build", "--offline", "--release", "-j2"], cwd=crate, env=env, timeout=300)
        tests = side.run([self.cargo, "test", "--offline", "--release", "-j2"], cwd=crate, env=env, timeout=300)
        ran = side.run([side.dir / "target/release/words"], env=env)
        return {"build": built.outcome, "tests": tests.outcome, "run": ran.outcome, "output": digest(ran.out),
                **dict(re.findall(r"^test (\S+) \.\.\. (\w+)", tests.out, re.MULTILINE))}


class Go(Case):
    """Go with cgo: C blocks allocated and freed from goroutines on many threads."""

    name = "go"
    medium = 15
    least = 10
    packages = {"go": "golang-go", "gcc": "gcc"}

    def prepare(self, kit):
        self.go = shutil.which("go")
        if not self.go:
            raise Skip("no go")

    def run(self, side, group):
        work = side.copy(WORKLOADS / "cgo", "cgo")
        env = {"GOPATH": side.folder("gopath"), "GOCACHE": side.folder("gocache"), "GOFLAGS": "-mod=mod", "GOPROXY": "off",
               "CGO_ENABLED": "1", "GOTOOLCHAIN": "local"}
        built = side.run([self.go, "build", "-p", "2", "-o", side.dir / "blocks", "."], cwd=work, env=env, timeout=400)
        ran = side.run([side.dir / "blocks"], env={"GOMAXPROCS": "4"})
        return {"build": built.outcome, "run": ran.outcome, **dict(re.findall(r"^(\w+)=(\w+)$", ran.out, re.MULTILINE))}
