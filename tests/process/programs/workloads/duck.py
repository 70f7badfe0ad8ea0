"""Runs DuckDB, and prints name=value for each row of each answer. Every value depends only on the numbers."""

import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb

TABLES = """
create table facts as select i, hash(i) % 1000 as k, hash(i * 7) % 100000 as v, md5(i::varchar) as s, date '2001-01-01' + (i % 3000)::int as d,
  [i % 7, hash(i) % 11, i] as l, {'a': i % 13, 'b': md5((i % 997)::varchar)} as r from range(400000) t(i);
create table names as select i as k, 'name ' || md5((i * 3)::varchar) as name, i % 37 as team from range(1000) t(i);
"""
QUERIES = {
    "groups": "select k % 200 g, count(*), sum(v), min(s), max(s), approx_count_distinct(s) > 0, count(distinct v) from facts group by 1 order by 1",
    "join": "select team, count(*), sum(v), min(name), max(s) from facts join names using (k) group by team order by team",
    "wide join": "select a.i, a.s, b.s from facts a join facts b on a.i * 7 = b.i and a.k < 90 order by a.i limit 300",
    "windows": "select i, sum(v) over w, rank() over w, lag(s, 3) over w from facts where k < 8 window w as (partition by k order by v, i) order by i limit 300",
    "lists": "select k, list_sum(list(l[2])), array_length(list(s)), md5(string_agg(s, ',' order by i)) from facts where k < 250 group by k order by k",
    "structs": "select r.a, count(*), max(r.b), md5(list_sort(list(distinct r.b))::varchar) from facts group by 1 order by 1",
    "text": "select k, count(*) filter (s like '%ab%'), sum(length(regexp_replace(s, '[0-9]+', '-', 'g'))), max(upper(s)) from facts where k < 150 group by k order by k",
    "dates": "select date_trunc('month', d) m, count(*), sum(v), median(v) from facts group by 1 order by 1",
    "sort": "select s, v from facts order by s desc limit 200 offset 100000",
    "recursive": "with recursive f(n, a, b) as (select 1, 0::hugeint, 1::hugeint union all select n + 1, b, a + b from f where n < 120) select * from f order by n",
    "pivot": "pivot (select k % 40 k, team, v from facts join names using (k)) on team % 5 using sum(v) group by k order by k",
    "quantiles": "select k % 50 g, quantile_cont(v, [0.1, 0.5, 0.9]), mode(v % 10) is not null from facts group by 1 order by 1",
    "semi": "select team, count(*) from names where k in (select k from facts where v % 997 = 1) group by team order by team",
}


def show(name, rows):
    for number, row in enumerate(rows):
        print(f"{name} {number}={row}")


def queries(base):
    base.execute(TABLES)
    for name, query in QUERIES.items():
        show(name, base.execute(query).fetchall())
    base.execute("set memory_limit = '80MB'; set preserve_insertion_order = false; set temp_directory = 'spill'")
    show("spilled", base.execute("select s, sum(v) from facts group by s order by s limit 150").fetchall())


def files(base):
    base.execute(TABLES)
    for kind in ("parquet", "csv", "json"):
        base.execute(f"copy (select i, k, v, s, d from facts where i < 100000) to 'facts.{kind}'")
        show(kind, base.execute(f"select k % 100 g, count(*), sum(v), min(s), max(d) from 'facts.{kind}' group by 1 order by 1").fetchall())
    base.execute("export database 'dump' (format parquet)")
    other = duckdb.connect("again.duckdb", config={"threads": 2})
    other.execute("import database 'dump'")
    other.execute("checkpoint")
    show("imported", other.execute(QUERIES["join"]).fetchall())
    frame = base.execute("select * from facts order by i limit 20000").df()
    show("frame", base.execute("select k % 100, sum(v), max(s) from frame group by 1 order by 1").fetchall())
    arrow = base.execute("select i, s, l, r from facts order by i limit 20000").to_arrow_table()
    show("arrow", base.execute("select i % 100, max(s), sum(l[1]), max(r.b) from arrow group by 1 order by 1").fetchall())


def transactions(base):
    base.execute("create table t (i integer primary key, s varchar, v bigint)")
    for round_ in range(60):
        base.begin()
        base.execute(f"insert into t select i * 61 + {round_}, md5((i * {round_})::varchar), i from range(500) x(i)")
        if round_ % 5 == 4:
            base.rollback()
        else:
            base.execute(f"update t set v = v + {round_}, s = s || '{round_}' where i % 7 = {round_ % 7}")
            base.execute(f"delete from t where i % 101 = {round_}")
            base.commit()
        show(f"round {round_}", base.execute("select count(*), sum(v), min(s), max(s), sum(length(s)) from t").fetchall())


def connections(base):
    base.execute(TABLES)

    def ask(number):
        cursor = base.cursor()
        return [(name, cursor.execute(query).fetchall()) for name, query in list(QUERIES.items())[number % 3::3]]

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(ask, range(12))):
            for name, rows in found:
                print(f"connection {number}, {name}={hash(tuple(map(str, rows)))}")


{"queries": queries, "files": files, "transactions": transactions, "connections": connections}[sys.argv[1]](
    duckdb.connect(config={"threads": 2}))
