"""Tests `hakmem serve`: what it answers, whom it refuses, and that sampling ends with it."""

import gzip
import http.client
import signal
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from worker import tool
from hakmem import attached
from hakmem.process import Process

PROGRAM = """
import itertools, json
print("ready", flush=True)
kept = [None] * 20000
for turn in itertools.count():
    kept[turn % len(kept)] = json.dumps([str(number) for number in range(300)])
"""
PROFILE = "/debug/pprof/heap?seconds=1&sample=64k"


class Serve(tool.ToolTest):
    def program(self) -> subprocess.Popen:
        program = self.start(tool.PYTHON, "-c", PROGRAM, LD_PRELOAD=tool.LIBRARY, PYTHONMALLOC="malloc")
        self.assertEqual(program.stdout.readline(), "ready\n")
        return program

    def serve(self, *words: str) -> tuple:
        server = self.start(*tool.TOOL, "serve", "--port", "0", *words)
        url = server.stdout.readline().split()[1]
        return server, int(url.rstrip("/").rpartition(":")[2])

    def get(self, port: int, path: str, **headers: str) -> tuple:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=tool.WAIT_S)
        link.request("GET", path, headers=headers)
        answer = link.getresponse()
        body = answer.read()
        link.close()
        return answer.status, body

    def end_of(self, server: subprocess.Popen, number: int) -> None:
        server.send_signal(number)
        self.assertEqual(server.wait(tool.WAIT_S), 0)

    def test_profiles_of_all_processes(self) -> None:
        program = self.program()
        server, port = self.serve()
        status, index = self.get(port, "/")
        self.assertEqual((status, f'href="/{program.pid}/flame"' in index.decode()), (200, True))
        status, profile = 503, b""
        while status == 503:  # A process that is not scheduled in this second calls no malloc.
            status, profile = self.get(port, f"/{program.pid}{PROFILE}")
        self.assertEqual(status, 200, profile)
        strings = gzip.decompress(profile)
        self.assertIn(b"inuse_space", strings)
        self.assertRegex(strings, rb"_?Py[A-Z]\w+")
        status, page = self.get(port, f"/{program.pid}/flame")
        self.assertEqual((status, "<h1>Heap of process" in page.decode()), (200, True))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: self.get(port, f"/{program.pid}{PROFILE}")[0], range(4)))
        self.assertEqual(found, [200] * 4)
        folder = Path(f"/proc/{server.pid}/fd")
        before = len(list(folder.iterdir()))
        for _ in range(20):
            self.get(port, f"/{program.pid}/debug/pprof/heap?seconds=0")
        self.assertLess(len(list(folder.iterdir())), before + 10)
        self.end_of(server, signal.SIGINT)
        self.assertIsNone(program.poll())
        watched = attached.Attached(program.pid)
        self.wait_for(lambda: watched.state == attached.ENDED, "the end of sampling")

    def test_one_process(self) -> None:
        program, other = self.program(), self.program()
        watched = attached.Attached(program.pid)
        watched.begin(1 << 16)
        self.wait_for(lambda: watched.state == attached.ON, "sampling")
        server, port = self.serve(str(program.pid))
        self.assertEqual(self.get(port, PROFILE)[0], 200)
        self.assertEqual(self.get(port, f"/{other.pid}{PROFILE}")[0], 404)
        self.assertNotIn(f"/{other.pid}/", self.get(port, "/")[1].decode())
        self.end_of(server, signal.SIGTERM)
        self.assertEqual(watched.state, attached.ON)  # It was on before.

    def test_refusals(self) -> None:
        program = self.program()
        _, port = self.serve()
        asleep = self.start(tool.PYTHON, "-c", "print('ready', flush=True); input()", LD_PRELOAD=tool.LIBRARY)
        self.assertEqual(asleep.stdout.readline(), "ready\n")
        self.wait_for(lambda: Process(asleep.pid).stat_fields()[0] == "S", "sleep")
        expected = {
            "/nothing": (404, "there is only"),
            f"/{'1' * 5000}{PROFILE}": (404, "there is only"),
            PROFILE: (404, "there is only"),
            f"/1{PROFILE}": (404, "process 1"),
            f"/999999999{PROFILE}": (404, "no process 999999999"),
            f"/{program.pid}/debug/pprof/heap?seconds=-1": (400, "seconds=-1"),
            f"/{program.pid}/debug/pprof/heap?seconds=nan": (400, "seconds=nan"),
            f"/{program.pid}/debug/pprof/heap?sample=much": (400, "sample=much"),
            f"/{asleep.pid}/debug/pprof/heap?seconds=0": (503, "called no malloc"),
        }
        for path, (status, words) in expected.items():
            with self.subTest(path):
                found, body = self.get(port, path)
                self.assertEqual(found, status)
                self.assertIn(words, body.decode())
        self.assertEqual(self.get(port, "/", Host="example.org")[0], 403)
        self.assertEqual(self.get(port, "/", Host="[")[0], 400)
        self.assertEqual(self.get(port, "/", **{"Sec-Fetch-Site": "cross-site"})[0], 403)
        self.assertEqual(self.get(port, "/", Host=f"localhost:{port}")[0], 200)

    def test_wrong_uses(self) -> None:
        _, port = self.serve()
        for words, code, said in (
            (("--port", str(port)), 64, "in use"),
            (("--host", "192.0.2.1"), 64, "192.0.2.1"),
            (("1",), 1, "process 1"),
        ):
            done = self.tool("serve", *words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
