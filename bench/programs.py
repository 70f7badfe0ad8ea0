"""The real programs of row P16, and the servers of row P25, as data only.

Each program is started directly, not through a shell or a driver (cc1plus, not g++), so no other process is measured. The number of its calls is
not known from outside: libcounting.so counts them once.
"""
from dataclasses import dataclass, replace
from pathlib import Path

from point import Workload
from servers import SERVERS, Server

HERE = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Program:
    """Words may hold {n}, the amount of work; {here}, the folder of inputs; {work}, where `prepare` ran; {scratch}, a folder new for each run."""

    name: str
    command: str  # the first word is a path, wildcards allowed
    n: int
    quick_n: int
    warm_mib: int = 64
    env: tuple[tuple[str, str], ...] = ()
    prepare: str = ""  # a shell command, once for all runs
    client: str = ""  # runs beside the program, on no allocator, and ends it
    own_malloc: bool = False  # linked with another allocator: glibc is preloaded, too
    built_by: str = ""  # the path of the compiler with which `prepare` makes it
    threads: bool = False  # how many calls it makes differs by a few in a hundred
    single_thread: bool = True
    prints: bool = False  # its last line is a JSON object with figures of its own
    driver: bool = False  # starts the measured program, and gets the settings of the allocator as options

    def workload(self, n: int, exact: bool = False) -> Workload:
        return Workload(self.command, n, self.quick_n, warm_mib=self.warm_mib, single_thread=self.single_thread, program=self.name, exact=exact)

    @property
    def served_share(self) -> float:
        return 0.9 if self.threads else 0.999

    @property
    def wanted(self) -> str:
        """The files it needs: the program, or those that make it."""
        return self.built_by or self.command.split()[0]

    def executable(self, pattern: str = "") -> Path | None:
        """The newest, where there are several; None where there is none. The pattern: the command's first word, its places filled in."""
        return max(Path("/").glob((pattern or self.wanted).lstrip("/")), default=None)


def python(name: str, n: int, warm_mib: int = 128) -> Program:
    env = (("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0"))
    return Program(f"python-{name}", f"/usr/bin/python3 {{here}}/py_{name}.py {{n}}", n, max(1, n // 5), warm_mib, env=env)


CPP = "-std=c++17 -D_GNU_SOURCE -DRECORDS={n}"
CC1PLUS = f"/usr/lib/gcc/x86_64-linux-gnu/*/cc1plus -quiet -imultiarch x86_64-linux-gnu {CPP}"
CLANG = f"/usr/lib/llvm-*/bin/clang++ {CPP}"
REDIS = "/usr/bin/redis-server --port 0 --unixsocket {scratch}/socket --save 3600 1000000000"
ROCKSDB = "/usr/bin/db_bench --db={scratch}/db --benchmarks=fillrandom,readrandom,seekrandom"
GIT = "/usr/bin/git --git-dir {work}/history"
HISTORY = "git init -q --bare history && /usr/bin/python3 {here}/history.py 800 | git --git-dir history fast-import --quiet"

PROGRAMS = (
    python("json", 16),
    python("strings", 14),
    python("dicts", 4, warm_mib=192),
    python("objects", 6),
    python("regex", 8),
    python("pickle", 120),
    Program("cc1plus-syntax", f"{CC1PLUS} -fsyntax-only {{here}}/containers.cpp -o {{scratch}}/out.s", 6, 1, warm_mib=512),
    Program("cc1plus-O1", f"{CC1PLUS} -O1 {{here}}/containers.cpp -o {{scratch}}/out.s", 1, 1, 384),
    Program("clang-O1", f"{CLANG} -O1 -S {{here}}/containers.cpp -o {{scratch}}/out.s", 1, 1, 256),
    Program("sqlite", "/usr/bin/sqlite3 -batch -init {here}/shop.sql :memory: .exit", 1, 1, 128),
    Program("redis", f"{REDIS} --jemalloc-bg-thread no --loglevel warning --dir {{scratch}}", 25_000, 5_000, 128,
            client="{here}/load_redis.sh {scratch}/socket {n}", own_malloc=True, threads=True),
    Program("ruby", "/usr/bin/ruby {here}/text.rb {n}", 12, 3),
    Program("lua", "/usr/bin/lua5.4 {here}/tables.lua {n}", 25, 5, 128),
    Program("perl", "/usr/bin/perl {here}/report.pl {n}", 25, 5, env=(("PERL_HASH_SEED", "0"),)),
    Program("jq", "/usr/bin/jq -n --argjson n {n} -f {here}/group.jq", 12_000, 3_000),
    Program("z3", "/usr/bin/z3 {here}/solve.smt2", 1, 1, 128),
    Program("rocksdb", f"{ROCKSDB} --num={{n}} --seed=1 --compression_type=none --write_buffer_size=4194304", 60_000, 10_000, 128,
            threads=True, single_thread=False),
    Program("git-log", f"{GIT} log -p --stat -M --output=/dev/null main", 1, 1, prepare=HISTORY),
    Program("git-pack", f"{GIT} pack-objects -q --all --no-reuse-delta --threads=1 {{scratch}}/pack", 1, 1, 128, prepare=HISTORY),
    Program("service", "{work}/service {n}", 30, 6, 256, prepare="g++ -O2 -std=c++17 -pthread {here}/service.cpp -o service",
            built_by="/usr/bin/g++", single_thread=False),
)

# Those whose exact cost is a row, each of another kind, and the amount of work: under cachegrind a program runs fifty times as long.
EXACT = {"python-json": 8, "python-strings": 4, "python-dicts": 3, "sqlite": 1, "perl": 5, "ruby": 3, "lua": 6, "cc1plus-O1": 1, "service": 8}

PREFORK = replace(python("prefork", 60), prints=True)


def driven(name: str, server: Server) -> Program:
    command = f"{{here}}/../../tools/in_venv.sh {{here}}/../serve.py {name} {{n}}"
    return Program(f"{name}-server", command, server.n, server.n // 5, 128, own_malloc=server.own_malloc, built_by=server.program, threads=True,
                   single_thread=False, prints=True, driver=True)


DRIVEN = {name: driven(name, server) for name, server in SERVERS.items()}
NAMED = {program.name: program for program in (*PROGRAMS, PREFORK, *DRIVEN.values())}
