"""Redis built with MALLOC=libc: its own unit tests, and a load with BGSAVE and a digest of all data."""

import re
import signal
import time

from harness.case import Case
from harness.outcomes import lines
from harness.serving import OwnNumber, free_port

UNITS = ("unit/type/string", "unit/type/hash", "unit/type/incr", "unit/sort", "unit/scan", "unit/bitfield", "unit/multi",
         "unit/keyspace", "unit/pubsub", "unit/functions")
PORTS = 4000  # number of ports of each side, because both sides run at once
WORDS = {"ok": "ok", "err": "fail", "exception": "error", "skip": "skip", "ignore": "skip"}
LINE = r"^\[(?P<outcome>ok|err|exception|skip|ignore)\]: (?P<name>.*?)(?: \(\d+ ms\))?(?: in tests/\S+)?$"
DATA = """for i = 1, 60000 do
  redis.call('set', 'string:' .. i, string.rep(string.char(97 + i % 26), i % 700))
  redis.call('hset', 'hash:' .. i % 500, 'field' .. i, i * i)
  redis.call('zadd', 'sorted:' .. i % 50, i % 977, 'member' .. i)
  redis.call('rpush', 'list:' .. i % 100, 'value' .. i)
  if i % 3 == 0 then redis.call('append', 'string:' .. i / 3, 'more of it') end
  if i % 5 == 0 then redis.call('del', 'string:' .. i) end
end
return redis.status_reply('filled')"""


class Redis(Case):
    """Redis built with MALLOC=libc: its own unit tests, and a load with BGSAVE and a digest of all data."""

    name = "redis"
    medium = 55
    least = 200
    packages = {"tclsh8.6": "tcl8.6", "gcc": "gcc", "make": "make"}

    def prepare(self, kit):
        self.tree = kit.built("redis", "redis",
                              lambda tree: kit.call(["make", "-j2", "MALLOC=libc", "OPTIMIZATION=-O1"], cwd=tree, timeout=1500))

    def groups(self, quick):
        return ["benchmark, BGSAVE and digest", *UNITS]

    def start(self, side):
        side.own = OwnNumber("ports", 4)
        side.tree = side.folder("redis")
        for part in ("src", "tests", "runtest", "redis.conf", "sentinel.conf", "utils"):
            if part != "src":
                side.copy(self.tree / part, f"redis/{part}")
        programs = side.tree / "src"
        programs.mkdir()
        for program in (self.tree / "src").glob("redis-*"):
            if not program.suffix:
                side.copy(program, f"redis/src/{program.name}")

    def stop(self, side):
        side.own.give_back()

    def run(self, side, group):
        if group in UNITS:
            base = 15000 + PORTS * side.own.number
            done = side.run(["tclsh8.6", "tests/test_helper.tcl", "--single", group, "--clients", "1", "--baseport", base,
                             "--portcount", PORTS, "--tags", "-slow", "--durable"], cwd=side.tree, timeout=300)
            return {**lines(LINE, re.sub(r"\x1b\[[\d;]*m", "", side.clean(done.out)), WORDS), "end": done.outcome}
        return self.load(side)

    def ask(self, side, port, *words, timeout=120):
        return side.run([side.tree / "src" / "redis-cli", "-p", port, *words], preload=False, timeout=timeout).out.strip()

    def load(self, side):
        port, work = free_port(), side.fresh("work")
        server = side.popen([side.tree / "src" / "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", work,
                             "--save", "", "--io-threads", "2", "--enable-debug-command", "yes"])
        try:
            return self.checks(side, port)
        finally:
            if server.poll() is None:
                self.ask(side, port, "shutdown", "nosave", timeout=20)
            side.end(server, 20, ask=signal.SIGTERM)

    def checks(self, side, port):
        found = {"up": "ok" if self.until(side, port, "ping", "PONG") else "fail"}
        found["allocator"] = re.search(r"mem_allocator:(\S+)", self.ask(side, port, "info", "memory"))[1]
        found["fill"] = self.ask(side, port, "eval", DATA, "0")
        found["background save"] = self.ask(side, port, "bgsave")
        load = side.run([side.tree / "src" / "redis-benchmark", "-p", port, "-n", "30000", "-r", "1000", "-c", "20", "-P", "4",
                         "-q", "-t", "get,incr,lpush,sadd,spop,ping"], timeout=240)
        found["benchmark"] = load.outcome
        found["saved"] = "ok" if self.until(side, port, ("info", "persistence"), "rdb_bgsave_in_progress:0") else "fail"
        found["save"] = re.search(r"rdb_last_bgsave_status:(\S+)", self.ask(side, port, "info", "persistence"))[1]
        for key in ("mylist", "myset", "counter:__rand_int__"):
            self.ask(side, port, "del", key)
        self.ask(side, port, "eval", "for _, k in ipairs(redis.call('keys', 'counter:*')) do redis.call('del', k) end", "0")
        before = self.ask(side, port, "debug", "digest")
        found["size"] = self.ask(side, port, "dbsize")
        found["digest"] = before
        found["reload"] = self.ask(side, port, "debug", "reload")
        found["digest after reload"] = "same" if self.ask(side, port, "debug", "digest") == before else "fail"
        return found

    def until(self, side, port, question, answer):
        """Repeats the question until the expected answer comes, within a time limit."""
        for _ in range(150):
            if answer in self.ask(side, port, *([question] if isinstance(question, str) else question)):
                return True
            time.sleep(0.2)
        return False
