"""Installs what the programs need: Debian packages, Debian sources, and builds that are kept in a cache."""

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from .case import Skip, Unreachable
from .side import digest

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org"
NO_ANSWER = re.compile(r"Could not (resolve|connect)|Temporary failure (in name resolution|resolving)|Connection (refused|timed out|reset)"
                       r"|Network is unreachable|Failed to establish a new connection|Unable to connect|50[234] ")
LOCK_WAIT = "DPkg::Lock::Timeout=300"


def default_cache():
    base = os.environ.get("HAKDEV_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hakmem" / "programs"


class Kit:
    def __init__(self, cache, say):
        self.cache = Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)
        self.say = say
        self.log = self.cache / "kit.log"

    @contextmanager
    def locked(self, name):
        """Holds a lock, so that only one process builds each thing in the cache."""
        with open(self.cache / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def call(self, argv, cwd=None, env=None, timeout=900):
        """Runs a tool, which never uses the allocator under test. If it fails, raises Skip with its last output."""
        clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("HAKMEM_")}
        clean.update(LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive", **(env or {}))
        try:
            done = subprocess.run([str(a) for a in argv], cwd=cwd, env=clean, timeout=timeout, text=True,
                                  errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        except FileNotFoundError as absent:
            raise Skip(f"{absent.filename} is not installed") from None
        except subprocess.TimeoutExpired:
            raise Skip(f"{argv[0]} took more than {timeout} s") from None
        with open(self.log, "a") as log:
            log.write(f"$ {' '.join(map(str, argv))}\n{done.stdout}\n")
        if done.returncode != 0:
            words = " | ".join(done.stdout.strip().splitlines()[-2:])
            kind = Unreachable if NO_ANSWER.search(done.stdout) else Skip
            raise kind(f"{Path(str(argv[0])).name} failed ({done.returncode}): {words[-300:]}")
        return done.stdout

    def packages(self, wanted):
        """Installs the packages whose command or file is missing. `wanted` is {command or path: package}."""
        absent = sorted({package for thing, package in wanted.items() if not self.present(thing)})
        if not absent:
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Skip(f"not installed: {' '.join(absent)}")
        self.say(f"installing {' '.join(absent)}")
        # RUNLEVEL keeps a server's package from starting the server, which would take its port and run at the same time as the test's own.
        quiet = {"RUNLEVEL": "1"}
        install = ["apt-get", "-o", LOCK_WAIT, "install", "-y", "-q", "--no-install-recommends", *absent]
        with self.locked("apt"):
            try:
                self.call(install, env=quiet)
            except Skip:
                self.call(["apt-get", "-o", LOCK_WAIT, "update", "-q"])
                self.call(install, env=quiet)

    @staticmethod
    def present(thing):
        return bool(shutil.which(thing) if "/" not in thing else next(Path("/").glob(thing.lstrip("/")), None))

    def apt_options(self):
        """Returns options that give apt its own source list and state, so that those of the machine do not change."""
        home = self.cache / "apt"
        for folder in ("lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        sources = home / "sources.list"
        if not sources.exists():
            release = Path("/etc/os-release").read_text()
            codename = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
            if not re.search(r"^ID=\"?debian", release, re.MULTILINE) or not codename:
                raise Skip("sources come from Debian, and this is none")
            suite = codename.group(1)
            sources.write_text(f"deb-src [signed-by={KEYRING}] {MIRROR}/debian {suite} main\n"
                               f"deb-src [signed-by={KEYRING}] {MIRROR}/debian-security {suite}-security main\n")
        return ["-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
                "-o", f"Dir::State::Lists={home}/lists", "-o", f"Dir::Cache={home}/cache",
                "-o", "APT::Sandbox::User=root"]

    def source(self, package):
        """Returns the unpacked Debian source of a package, a read-only folder of the cache."""
        target = self.cache / "source" / package
        with self.locked(f"source-{package}"):
            if target.exists():
                return target
            self.packages({"dpkg-source": "dpkg-dev"})
            options = self.apt_options()
            with self.locked("apt-source"):
                if not list((self.cache / "apt" / "lists").glob("*Sources*")):
                    self.say("reading Debian's list of sources")
                    self.call(["apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update", "-q"])
            self.say(f"getting the source of {package}")
            work = Path(tempfile.mkdtemp(dir=self.cache))
            try:
                self.download(options, package, work)
                described = next(work.glob("*.dsc"))
                target.parent.mkdir(exist_ok=True)
                self.call(["dpkg-source", "--no-check", "-x", described, work / "tree"], cwd=work)
                (work / "tree").rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return target

    def download(self, options, package, work):
        """Downloads the newest version of a source that the mirror has."""
        shown = self.call(["apt-cache", *options, "showsrc", package])
        versions = re.findall(r"^Version: (\S+)", shown, re.MULTILINE)
        refusal = Skip(f"no source of {package}")
        for choice in [package, *(f"{package}={v}" for v in versions)]:
            try:
                self.call(["apt-get", *options, "source", "-q", "--download-only", choice], cwd=work)
                return
            except Skip as failed:
                refusal = failed
                for partial in work.iterdir():
                    partial.unlink()
        raise refusal

    def built(self, name, package, build):
        """Returns a copy of a package's source after build(folder), from the cache if it is there."""
        target = self.cache / "built" / name
        source = self.source(package)
        with self.locked(f"built-{name}"):
            if target.exists():
                return target
            self.say(f"building {name}")
            work = Path(tempfile.mkdtemp(dir=self.cache)) / name
            try:
                shutil.copytree(source, work, symlinks=True)
                build(work)
                target.parent.mkdir(exist_ok=True)
                work.rename(target)
            finally:
                shutil.rmtree(work.parent, ignore_errors=True)
        return target


    def unpacked(self, package):
        """Returns the contents of a Debian package without installing it, for a kernel or a test suite that must stay private."""
        target = self.cache / "unpacked" / package
        with self.locked(f"unpacked-{package}"):
            if target.exists():
                return target
            self.say(f"getting {package}")
            work = Path(tempfile.mkdtemp(dir=self.cache))
            try:
                self.call(["apt-get", "-o", "APT::Sandbox::User=root", "download", "-q", package], cwd=work)
                self.call(["dpkg-deb", "-x", next(work.glob("*.deb")), work / "tree"])
                target.parent.mkdir(exist_ok=True)
                (work / "tree").rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return target

    def venv(self, name, wanted):
        """Returns the Python of a virtual environment with these packages of the Python index. Each has its version."""
        target = self.cache / "venv" / f"{name}-{digest(' '.join(wanted))}"
        with self.locked(f"venv-{name}"):
            if not (target / "complete").exists():  # it cannot be moved, and so it is made in its final place
                self.packages({"/usr/bin/python3": "python3", "/usr/lib/python3*/ensurepip": "python3-venv"})
                self.say(f"Python packages: {' '.join(wanted)}")
                shutil.rmtree(target, ignore_errors=True)
                self.call(["/usr/bin/python3", "-m", "venv", target])
                self.call([target / "bin/pip", "-q", "--disable-pip-version-check", "install", *wanted], timeout=1800)
                (target / "complete").touch()
        return target / "bin/python"


def unprivileged(*names):
    """Returns the first of these accounts that exists if the user is root, or None."""
    if os.geteuid() != 0:
        return None
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Skip(f"no account of {' '.join(names)}")
