"""DuckDB, Polars and chdb: queries over tables of a fixed seed with threads; each row of an answer is a check."""

import re

from harness.case import WORKLOADS, Case

WHEELS = ("duckdb==2.0.0", "polars==2.1.0", "numpy==2.4.6", "pyarrow==26.0.1", "pandas==3.1.1")
VALUE = re.compile(r"^(\S[^=]*)=(.*)$", re.MULTILINE)


class Tables(Case):
    """Runs a script of workloads/ in one process for each of its parts."""

    medium = 0
    script = ""
    parts = ()
    wheels = ("tables", WHEELS)

    def prepare(self, kit):
        self.python = kit.venv(*self.wheels)

    def groups(self, quick):
        return list(self.parts)

    def run(self, side, group):
        done = side.run([self.python, WORKLOADS / self.script, group], cwd=side.fresh("work"), timeout=300,
                        env={"PYTHONDONTWRITEBYTECODE": "1", "POLARS_MAX_THREADS": "2", "PYTHONHASHSEED": "0"})
        return {"end": done.outcome, **dict(VALUE.findall(side.clean(done.out)))}


class DuckDB(Tables):
    """DuckDB: joins, windows, aggregates, lists, JSON and Parquet on two threads, and four connections at once."""

    name = "duckdb"
    least = 2000
    script, parts = "duck.py", ("queries", "files", "transactions", "connections")


class Polars(Tables):
    """Polars: groups, joins, windows, strings, lists, lazy and streaming queries and files on two threads."""

    name = "polars"
    least = 2000
    script, parts = "bears.py", ("groups", "joins", "windows", "strings", "files", "lazy")


class Chdb(Tables):
    """chdb: ClickHouse inside Python, whose library has operators of its own and is opened with RTLD_DEEPBIND: queries, errors, tables, threads."""

    name = "chdb"
    least = 900
    script, parts = "chouse.py", ("queries", "errors", "tables", "threads")
    wheels = ("chdb", ("chdb==4.4.0", "chdb-core==26.9.0", "pandas==3.1.1", "pyarrow==26.0.1", "numpy==2.4.6"))
