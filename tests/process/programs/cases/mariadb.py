"""MariaDB: its own tests, sysbench with checked tables, a dump that is loaded and dumped again."""

import re
import signal
from pathlib import Path

from harness.case import Case
from harness.kit import unprivileged
from harness.outcomes import numbered
from harness.serving import OwnNumber
from harness.side import digest

SUITE = Path("/usr/share/mysql/mysql-test")
# Tests of suite main that test queries rather than the server's start, its files or its clock.
QUERIES = """
    alias ansi auto_increment bigint binary bool brackets bulk_replace case cast compare compress count_distinct create_select
    cte_nonrecursive cte_recursive ctype_latin1 ctype_utf8mb4 date_formats default delete derived derived_view distinct
    empty_table except explain fulltext fulltext_order_by func_compress func_concat func_crypt func_date_add func_default
    func_des_encrypt func_equal func_group func_gconcat func_if func_in func_json func_like func_math func_op func_regexp
    func_set func_str func_time group_by group_min_max having heap heap_btree heap_hash implicit_commit in_subquery
    insert insert_select intersect join join_nested join_outer key limit loaddata lowercase_view merge metadata multi_update
    negation_elimination null null_key odbc order_by parser partition partition_list partition_range ps ps_ddl ps_1general
    range replace select select_safe sp sp-code sp-error sp-prelocking sp_trans stored_function strict subselect subselect2
    subselect4 table_elim temp_table timezone trigger trigger-trans truncate type_blob type_date type_datetime
    type_decimal type_enum type_float type_newdecimal type_ranges type_set type_time type_timestamp type_uint type_varchar
    type_year union update userstat varbinary view view_grant win win_big win_first_last_value win_lead_lag win_sum xml
""".split()
CHUNK = 45  # number of tests with one start of the server
LINE = re.compile(r"^(main\.\S+(?: '[^']*')?)\s+(?:w\d+ )?\[ (pass|fail|skipped|disabled) \]", re.MULTILINE)
WORDS = {"pass": "ok", "fail": "fail", "skipped": "skip", "disabled": "skip"}
ROWS = 20000
PARTS = "select id div 100, count(*), sum(crc32(c)), sum(crc32(pad)), sum(k) from sbtest{} group by 1 order by 1"
# sysbench's own rows are random, whatever the seed is.
FILL = ("insert into sbtest{0} (id, k, c, pad) select seq, crc32(seq) mod 5000, concat_ws('-', md5(seq), md5(seq + {0}), md5(seq * 7)),"
        " sha1(seq) from seq_1_to_" + str(ROWS))
CHANGES = (
    "update sbtest1 a join sbtest2 b on a.id = b.k set a.c = concat(left(b.c, 60), right(a.c, 30)), a.k = a.k + 1",
    "update sbtest2 set pad = reverse(pad), k = k + length(replace(c, 'a', '')) where id mod 3 = 1",
    "delete from sbtest1 where id mod 17 = 5; insert into sbtest1 (id, k, c, pad) select id + 30000, k, pad, left(c, 50)"
    " from sbtest2 where id mod 13 = 2",
    "update sbtest1 join (select id, rank() over (partition by k mod 100 order by c, id) r from sbtest1) x using (id) set k = r",
)


class MariaDB(Case):
    """MariaDB: its own tests, sysbench with checked tables, a dump that is loaded and dumped again."""

    name = "mariadb"
    medium = 0
    least = 500
    packages = {"mariadbd": "mariadb-server-core", "mariadb-dump": "mariadb-client", "sysbench": "sysbench",
                str(SUITE / "mysql-test-run.pl"): "mariadb-test"}

    def prepare(self, kit):
        self.user = unprivileged("mysql", "nobody")
        self.tests = [t for t in QUERIES if (SUITE / "main" / f"{t}.test").exists()]

    def groups(self, quick):
        return ["sysbench and dump", *(f"main {n}" for n in range(0, len(self.tests), CHUNK))]

    def start(self, side):
        side.own = OwnNumber("ten-ports", 16)

    def stop(self, side):
        side.own.give_back()

    def run(self, side, group):
        work = side.fresh("work")
        work.chmod(0o777)
        if group == "sysbench and dump":
            return self.served(side, work)
        chunk = self.tests[int(group.split()[1]):][:CHUNK]
        done = side.run([SUITE / "mysql-test-run.pl", f"--vardir={work / 'var'}", f"--tmpdir={work / 'tmp'}", "--force", "--retry=0",
                         "--nocheck-testcases", "--noreorder", "--max-test-fail=0", *(f"main.{t}" for t in chunk)],
                        cwd=SUITE, env={"MTR_BUILD_THREAD": 330 + side.own.number}, user=self.user, timeout=900)
        return {**numbered((name, WORDS[word]) for name, word in LINE.findall(done.out)), "end": done.outcome}

    def served(self, side, work):
        side.socket = work / "s"
        made = side.run(["mariadb-install-db", "--no-defaults", f"--datadir={work / 'data'}", "--auth-root-authentication-method=normal",
                         "--skip-test-db"], user=self.user, timeout=300)
        server = side.popen(["mariadbd", "--no-defaults", f"--datadir={work / 'data'}", f"--socket={side.socket}", "--skip-networking",
                             f"--pid-file={work / 'pid'}", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"],
                            user=self.user)
        try:
            ping = side.run(["mariadb-admin", "--no-defaults", f"--socket={side.socket}", "--wait=60", "ping"], user=self.user)
            return {"installed": made.outcome, "up": ping.outcome, **self.load(side), **self.dumped(side)}
        finally:
            done = side.end(server, 60, ask=signal.SIGTERM)
            side.log(["the server"], done)

    def sql(self, side, words, database="bench"):
        return side.run(["mariadb", "--no-defaults", f"--socket={side.socket}", "-u", "root", "-N", "-B", database], user=self.user, timeout=240,
                        stdin=words)

    @staticmethod
    def bench(side, script, step, *more):
        return side.run(["sysbench", script, "--db-driver=mysql", f"--mysql-socket={side.socket}", "--mysql-user=root", "--mysql-db=bench",
                         "--tables=2", f"--table-size={ROWS}", "--time=0", *more, step], timeout=400)

    def rows(self, side, word):
        """Returns the sums of a hundred rows each."""
        found = {}
        for table in (1, 2):
            for line in self.sql(side, PARTS.format(table)).out.splitlines():
                part, *sums = line.split("\t")
                found[f"{word}: table {table}, part {part}"] = ",".join(sums)
        return found

    def load(self, side):
        found = {"database": self.sql(side, "create database bench", "mysql").outcome}
        found["tables"] = self.bench(side, "oltp_read_write", "prepare", "--table-size=0").outcome
        found["filled"] = self.sql(side, ";".join(FILL.format(table) for table in (1, 2))).outcome
        found.update(self.rows(side, "filled"))
        for number, change in enumerate(CHANGES, 1):
            found[f"change {number}"] = self.sql(side, change).outcome
            found.update(self.rows(side, f"change {number}"))
        for script, events in (("oltp_read_only", 1500), ("oltp_read_write", 1500), ("oltp_write_only", 2000)):
            done = self.bench(side, script, "run", "--threads=8", f"--events={events}")
            made = re.search(r"transactions:\s+(\d+)", done.out)
            found[f"{script}, 8 threads"] = f"{done.outcome}, {made[1] if made else 'no'} transactions"
        checked = self.sql(side, "check table sbtest1 extended, sbtest2 extended")
        return {**found, "tables after 8 threads": checked.out.strip().replace("\n", ", ")}

    def dumped(self, side):
        """Dumps the database, loads the dump into a new one, and dumps that. The two dumps must be equal. The dumps of the two sides differ, because
        8 threads leave different data each time."""
        dump = ["mariadb-dump", "--no-defaults", f"--socket={side.socket}", "-u", "root", "--skip-comments", "--skip-dump-date"]
        first = side.run([*dump, "bench"], user=self.user, timeout=240)
        loaded = self.sql(side, "create database again;\nuse again;\n" + first.out)
        second = side.run([*dump, "again"], user=self.user, timeout=240)
        return {"dump": first.outcome, "load": loaded.outcome,
                "dumped again": "same" if digest(first.out) == digest(second.out) else "fail"}
