"""The servers of the rows P25, as data only. serve.py runs them.

In commands, {n} is the number of requests of one part, {port} the server's port on 127.0.0.1, {folder} its folder, {here} the folder of inputs, and
{log} the log of the load generator. If a path has wildcards, the newest is taken.
"""
import signal
from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    start: str
    ready: str  # succeeds as soon as the server serves
    loads: tuple[str, ...]
    n: int  # requests of a run
    parts: int = 1  # into which the requests are divided: connections or tests, each of which makes {n}
    prepare: str = ""  # before the server starts, with its account
    fill: tuple[str, ...] = ()  # while the server runs
    env: tuple[tuple[str, str], ...] = ()
    stop: signal.Signals = signal.SIGTERM
    unprivileged: bool = False  # refuses to run as root
    closes: bool = False  # a connection has a process of its own, which ends with the load
    own_malloc: bool = False  # is linked with another allocator

    @property
    def program(self) -> str:
        return self.start.split()[0]


REDIS = "/usr/bin/redis-benchmark -p {port} -n {n} -r 30000 -c 20 -P 8"
REDIS_TESTS = tuple(f"{REDIS} -d {size} -t set,get,incr,lpush,rpop,sadd,hset,zadd" for size in (20, 300, 2000))
POSTGRESQL = "/usr/lib/postgresql/*/bin"
PGBENCH = f"{POSTGRESQL}/pgbench -h 127.0.0.1 -p {{port}} -U tester"
PGBENCH_MIX = "-b simple-update@4 -b select-only@4 -f {here}/query.sql@2"
MARIADB_ADMIN = "/usr/bin/mariadb-admin --no-defaults --protocol=tcp --host=127.0.0.1 --port={port} --user=root"
SYSBENCH = ("/usr/bin/sysbench oltp_read_write --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port={port} --mysql-user=root --mysql-db=bench"
            " --tables=4 --table-size=5000 --rand-seed=1 --range-size=400 --threads=4 --events={n} --time=0 --histogram")
INPUTS = "/usr/bin/python3 {here}/inputs.py {folder} {port}"
CURL = "/usr/bin/curl -sf -o {folder}/answer http://127.0.0.1:{port}"
ONE_ORDER = f"{CURL}/orders/1 -d @{{folder}}/body.json"
H2LOAD = "/usr/bin/h2load --h1 -t 1 -c 16 -n {n} --log-file={log}"
ORDERS = f"{H2LOAD} -i {{folder}}/orders.uris -d {{folder}}/body.json -H content-type:application/json"

SERVERS = {
    "redis": Server(
        "/usr/bin/redis-server --bind 127.0.0.1 --port {port} --dir {folder} --save '' --jemalloc-bg-thread no --loglevel warning",
        ready="/usr/bin/redis-cli -p {port} ping", loads=(*REDIS_TESTS, f"{REDIS} append key:__rand_int__ some-more-text"), n=1_000_000, parts=25,
        own_malloc=True),
    "postgresql": Server(
        f"{POSTGRESQL}/postgres -D {{folder}}/data -p {{port}} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        " -c autovacuum=off -c shared_buffers=64MB -c work_mem=16MB -c max_wal_size=4GB",
        ready=f"{POSTGRESQL}/pg_isready -q -h 127.0.0.1 -p {{port}}",
        loads=(f"{PGBENCH} -n -c 4 -j 1 -t {{n}} --random-seed=7 --log --log-prefix={{log}} {PGBENCH_MIX} postgres",), n=6_000, parts=4,
        prepare=f"{POSTGRESQL}/initdb -D {{folder}}/data -A trust -U tester --no-sync", fill=(f"{PGBENCH} -i -q postgres",),
        stop=signal.SIGINT, unprivileged=True, closes=True),
    "nginx": Server(
        "/usr/sbin/nginx -p {folder} -e stderr -c {folder}/nginx.conf", ready=f"{CURL}/1.txt",
        loads=(f"{H2LOAD} -i {{folder}}/files.uris -H accept-encoding:gzip",), n=30_000, prepare=INPUTS, stop=signal.SIGQUIT),
    "mariadb": Server(
        "/usr/sbin/mariadbd --no-defaults --datadir={folder}/data --socket={folder}/data/socket --pid-file={folder}/data/pid"
        " --bind-address=127.0.0.1 --port={port} --skip-grant-tables --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M",
        ready=f"{MARIADB_ADMIN} ping", loads=(f"{SYSBENCH} run",), n=3_000,
        prepare="/usr/bin/mariadb-install-db --no-defaults --datadir={folder}/data --skip-test-db",
        fill=(f"{MARIADB_ADMIN} create bench", f"{SYSBENCH} prepare"), unprivileged=True),
    "python": Server(
        "/usr/bin/python3 {here}/orders.py {port}", ready=ONE_ORDER, loads=(ORDERS,), n=8_000, prepare=INPUTS, env=(("PYTHONMALLOC", "malloc"),)),
    "node": Server("/usr/bin/node {here}/orders.js {port}", ready=ONE_ORDER, loads=(ORDERS,), n=6_000, prepare=INPUTS),
}
