"""Runs chdb, and prints name=value for each row of each answer. Its library has its own operators, and is opened with RTLD_DEEPBIND."""

import sys
from concurrent.futures import ThreadPoolExecutor

import chdb
from chdb import session

QUERIES = {
    "groups": "select number % 97 as k, count(), sum(number), avg(number), uniqExact(number % 1000), max(hex(MD5(toString(number)))) from numbers(400000) group by k order by k",
    "arrays": "select number as n, arrayMap(x -> x * n, range(n % 20)) as a, arraySum(a), arrayStringConcat(arrayMap(x -> toString(x), a), '-') from numbers(300)",
    "texts": "select number, lower(hex(SHA256(toString(number)))), replaceRegexpAll(hex(MD5(toString(number))), '[0-9]+', '-') from numbers(300)",
    "join": "select a.number, b.s from numbers(2000) a join (select number * 7 as n, hex(MD5(toString(number))) as s from numbers(2000)) b on a.number = b.n order by 1",
    "windows": "select number, sum(number) over (partition by number % 7 order by number), lagInFrame(toString(number)) over (order by number) from numbers(300) order by 1",
    "json": "select JSONExtractInt(concat('{\"a\":', toString(number), '}'), 'a') as a, toTypeName(a) from numbers(200)",
}
WRONG = ("select nonsense(", "select 1 from nowhere", "select toInt8('x')", "select throwIf(number = 7) from numbers(10)")


def show(name, text):
    for number, row in enumerate(text.splitlines()):
        print(f"{name} {number}={row}")


def queries():
    for name, query in QUERIES.items():
        show(name, str(chdb.query(query, "CSV")))


def errors():
    for number in range(100):
        try:
            chdb.query(WRONG[number % len(WRONG)], "CSV")
            print(f"error {number}=none")
        except Exception as error:  # noqa: BLE001
            print(f"error {number}={type(error).__name__} {'Code: ' in str(error)}")


def tables():
    with session.Session() as held:
        held.query("create table t (k Int32, s String) engine = MergeTree order by k")
        for part in range(10):
            held.query(f"insert into t select number * 10 + {part}, hex(MD5(toString(number))) from numbers(3000)")
        show("table", str(held.query("select k % 50 as g, count(), max(s), groupArraySample(3, 7)(k) from t group by g order by g", "CSV")))
        show("frame", chdb.query("select number as a, toString(number) as b from numbers(300)", "DataFrame").to_string())


def threads():
    with ThreadPoolExecutor(4) as pool:
        for number, text in enumerate(pool.map(lambda n: str(chdb.query(f"select {n}, sum(cityHash64(number, {n})) from numbers(20000)", "CSV")), range(60))):
            show(f"thread {number}", text)


{"queries": queries, "errors": errors, "tables": tables, "threads": threads}[sys.argv[1]]()
