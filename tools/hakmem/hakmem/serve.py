"""Serves heap profiles of running processes over HTTP: for pprof, and as pages with flame graphs."""

from __future__ import annotations

import html
import signal
from collections import deque
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from hakmem import flame, process, profiling
from hakmem.attached import Attached
from hakmem.figures import bytes_text
from hakmem.profiles import Profile
from hakmem.sources import Sources
from hakmem.trouble import USAGE, Trouble

MOST_S = 3600.0
MOST_DIGITS = 10  # of a process id
PPROF, FLAME = "debug/pprof/heap", "flame"
HEAD = '<!doctype html><meta charset="utf-8"><title>HAKMEM</title><style>body { font: 14px sans-serif; margin: 2em } td, th { padding: .2em 1em; text-align: left }</style>'


class Refusal(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Serves one process, or all processes on HAKMEM if `pid` is None. Sampling of a process begins with its first profile and ends with the server."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], pid: int | None) -> None:
        super().__init__(address, Handler)
        self.pid = pid
        self.lock = Lock()  # protects `begun` and `ended`; held while a process is asked to begin
        self.begun: dict[int, str] = {}  # process ids, and when these processes began
        self.ended = False

    @property
    def url(self) -> str:
        return "http://{}:{}/".format(*self.server_address[:2])

    def profile(self, pid: int, seconds: float | None, mean: int | None) -> Profile:
        with closing(Attached(pid)) as attached:
            with self.lock:
                if self.ended:
                    raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the server ends")
                was_on = attached.begin(mean)
                if not was_on:
                    self.begun[pid] = start_of(pid)
            return profiling.sampled(attached, was_on, seconds, lambda each, wait: deque(each.watch(wait), 0))

    def end_sampling(self) -> None:
        with self.lock:
            self.ended = True
            for pid, start in self.begun.items():
                with suppress(Trouble, OSError):
                    if start_of(pid) == start:  # otherwise another process has this id
                        Attached(pid).end()


class Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 60  # seconds, for a client that sends nothing

    def do_GET(self) -> None:  # noqa: N802 (the name is that of http.server)
        try:
            kind, body = self.answer()
            status = HTTPStatus.OK
        except Refusal as refusal:
            kind, body, status = "text/plain", f"{refusal}\n".encode(), refusal.status
        except (Trouble, OSError) as error:
            kind, body, status = "text/plain", f"{error}\n".encode(), HTTPStatus.NOT_FOUND
        except Exception as error:  # for example an answer of a symbolizer, or a table that the process changes while it is read
            kind, body, status = "text/plain", f"{error!r}\n".encode(), HTTPStatus.INTERNAL_SERVER_ERROR
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

    def answer(self) -> tuple[str, bytes]:
        try:
            self.check_host()
            url = urlsplit(self.path)
        except ValueError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        path = url.path.strip("/")
        if path == "":
            return "text/html; charset=utf-8", self.index().encode()
        first, _, rest = path.partition("/")
        pid, wanted = (int(first), rest) if first.isascii() and first.isdecimal() and len(first) <= MOST_DIGITS else (self.server.pid, path)
        if pid is None or wanted not in (PPROF, FLAME) or self.server.pid not in (None, pid):
            raise Refusal(HTTPStatus.NOT_FOUND, f"{self.path}: there is only /, /PID/{PPROF} and /PID/{FLAME}")
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        found = self.server.profile(pid, seconds_of(query), mean_of(query))
        if found.waiting:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"process {pid} called no malloc in this time")
        sources = Sources(found.maps, found.pid)
        sources.learn(site.stack for site in found.sites)
        if wanted == PPROF:
            return "application/octet-stream", flame.pprof(found, sources)
        return "text/html; charset=utf-8", flame.page(found, sources, profiling.title(found, str(pid))).encode()

    def check_host(self) -> None:
        """Refuses names other than localhost. Otherwise a web page could read profiles, by a host name that resolves to this machine (DNS rebinding).
        Refuses requests that a browser makes for another site, because they would switch sampling on."""
        if self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise Refusal(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        with suppress(ValueError):
            ip_address(name)
            return
        if name != "localhost":
            raise Refusal(HTTPStatus.FORBIDDEN, "the request must name an address or localhost, not another host")

    def index(self) -> str:
        rows = []
        for each in [process.find(self.server.pid)] if self.server.pid else process.served_processes():
            with suppress(OSError):
                (rss, pss), name = each.memory(), html.escape(each.name())
                links = " ".join(f'<a href="/{each.pid}/{link}">{text}</a>' for link, text in ((FLAME, "flame graph"), (PPROF, "pprof")))
                rows.append((pss, f"<tr><td>{each.pid}<td>{bytes_text(pss)}<td>{bytes_text(rss)}<td>{name}<td>{links}"))
        body = "".join(row for _, row in sorted(rows, reverse=True))
        wait = f"The first profile of a process takes {profiling.DEFAULT_S:g} s, or ?seconds=N. Later profiles show live blocks that were allocated since sampling began."
        return f"{HEAD}<h1>Processes on HAKMEM</h1><table><tr><th>pid<th>PSS<th>RSS<th>program<th>profile{body}</table><p>{wait}"


def start_of(pid: int) -> str:
    return process.Process(pid).stat_fields()[19]


def seconds_of(query: dict[str, str]) -> float | None:
    if "seconds" not in query:
        return None
    with suppress(ValueError):
        if 0 <= (seconds := float(query["seconds"])) <= MOST_S:
            return seconds
    raise Refusal(HTTPStatus.BAD_REQUEST, f"seconds={query['seconds']}: not a number from 0 to {MOST_S:g}")


def mean_of(query: dict[str, str]) -> int | None:
    try:
        return profiling.bytes_of(query.get("sample"))
    except Trouble:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"sample={query['sample']}: not a number of bytes (512k, 1m)") from None


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def serve(pid: int | None, host: str, port: int) -> None:
    if pid is not None:
        process.find(pid)
    try:
        server = Server((host, port), pid)
    except (OSError, OverflowError) as error:
        raise Trouble(f"{host}:{port}: {getattr(error, 'strerror', None) or error}", USAGE) from None
    for number in (signal.SIGINT, signal.SIGTERM):  # shells let programs in the background ignore SIGINT
        signal.signal(number, interrupted)
    try:
        print(f"serving {server.url}\ngo tool pprof {server.url}{'PID/' if pid is None else ''}{PPROF}", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        server.end_sampling()
        server.server_close()
