"""PostgreSQL: its regression SQL against a fresh server, and pgbench with checked sums."""

import os
import re
import signal
import time
from pathlib import Path

from harness.case import Case, Skip
from harness.kit import unprivileged
from harness.side import digest

SCRIPTS = """
    boolean char varchar text int2 int4 int8 float4 float8 bit numeric uuid strings numerology date time timetz timestamp
    interval inet regex comments expressions unicode create_table insert insert_conflict select_into select_distinct
    select_implicit select_having union case subselect arrays json jsonb json_encoding jsonpath plpgsql with window
    rangefuncs rangetypes triggers rowtypes returning limit domain sequence polymorphism tsearch xml
""".split()
BALANCE = ("select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)"
           " and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)")


class Postgres(Case):
    """PostgreSQL: its regression SQL against a fresh server, and pgbench with checked sums."""

    name = "postgres"
    medium = 20
    serial = True
    least = 50
    packages = {"/usr/lib/postgresql/*/bin/initdb": "postgresql"}

    def prepare(self, kit):
        self.bin = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.user = unprivileged("postgres", "nobody")
        self.sql = kit.source(f"postgresql-{self.bin.parent.name}") / "src/test/regress"
        if not (self.sql / "sql").is_dir():
            raise Skip("the source has no regression tests")

    def groups(self, quick):
        return ["pgbench", *(s for s in SCRIPTS if (self.sql / "sql" / f"{s}.sql").exists())]

    def start(self, side):
        side.server, side.data = None, side.folder("data")
        side.socket = side.folder("s")
        side.sql = side.copy(self.sql, "regress")  # the server's account may have no access to the cache
        for path in (side.data, side.socket, side.home):
            if self.user:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        made = side.run([self.bin / "initdb", "-D", side.data, "-A", "trust", "-U", "tester", "--no-sync"], user=self.user)
        if made.outcome != "exit 0":
            raise RuntimeError(f"initdb: {made.outcome} {made.err[-300:]}")
        side.server = side.popen([self.bin / "postgres", "-D", side.data, "-k", side.socket, "-c", "listen_addresses=",
                                  "-c", "fsync=off", "-c", "shared_buffers=32MB"], user=self.user)
        for _ in range(150):
            if self.psql(side, "-c", "select 1").outcome == "exit 0":
                break
            time.sleep(0.2)
        self.psql(side, "-f", side.sql / "sql" / "test_setup.sql")

    def psql(self, side, *words):
        return side.run([self.bin / "psql", "-X", "-a", "-q", "-h", side.socket, "-U", "tester", "-d", "postgres", *words],
                        user=self.user, timeout=150, env={"PG_ABS_SRCDIR": side.sql, "PG_LIBDIR": side.sql, "PG_DLSUFFIX": ".so",
                                                          "PGTZ": "PST8PDT", "PGDATESTYLE": "Postgres, MDY"})

    def run(self, side, group):
        if group == "pgbench":
            return self.bench(side)
        done = self.psql(side, "-f", side.sql / "sql" / f"{group}.sql")
        text = re.sub(r"(?m)^psql:\S+?: |\(OID \d+\)|\boid \d+", "@", side.clean(done.out + done.err))
        return {"end": done.outcome, "what was printed": digest(text)}

    def bench(self, side):
        common = ["-h", side.socket, "-U", "tester"]
        made = side.run([self.bin / "pgbench", *common, "-i", "-q", "-s", "1", "postgres"], user=self.user)
        load = side.run([self.bin / "pgbench", *common, "-c", "4", "-j", "2", "-t", "400", "--random-seed=7", "postgres"],
                        user=self.user, timeout=240)
        done = re.search(r"number of transactions actually processed: (\S+)", load.out)
        sums = self.psql(side, "-A", "-t", "-c", BALANCE)
        return {"filled": made.outcome, "load": load.outcome, "transactions": done[1] if done else "fail",
                "sums agree": "ok" if sums.out.strip().endswith("t") else "fail"}

    def stop(self, side):
        if side.server is not None:
            side.end(side.server, 30, ask=signal.SIGINT)
