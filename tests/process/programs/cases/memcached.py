"""memcached: its own tests, and four clients at once that check every value."""

import random
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

from harness.case import Case
from harness.kit import unprivileged
from harness.outcomes import tap
from harness.serving import HERE, answers, free_port
from harness.side import digest

# They wait by the clock, need TLS or a proxy that Debian's build does not have, or need the memory of a 64 GB machine.
LEFT_OUT = ("00-", "64bit", "binary-extstore", "bogus", "chunked", "daemonize", "error-extstore", "evict", "extstore", "idle", "item_size_max", "lru-", "malicious", "maxconns", "proxy",
            "restart", "rto", "shutdown", "slabs", "slow", "ssl", "stress", "unixsocket", "watcher", "whitespace", "refhang",
            "misbehave", "issue_260", "log", "sasl", "dash-M", "lru", "inline_ascii")
CLIENTS, KEYS, ROUNDS = 4, 400, 6


class Memcached(Case):
    """memcached: its own tests, and four clients at once that check every value."""

    name = "memcached"
    medium = 23
    least = 3000
    packages = {"gcc": "gcc", "make": "make", "prove": "perl", "/usr/include/event2/event.h": "libevent-dev"}

    def prepare(self, kit):
        def build(tree):
            kit.call(["./configure", "--disable-docs", "--disable-dependency-tracking", "CFLAGS=-O1 -w"], cwd=tree)
            kit.call(["make", "-j2", "memcached", "memcached-debug", "sizes", "testapp", "timedrun"], cwd=tree, timeout=900)

        self.tree = kit.built("memcached", "memcached", build)
        self.user = unprivileged("nobody")

    def groups(self, quick):
        own = sorted(p.name for p in (self.tree / "t").glob("*.t") if not p.name.startswith(LEFT_OUT))
        return ["values", *(own if self.size == "full" else own[::5])]

    def start(self, side):
        side.tree = side.copy(self.tree, "memcached")

    def run(self, side, group):
        if group == "values":
            return self.values(side)
        done = side.run(["perl", "-I", "t/lib", f"t/{group}"], cwd=side.tree, timeout=180, user=self.user)
        return {**tap(done.out), "end": done.outcome}

    def values(self, side):
        port = free_port()
        server = side.popen([side.tree / "memcached", "-l", HERE, "-p", port, "-U", "0", "-t", "4", "-m", "512", "-I", "4m"],
                            user=self.user)
        found = {"up": "ok" if answers(port, server) else "fail"}
        try:
            with ThreadPoolExecutor(CLIENTS) as pool:
                for part in pool.map(lambda number: Client(port, number).checks(), range(CLIENTS)):
                    found.update(part)
        finally:
            found["end"] = side.end(server, 20, ask=signal.SIGTERM).outcome
        return found


class Client:
    """Sets, appends, deletes and increments keys of its own, and reads each back."""

    def __init__(self, port, number):
        self.number, self.chance = number, random.Random(number)
        self.wire = socket.create_connection((HERE, port), timeout=60)
        self.file = self.wire.makefile("rb")

    def say(self, words, body=None):
        self.wire.sendall(words.encode() + b"\r\n" + (body + b"\r\n" if body is not None else b""))

    def told(self, words, body=None):
        self.say(words, body)
        return self.file.readline().decode().strip()

    def value(self, key):
        self.say(f"get {key}")
        head = self.file.readline().split()
        if head[:1] != [b"VALUE"]:
            return None
        body = self.file.read(int(head[3]) + 2)[:-2]
        self.file.readline()
        return body

    def checks(self):
        kept, found = {}, {}
        for turn in range(ROUNDS):
            for place in range(KEYS):
                key = f"client{self.number}-{self.chance.randrange(KEYS)}"
                said = self.change(key, kept)
                right = self.value(key) == kept.get(key)
                found[f"{self.number}: round {turn}, {place}"] = f"{said}, value {'ok' if right else 'wrong'}"
        whole = [kept[key] == self.value(key) for key in sorted(kept)]
        found[f"{self.number}: all at the end"] = f"{sum(whole)} of {len(whole)} {digest(b''.join(kept[k] for k in sorted(kept)))}"
        return found

    def change(self, key, kept):
        what = self.chance.randrange(10)
        size = self.chance.choice((10, 90, 500, 3000, 20000, 200000, 1500000) if what == 0 else (10, 90, 500, 3000))
        body = self.chance.randbytes(size)
        if what < 5:
            kept[key] = body
            return self.told(f"set {key} 0 0 {size}", body)
        if what == 5:
            kept.pop(key, None)
            return self.told(f"delete {key}")
        if what < 8:
            verb = "append" if what == 6 else "prepend"
            if key in kept:
                kept[key] = kept[key] + body if what == 6 else body + kept[key]
            return self.told(f"{verb} {key} 0 0 {size}", body)
        kept[key] = b"41"
        self.told(f"set {key} 0 0 2", b"41")
        kept[key] = b"42"
        return self.told(f"incr {key} 1")
