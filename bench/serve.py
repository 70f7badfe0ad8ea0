#!/usr/bin/env python3
"""Measures one server under load over loopback, for the rows P25.

    tools/in_venv.sh bench/serve.py redis --env LD_PRELOAD=build/libhakmem.so
    tools/in_venv.sh bench/serve.py nginx 2000                                   # 2000 requests, on the C library's allocator

Starts the server in a fresh folder with the settings of --env, fills it, warms it up with a tenth of the load, and applies the load, which is a
fixed number of requests. Nothing is preloaded into the load generator. Prints a JSON object: the rate and the latencies that the generator
measured; the processor time of the server's processes for each request; and the sum of their PSS (the peak under the load, after it, and 2 s
later). The exit status is 1 if a process or a request fails, or if a process of the server does not have the preloaded library.
"""
import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import typer

import latencies
from servers import SERVERS, Server

HERE = Path(__file__).resolve().parent / "programs/servers"
LIMIT_S, READY_S, STOP_S = 150, 30, 30
SAMPLE_S, SETTLE_S, LATER_S = 0.25, 0.2, 2.0
WARM_SHARE = 10
USER, GROUP = "nobody", "nogroup"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None).prctl


class Failed(Exception):
    """A run whose figures must not be used, and why."""


# ---- processes ----------------------------------------------------------------

def status_of(pid: int) -> list[str]:
    """Returns the words of /proc/PID/stat after the name. The first is the state of the process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(root: int) -> list[int]:
    """Returns a process and its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int(status_of(int(folder.name))[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_s(root: int) -> float:
    """Returns the processor time of the living processes, and of the ended ones for which they have waited."""
    return sum(sum(map(int, status_of(pid)[11:15])) for pid in tree(root)) / os.sysconf("SC_CLK_TCK")


def pss_mib(root: int) -> float:
    kib = 0
    for pid in tree(root):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


def run(words: list[str], look: Callable[[], object] = lambda: None) -> str:
    """Returns what the command prints. Calls `look` again and again while it runs."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        while child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(SAMPLE_S)
            look()
        out.seek(0)
        printed = out.read()
    if child.returncode != 0:
        raise Failed(f"{words[-1]} ended with {child.returncode}: {printed.strip()[-300:]}")
    return printed


@contextmanager
def no_process_left() -> Iterator[None]:
    """Ends all processes that this one started. Their orphans become children of this process, so that none is missed."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        while len(left := tree(os.getpid())) > 1:
            for pid in left[1:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.wait()


# ---- one run --------------------------------------------------------------------

@dataclass
class Run:
    server: Server
    env: dict[str, str]
    folder: Path
    port: int
    library: str = ""

    def words(self, command: str, account: tuple[str, ...] = (), env: dict[str, str] | None = None, **places: object) -> list[str]:
        """Returns the words of the command. The process ends with this one, even if this one is killed."""
        shared = {"folder": self.folder, "port": self.port, "here": HERE}
        program, *words = [word.format(**shared, **places) for word in shlex.split(command)]
        found = max(Path("/").glob(program.lstrip("/")), default=None)
        if found is None:
            raise Failed(f"there is no {program}")
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        return ["/usr/bin/setpriv", "--pdeathsig=KILL", *account, "/usr/bin/env", *settings, str(found), *words]

    @property
    def account(self) -> tuple[str, ...]:
        """Returns the options of setpriv for a server that must not run as root."""
        return (f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups") if self.server.unprivileged and os.geteuid() == 0 else ()

    def prepare(self) -> None:
        """Makes the folders, and copies the preloaded library and those that it needs to where every account can read them."""
        self.folder.chmod(0o755)
        for name in ("data", "reports"):
            (self.folder / name).mkdir()
            if self.account:
                shutil.chown(self.folder / name, USER, GROUP)
        first, _, others = self.env.get("LD_PRELOAD", "").partition(":")
        if "/" in first:
            self.library = shutil.copy(first, self.folder)
            self.env["LD_PRELOAD"] = ":".join(filter(None, [self.library, others]))
        if "LD_LIBRARY_PATH" in self.env:
            self.env["LD_LIBRARY_PATH"] = shutil.copytree(self.env["LD_LIBRARY_PATH"], self.folder / "lib")
        if self.server.prepare:
            run(self.words(self.server.prepare, self.account))

    @contextmanager
    def serving(self) -> Iterator[int]:
        """Starts the server, and asks it to end afterwards. Its exit status must be 0, and it must not print a message of HAKMEM."""
        with open(self.folder / "server.log", "w+") as log:
            words = self.words(self.server.start, self.account, dict(self.server.env) | self.env)
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            end = time.monotonic() + READY_S
            try:
                while subprocess.run(self.words(self.server.ready), capture_output=True).returncode != 0:
                    if child.poll() is not None or time.monotonic() > end:
                        raise Failed("it does not serve")
                    time.sleep(0.1)
                yield child.pid
                child.send_signal(self.server.stop)
                if child.wait(STOP_S) != 0:
                    raise Failed(f"it ended with {child.returncode}")
            finally:
                log.seek(0)
                said = log.read()
                if said and (sys.exc_info()[0] or "hakmem: " in said):
                    print(f"the server printed: {said[-2000:]}", file=sys.stderr)
            if "hakmem: " in said:
                raise Failed("HAKMEM printed a message")

    def load(self, n: int, look: Callable[[], object] = lambda: None) -> tuple[latencies.Latencies, float]:
        """Applies the load. Returns the latencies and the seconds. All requests must succeed."""
        found, seconds = [], 0.0
        part = n // self.server.parts
        for number, command in enumerate(self.server.loads):
            log = self.folder / f"latencies-{n}-{number}"
            printed = run(self.words(command, n=part, log=log), look)
            logged = "".join(path.read_text() for path in self.folder.glob(f"{log.name}*"))
            more, took = latencies.read(Path(shlex.split(command)[0]).name, printed, logged)
            found += more
            seconds += took
        if latencies.count_of(found) != part * self.server.parts:
            raise Failed(f"{latencies.count_of(found)} of {part * self.server.parts} requests succeeded")
        return found, seconds

    def check_library(self, root: int) -> None:
        """A preload that fails is only a warning to the loader."""
        for pid in tree(root):
            if self.library not in Path(f"/proc/{pid}/maps").read_text():
                raise Failed(f"the process {pid} of the server has not loaded {self.library}")

    def measure(self, n: int) -> dict[str, float]:
        with self.serving() as root:
            for command in self.server.fill:
                run(self.words(command, n=n))
            self.load(n // WARM_SHARE)
            began, sizes = cpu_s(root), [0.0]
            found, seconds = self.load(n, lambda: sizes.append(pss_mib(root)))
            time.sleep(SETTLE_S)
            used, after = cpu_s(root) - began, pss_mib(root)
            time.sleep(LATER_S)
            self.check_library(root)
            later = pss_mib(root)
        requests = latencies.count_of(found)
        return {"requests": requests, "requests_per_s": requests / seconds, "cpu_us": used / requests * 1e6,
                "p99_ms": latencies.percentile(found, 0.99), "p99_9_ms": latencies.percentile(found, 0.999),
                "peak_rss_mib": max(*sizes, after), "rss_mib": after, "rss_2s_mib": later}


def total_of(reports: Path) -> dict[str, dict[str, int]]:
    """Adds up the calls in the reports of all processes."""
    total: Counter[str] = Counter()
    for path in reports.iterdir():
        total.update(json.loads(path.read_text())["served"])
    return {"served": dict(total)}


def measure(server: Server, n: int, env: dict[str, str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="hakmem-server-") as made, no_process_left(), socket.socket() as holder:
        # The kernel gives the port to no other program. The server can bind it all the same, because both sockets have this option.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        folder, report = Path(made), env.get("HAKMEM_REPORT")
        if report:
            env["HAKMEM_REPORT"] = f"{folder}/reports/"
        if server.own_malloc:
            env.setdefault("LD_PRELOAD", "libc.so.6")
        the_run = Run(server, env, folder, holder.getsockname()[1])
        the_run.prepare()
        figures = the_run.measure(n)
        if report:
            Path(report).write_text(json.dumps(total_of(folder / "reports")))
        return figures


def end_early(number: int, _: object) -> None:
    """Ends the run, which ends the server. Further signals do not interrupt this."""
    for other in ENDINGS:
        signal.signal(other, signal.SIG_IGN)
    raise Failed(f"ended by {signal.Signals(number).name}")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    name: str = typer.Argument(help=", ".join(SERVERS)),
    n: int = typer.Argument(0, help="requests; 0: the server's own number"),
    env: list[str] = typer.Option([], metavar="NAME=VALUE", help="a setting of the server, such as LD_PRELOAD"),
) -> None:
    """Measures one server under load over loopback."""
    for number in ENDINGS:
        signal.signal(number, end_early)
    signal.alarm(LIMIT_S)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        print(json.dumps(measure(SERVERS[name], n or SERVERS[name].n, dict(setting.split("=", 1) for setting in env))))
    except (Failed, OSError, subprocess.TimeoutExpired) as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
