"""Python's servers under load: gunicorn with processes and threads, Tornado (and its own tests), gRPC."""

import random
import re
import signal

from harness.case import WORKLOADS, Case
from harness.outcomes import values
from harness.serving import HERE, answers, asked_by_many, free_port

WHEELS = ("gunicorn==27.0.1", "tornado==6.6.1", "grpcio==1.85.1")
REQUESTS, AB = 900, 3000
RESULT = re.compile(r"^(\w+) \((\S+?)\)(?: \.\.\.|\n.*? \.\.\.).*?(ok|FAIL|ERROR|skipped)\b", re.MULTILINE)
WORDS = {"ok": "ok", "FAIL": "fail", "ERROR": "error", "skipped": "skip"}


class WebServer(Case):
    """Runs a server with the application of workloads/webapp.py. Each answer is compared, and then ab counts answers."""

    medium = 0
    least = 900
    packages = {"ab": "apache2-utils"}

    def prepare(self, kit):
        self.python = kit.venv("servers", WHEELS)

    def command(self, port):
        raise NotImplementedError

    def start(self, side):
        side.port = free_port()
        side.server = side.popen([self.python, *self.command(side.port)], cwd=WORKLOADS, env={"PYTHONDONTWRITEBYTECODE": "1"})
        if not answers(side.port, side.server):
            raise RuntimeError("the server does not listen")

    def stop(self, side):
        if getattr(side, "server", None):
            side.end(side.server, 30, ask=signal.SIGTERM)

    def groups(self, quick):
        return ["answers", "ab", "answers after ab"]

    def run(self, side, group):
        if group == "ab":
            return self.bench(side)
        chance = random.Random(group)
        requests = []
        for n in range(REQUESTS):
            kind = ("table", "packed", "echo", "hello")[n % 4]
            number, body = chance.randrange(1, 5000), chance.randbytes(chance.randrange(1, 60000)) if kind == "echo" else None
            requests.append((f"{n}: {kind}", "POST" if body else "GET", f"/{kind}/{number}", body))
        return asked_by_many(side.port, requests, clients=6)

    @staticmethod
    def bench(side):
        found = {}
        for place in ("hello", "table/399", "packed/150"):
            done = side.run(["ab", "-q", "-k", "-n", AB, "-c", "8", f"http://{HERE}:{side.port}/{place}"], preload=False, timeout=240)
            for what in ("Complete requests", "Failed requests", "HTML transferred"):
                said = re.search(rf"^{what}: +(\d+)", done.out, re.MULTILINE)
                found[f"{place}: {what}"] = said[1] if said else "fail"
        return found


class Gunicorn(WebServer):
    """gunicorn: two workers with four threads each, forked from a master; every answer, and ab's counts."""

    name = "gunicorn"

    def command(self, port):
        return ["-m", "gunicorn", "-w", "2", "-k", "gthread", "--threads", "4", "-b", f"{HERE}:{port}", "--max-requests", "2500",
                "--no-control-socket", "webapp:app"]


class Tornado(WebServer):
    """Tornado: its own tests, then a server whose handlers work on threads; every answer, and ab's counts."""

    name = "tornado"
    least = 1500

    def command(self, port):
        return ["webapp.py", port]

    def groups(self, quick):
        return ["own tests", *super().groups(quick)]

    def run(self, side, group):
        if group != "own tests":
            return super().run(side, group)
        done = side.run([self.python, "-m", "tornado.test", "-v"], cwd=side.fresh("work"), env={"ASYNC_TEST_TIMEOUT": "60"}, timeout=400)
        return {**{f"{place}.{name}": WORDS[word] for name, place, word in RESULT.findall(done.out + done.err)}, "end": done.outcome}


class Grpc(Case):
    """gRPC: a server and clients with threads, calls and streams of all four kinds; each answer is a check."""

    name = "grpc"
    medium = 0
    least = 2000

    def prepare(self, kit):
        self.python = kit.venv("servers", WHEELS)

    def run(self, side, group):
        done = side.run([self.python, WORKLOADS / "rpc.py"], cwd=side.fresh("work"), timeout=240)
        return values(done)
