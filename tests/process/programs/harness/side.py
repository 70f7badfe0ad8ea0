"""One side of a comparison. It starts, limits and records its processes, and finds out which allocator served them."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "SSL_CERT_FILE")
ALLOCATOR_LINE = re.compile(r"^hakmem: .*$", re.MULTILINE)
CRASH_WORDS = re.compile(r"Segmentation fault|Bus error|Aborted|core dumped|SIG(?:SEGV|BUS|ABRT)|double free|corrupted")
CRASH_OUTCOMES = ("signal", "timeout")


@dataclass
class Done:
    """A process that has ended: its output and its status."""

    code: int
    out: str
    err: str
    timed_out: bool = False

    @property
    def outcome(self):
        if self.timed_out:
            return "timeout"
        return f"exit {self.code}" if self.code >= 0 else f"signal {signal.Signals(-self.code).name}"


def digest(data):
    """Returns a short hash, for outputs that are compared and not read."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    return hashlib.sha256(raw).hexdigest()[:16]


def digest_files(folder, *patterns):
    """Returns {relative name: hash} of the files below the folder that match a glob pattern."""
    found = sorted({p for pattern in patterns for p in Path(folder).rglob(pattern) if p.is_file()})
    return {str(p.relative_to(folder)): digest(p.read_bytes()) for p in found}


def served_calls(report):
    """Returns the number of calls that a HAKMEM process served according to its report, or 0 if the file does not tell it."""
    try:
        served = json.loads(Path(report).read_text(errors="replace")).get("served", 0)
    except (OSError, ValueError, AttributeError):
        return 0
    if isinstance(served, (int, float)):
        return int(served)
    for total in ("total", "calls", "total_calls"):
        if isinstance(served.get(total), (int, float)):
            return int(served[total])
    return sum(int(v) for v in served.values() if isinstance(v, (int, float)))


class Side:
    """A scratch folder and an allocator (None means glibc's own)."""

    live = {}  # {pid: process} of every session that has not ended, on all sides

    def __init__(self, name, scratch, library, inherited):
        self.name, self.library = name, library
        self.dir = Path(scratch) / name
        self.dir.mkdir(mode=0o755)
        self.home = self.dir / "home"
        self.home.mkdir()
        self.logs = self.dir / "log"
        self.logs.mkdir()
        self.reports = self.dir / "report"
        self.reports.mkdir()
        self.reports.chmod(0o1777)  # because programs that run as another user write reports too
        self.inherited = inherited
        self.served = self.reported = self.loaded = self.started = 0
        self.group = "start"
        self.number = 0

    def environment(self, extra, report, preload):
        env = {k: os.environ[k] for k in KEPT_ENVIRONMENT if k in os.environ}
        env.update(self.inherited)
        env.update(HOME=str(self.home), TMPDIR=str(self.folder("tmp")), LANG="C.UTF-8", LC_ALL="C.UTF-8",
                   TZ="UTC", TERM="dumb", HAKMEM_REPORT=str(report))
        env.update({k: str(v) for k, v in (extra or {}).items()})
        if preload and self.library:
            env["LD_PRELOAD"] = str(self.library)
        return env

    def folder(self, name):
        made = self.dir / name
        made.mkdir(exist_ok=True)
        if name == "tmp":
            made.chmod(0o1777)
        return made

    def fresh(self, name):
        """Returns an empty folder with this name."""
        shutil.rmtree(self.dir / name, ignore_errors=True)
        return self.folder(name)

    def copy(self, source, name):
        """Makes a private copy of a folder or file of the cache."""
        target = self.dir / name
        if target.is_dir():
            shutil.rmtree(target)
        if Path(source).is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
        return target

    def popen(self, argv, cwd=None, env=None, user=None, preload=True, stdin=subprocess.DEVNULL):
        """Starts a process in a session of its own. Its outputs go to files that are named like the report."""
        self.number += 1
        stem = self.reports / f"{self.number:05d}"
        identity = {}
        if user is not None:
            identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with open(f"{stem}.out", "wb") as out, open(f"{stem}.err", "wb") as err:
            process = subprocess.Popen(
                [str(a) for a in argv], cwd=str(cwd or self.dir), stdin=stdin, stdout=out, stderr=err,
                env=self.environment(env, f"{stem}.json", preload), start_new_session=True, **identity)
        self.live[process.pid] = process
        process.stem = stem
        process.preloaded = preload
        return process

    def end(self, process, timeout, ask=None):
        """Waits (after the signal `ask`, if any), kills the rest of the session, and reads the outputs."""
        timed_out = False
        if ask is not None and process.poll() is None:
            process.send_signal(ask)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        self.kill_session(process)
        process.wait()
        self.live.pop(process.pid, None)
        return self.read(process, timed_out)

    @staticmethod
    def kill_session(process):
        """Ends all processes of the session, also those that a program has left."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def read(self, process, timed_out):
        out, err = (Path(f"{process.stem}.{kind}").read_bytes().decode("utf-8", "surrogateescape")
                    for kind in ("out", "err"))
        # Reads its own report and those of its children. A program may write no report, as Go's do, although its compilers write one.
        reports = list(process.stem.parent.glob(f"{process.stem.name}.*json"))
        if process.preloaded:
            self.started += 1
            calls = sum(map(served_calls, reports))
            self.loaded += bool(reports)
            self.served += calls
            self.reported += calls > 0
        for path in (Path(f"{process.stem}.out"), Path(f"{process.stem}.err"), *reports):
            path.unlink(missing_ok=True)
        done = Done(process.returncode, out, err, timed_out)
        self.log(process.args, done)
        return done

    def run(self, argv, cwd=None, env=None, user=None, preload=True, timeout=120, stdin=None):
        """Runs a program to its end. stdin is text, or None."""
        feed = subprocess.DEVNULL
        if stdin is not None:
            path = self.dir / f"stdin-{threading.get_ident()}"
            path.write_text(stdin)
            feed = open(path, "rb")
        try:
            return self.end(self.popen(argv, cwd, env, user, preload, feed), timeout)
        finally:
            if stdin is not None:
                feed.close()

    @staticmethod
    def log_name(group):
        return re.sub(r"[^\w.+-]", "_", group) + ".txt"

    def log_path(self):
        return self.logs / self.log_name(self.group)

    def log(self, argv, done):
        """Keeps the output of a group's processes, so that a failure can be read afterwards."""
        with open(self.log_path(), "a", errors="surrogateescape") as log:
            log.write(f"$ {' '.join(argv)}\n-> {done.outcome}\n{done.out[-200000:]}\n{done.err[-200000:]}\n")

    def logged(self, group):
        try:
            return (self.logs / self.log_name(group)).read_text(errors="replace")
        except OSError:
            return ""

    def complaints(self, group, other):
        """Returns lines with complaints of the allocator, and words of crashes that the other side's output has less often."""
        own, control = self.logged(group), CRASH_WORDS.findall(other.logged(group))
        crashes = CRASH_WORDS.findall(own)
        return ALLOCATOR_LINE.findall(own)[:3] + sorted({word for word in crashes if crashes.count(word) > control.count(word)})

    def clean(self, text):
        """Returns the text without the name of the scratch folder, which differs between the sides."""
        return text.replace(str(self.dir), "@")
