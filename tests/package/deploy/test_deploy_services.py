"""Checks the servers of docs/DEPLOY.md. Each is started by its command there, used, and ended as in production. The counters of its reports must show
that HAKMEM served it. Servers that are not installed are left out."""

import contextlib
import glob
import os
import signal
import socket
import subprocess
import unittest
import urllib.request

from page import Case

APPLICATION = """
import os

def app(environ, start_response):
    body = b"%200000d" % os.getpid()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""
NODE = "const kept = []; for (let i = 0; i < 20000; i++) kept.push(Buffer.alloc(5000 + i % 100)); console.log(kept.length)"
RUBY = """
kept = (1..50000).map { |i| "x" * (100 + i % 50) }
fork { more = (1..50000).map { |i| "y" * 200 }; exit! }
Process.wait
puts kept.size
"""
NOBODY = 65534


class Services(Case):
    def end(self, process: subprocess.Popen, number: int = signal.SIGTERM) -> str:
        process.send_signal(number)
        return process.communicate(timeout=500)[0]

    def test_gunicorn(self) -> None:
        self.needs("gunicorn")
        (self.folder / "app.py").write_text(APPLICATION)
        place = self.folder / "socket"
        process = self.start(self.command("gunicorn", **{"127.0.0.1:8000": f"unix:{place}"}))
        self.wait_for("answers of both workers", lambda: len(self.asked_at_once(place, 2)) == 2, process)
        for _ in range(20):
            self.asked_at_once(place, 1)
        self.end(process)
        self.served(100, "gunicorn", processes=3)

    @staticmethod
    def asked_at_once(place, requests: int) -> set[int]:
        """Returns the process ids of the workers that answered. Connects all before it asks, because a worker serves one connection at a time. A
        worker that is not asked may still be starting, and then a signal to end may not reach it."""
        with contextlib.ExitStack() as links:
            try:
                open_links = [links.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(requests)]
                for link in open_links:
                    link.connect(str(place))
                for link in open_links:
                    link.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return {int(b"".join(iter(lambda link=link: link.recv(65536), b"")).split()[-1]) for link in open_links}
            except OSError:
                return set()

    def test_redis(self) -> None:
        self.needs("redis-server")
        place = self.folder / "socket"
        process = self.start(self.command("redis", **{"--port 6379": f"--port 0 --unixsocket {place}"}))
        self.wait_for("an answer", lambda: self.redis(place, "PING") == b"+PONG", process)
        for number in range(300):
            self.redis(place, f"SET key{number} {'x' * 500}")
        self.assertTrue(self.redis(place, "BGSAVE").startswith(b"+Background"))
        self.wait_for("the snapshot", lambda: b"rdb_bgsave_in_progress:0" in self.redis(place, "INFO persistence", whole=True), process)
        self.end(process)
        self.served(300, "redis-server", processes=2)

    @staticmethod
    def redis(place, words: str, whole: bool = False) -> bytes:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(str(place))
                link.sendall(words.encode() + b"\r\n")
                said = link.recv(65536)
                return said if whole else said.split(b"\r\n")[0]
        except OSError:
            return b""

    def test_postgres(self) -> None:
        folders = glob.glob("/usr/lib/postgresql/*/bin")
        server = self.needs("postgres", *folders)
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        data = self.folder / "data"
        data.mkdir()
        if user:
            os.chown(data, NOBODY, NOBODY)
        subprocess.run([*user, self.needs("initdb", *folders), "-D", data, "-A", "trust"], check=True, capture_output=True, cwd=self.folder)
        other = {"/var/lib/postgresql/data": f"{data} -k {data} -c listen_addresses=", "postgres -D": f"{server} -D"}
        command = f"{' '.join(user)} env {self.command('postgres', **other)}".strip()
        process = self.start(command)
        ask = [self.needs("psql"), "-h", data, "-d", "postgres", "-U", "nobody" if user else os.environ.get("USER", "postgres"), "-Atc"]
        query = "select sum(length(repeat('x', i))) from generate_series(1, 5000) i"
        self.wait_for("an answer", lambda: subprocess.run([*map(str, ask), query], capture_output=True, text=True).stdout == "12502500\n", process)
        self.end(process, signal.SIGINT)
        self.served(1000, "postgres", processes=3)

    def test_node(self) -> None:
        self.needs("node")
        (self.folder / "server.js").write_text(NODE)
        self.assertEqual(self.run_it(self.command("node")).strip(), "20000")
        self.served(20000, "node")

    def test_ruby(self) -> None:
        self.needs("ruby")
        (self.folder / "server.rb").write_text(RUBY)
        self.assertEqual(self.run_it(self.command("ruby")).strip(), "50000")
        self.served(40000, "ruby", processes=2)

    def test_java(self) -> None:
        self.needs("java")
        self.run_it(self.command("java", **{"-jar server.jar": "-version"}))
        self.served(1000, "java")

    def test_the_exporter_reads_the_files_of_all_processes(self) -> None:
        self.needs("prometheus-node-exporter")
        script = "/bin/ls / >/dev/null; /bin/ls / >/dev/null; exit 0"
        preload = self.command("node").split()[0].split("=", 1)[1]
        subprocess.run(["sh", "-c", script], env=self.env | {"LD_PRELOAD": preload, "HAKMEM_REPORT": f"{self.reports}/%p.prom"}, check=True)
        holder = socket.socket()  # stays bound until the end, so that nobody else gets the port
        self.addCleanup(holder.close)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        process = self.start(f"{self.command('exporter')} --web.listen-address={address}")
        text = self.wait_for("metrics", lambda: self.metrics(address), process)
        lines = text.splitlines()
        self.assertIn("node_textfile_scrape_error 0", lines)
        served = [line for line in lines if line.startswith("hakmem_mallocs_total{")]
        self.assertEqual(sorted(line.split('"')[1] for line in served), ["ls", "ls", "sh"])
        self.end(process)

    @staticmethod
    def metrics(address: str) -> str:
        try:
            return urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main(verbosity=2)
