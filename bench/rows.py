"""The rows of the table, as data only."""
from collections.abc import Iterator
from dataclasses import replace

from point import Goal, Point, Workload
from programs import DRIVEN, EXACT, NAMED, PREFORK, PROGRAMS, Program
from servers import SERVERS

AHEAD = Goal(ratio=1.0)
NS = ("ns_per_op", "ns", False)
MOPS = ("mops_per_s", "M/s", True)
RSS = ("max_rss_mib", "MiB", False)
FAULTS = ("page_faults", "faults", False)
PEAK_TO_LIVE = ("peak_rss_per_live", "x", False)


def faster(share: float) -> Goal:
    """GOALS of the form "<= share x best peer" in time or memory."""
    return Goal(ratio=1 / share)


P6 = Workload("bench_random_mixed {n} 200000 1", 5_000_000, 500_000, warm_mib=128, trace_rss=True)
P7 = Workload("bench_random_mixed {n} 20000 1 16 32768", 3_000_000, 300_000, warm_mib=192, trace_rss=True)
P8_1 = Workload("bench_mid_large_mt 1 {n} 256", 5_000_000, 500_000, warm_mib=16)
P8_2 = replace(P8_1, command="bench_mid_large_mt 2 {n} 256", single_thread=False)
SMALL = "8 128 1024 100 12345"
SMALLER = "8 64 1024 100 12345"
BIRTH = "8 128 1024 1 12345"
MID = "2048 32768 10000 1 12345"
LARGE = "65536 1048576 1000 1 12345"


def larson(tail: str) -> Workload:
    """The heap of the larger ones is warmed as a whole, were it on huge pages. Runs take 2 s with the smallest blocks, and 3 s with others."""
    warm = 1024 if tail.startswith(MID) else 2560 if tail.startswith(LARGE) else 16
    seconds = 2 if tail.startswith((SMALL, BIRTH)) else 3
    return Workload(f"larson {seconds} {tail}", warm_mib=warm, single_thread=False, trace_rss=warm > 16)


def quick(point: Point) -> Point:
    return replace(point, quick=True)


def tiny(size: int, row: str = "P3") -> Point:
    work = Workload(f"bench_tiny_hot {size} {{n}} 100", 100_000, 10_000)
    floor, goal = Goal(ratio=1.0, limit=0.95), Goal(ratio=1.0, limit=0.97)
    return Point(row, f"{size} B, batch 100 LIFO", work, *MOPS, floor, goal, with_limit=True)


def mixed(row: str, label: str, work: Workload, ratio: float, with_limit: bool = False) -> Point:
    return Point(row, label, work, *MOPS, AHEAD, Goal(ratio=ratio), with_limit=with_limit)


def burst(label: str, args: str, reps: int, share: float) -> Point:
    work = Workload(f"bench_burst {args}", reps, max(1, reps // 10), warm_mib=256)
    return Point("P19", label, work, *NS, AHEAD, faster(share))


def scenario(row: str, name: str, n: int, share: float) -> Point:
    work = Workload(f"bench_scenario {name} {{n}}", n, warm_mib=16)
    return Point(row, f"{name} scenario", work, *NS, AHEAD, faster(share))


def pattern(row: str, label: str, work: Workload, name: str) -> Point:
    """One pattern's figure, of a run of all."""
    return Point(row, label, work, f"ns_{name}", "ns", False)


def on_request(*what, **more) -> Point:
    """Of `--rows all`, or by its name."""
    return Point(*what, default=False, **more)


def growth(label: str, work: Workload, metric: str, unit: str, goal: Goal) -> Point:
    return Point("P18", label, work, metric, unit, False, goal if goal.value else AHEAD, goal)


def servers(row: str, label: str, tail: str, threads: tuple[int, ...], ratio: float) -> Iterator[Point]:
    for n in threads:
        yield on_request(row, f"larson {label}, {n} thread{'s' * (n > 1)}", larson(f"{tail} {n}"), *MOPS, goal=Goal(ratio=ratio))


def per_op(row: str, label: str, work: Workload, metric: str, most: float) -> Point:
    return Point(row, label, work, metric, "/op", False, Goal(value=most), Goal(value=most))


def trace(name: str, label: str) -> tuple[Point, Point]:
    """Its row bears its name: M7.lru."""
    work = Workload(f"bench_traces {name} {{n}}", 100, 10, single_thread=False, series="operations")
    peak = beside("M7", name, label, work, "peak_rss_per_live", Goal(value=1.5))
    vmas = beside("M11", name, label, work, "vmas_to_bound", Goal(value=1))
    return peak, vmas


def beside(row: str, name: str, label: str, work: Workload, metric: str, goal: Goal) -> Point:
    """How many times its bytes, or its bound; the floor is the best peer."""
    return on_request(f"{row}.{name}" if name else row, label, work, metric, "x", False, goal=goal)


def spike(label: str, sizes: str, goal: Goal) -> tuple[Point, ...]:
    """Survivors of small sizes pin most pages: there the peers are the measure."""
    work = Workload(f"bench_release spike {{n}} {sizes} 5 1M", 2048, 512, single_thread=False, series="ms")
    times = {"after_2s": "2 s later", "worked": "after 1M operations"}
    return tuple(beside("M5", "", f"{label}, {when}", work, f"rss_per_live_{part}", goal) for part, when in times.items())


def left(row: str, label: str, mode: str, n: int, figure: tuple[str, str], most: float | None = None) -> Point:
    """Returns a point of bench_left. If `most` is None, the goal is to be better than the peers."""
    threads, series = mode in ("parked", "joined"), "ms" if mode in ("drift", "large", "prefork") else ""
    work = Workload(f"bench_left {mode} {{n}}", n, single_thread=not threads, series=series, traced=not threads)
    goal = AHEAD if most is None else Goal(value=most)
    return on_request(row, label, work, *figure, False, goal, goal)


def fleet(profile: int) -> tuple[Point, Point]:
    """Its row bears its number: P24.0."""
    row, label = f"P24.{profile}", f"fleet profile {profile}"
    work = Workload(f"bench_fleet {profile} {{n}}", 4_000_000, 400_000, warm_mib=128)
    return on_request(row, f"{label}, birth or death", work, *NS), on_request(row, f"{label}, RSS to live", work, *PEAK_TO_LIVE)


def remote(mode: str, label: str, threads: int) -> Point:
    command = f"bench_remote {mode} {threads} {{n}} 16 512"
    work = Workload(command, 10_000_000, 1_000_000, warm_mib=16, single_thread=False, trace_rss=mode == "1to1")
    return on_request("P12", f"{label}, 16-512 B", work, *MOPS, goal=Goal(ratio=1.20))


def fan_in(producers: int) -> Point:
    work = Workload(f"bench_fanin {producers} {{n}} 64", 2_000_000, 200_000, single_thread=False)
    return on_request("R15", f"{producers} producers of 64 B, one frees", work, *NS)


def idle_threads(row: str, label: str, n: int, quick_n: int, goal: Goal) -> Point:
    work = Workload("bench_threads idle {n}", n, quick_n, single_thread=False, traced=False)
    floor = goal if goal.value else AHEAD
    return on_request(row, label, work, "kib_per_thread", "KiB", False, floor, goal)


def real(program: Program) -> tuple[Point, Point]:
    """Of a program's time, malloc has a part: 3 % of all is much."""
    row, name, work = f"P16.{program.name}", program.name, program.workload(program.n)
    cpu = on_request(row, f"{name}, CPU", work, "cpu_s", "s", False, goal=faster(0.97))
    return cpu, on_request(row, f"{name}, RSS", work, *RSS, faster(1.10), faster(1.05))


def served(name: str) -> tuple[Point, ...]:
    """A server under load. A process that serves one connection has ended after the load. So its memory is measured under the load."""
    work = replace(DRIVEN[name].workload(SERVERS[name].n), traced=False)
    memory = ("RSS under load", "peak_rss_mib") if SERVERS[name].closes else ("RSS after the load", "rss_mib")
    figures = (("CPU of a request", "cpu_us", "us", False), ("requests", "requests_per_s", "/s", True), ("p99 latency", "p99_ms", "ms", False),
               ("p99.9 latency", "p99_9_ms", "ms", False), (*memory, "MiB", False))
    return tuple(on_request(f"P25.{name}", f"{name}, {label}", work, metric, unit, higher) for label, metric, unit, higher in figures)


def on_folios(program: Program) -> tuple[Point, Point]:
    """What M17 asks: the folios save faults, and cost little memory."""
    work = replace(program.workload(program.n), folios=True)
    faults = on_request("M17", f"{program.name} on folios of 64 KiB, page faults", work, "minor_faults", "faults", False)
    return faults, on_request("M17", f"{program.name} on folios of 64 KiB, RSS", work, *RSS, faster(1.10), faster(1.05))


def counted(program: Program, n: int) -> tuple[Point, ...]:
    """What P20 and P21 ask: the best peer's count at most."""
    row, name, work = f"exact.{program.name}", program.name, program.workload(n, exact=True)
    return tuple(on_request(row, f"{name}, {title}", work, metric, unit, False, repeats=repeats) for metric, title, unit, repeats in COUNTED)


# How far they repeat: bench/README.md.
COUNTED = (
    ("instructions_m", "instructions", "M", 0.001),
    ("l2_misses_m", "L2 misses", "M", 0.01),
    ("page_faults", "page faults", "faults", 0.01),
    ("peak_mib", "peak RSS", "MiB", 0.01),
)
PHASES = Workload("bench_phases 1 2", warm_mib=1024, single_thread=False, series="ms")
CHURN = Workload("bench_threads churn {n}", 20_000, 2_000, single_thread=False)
GIB_OF_100_B = Workload("bench_growth {n} 100", 10_737_418, 1_000_000, warm_mib=1280, trace_rss=True)
AGED = Workload("bench_aged {n}", 400_000, 40_000, warm_mib=128)
COMPREHENSIVE = Workload("bench_comprehensive all {n}", 400_000, warm_mib=16)
VECTOR = Workload("bench_vector all {n}", 800_000, warm_mib=128)
CALLOC = Workload("bench_calloc all {n}", 1_000_000, warm_mib=64)
ZEROED_LARGE = Workload("bench_zeroed all {n}", 400_000, warm_mib=128)

TRACES = {
    "drift": "sizes drift, 64 B to 4 KiB",
    "lru": "LRU cache, values 150 to 1500 B",
    "pages": "page loads",
    "json": "JSON trees",
    "sqlite": "pages and statements",
    "mstress": "mstress, 2 threads",
    "redis": "updates with a growing value",
    "compiler": "trees and arenas",
    "log_ring": "log ring, 2 threads",
    "matrix": "matrices, 8 KiB to 8 MiB",
    "sessions": "web sessions, day and night",
    "strings": "interned strings, swept",
}
PHASE_LABELS = {"tiny": "tiny burst", "remote": "freed by the other thread", "large": "64 KiB - 4 MiB, written", "spike": "256 MiB up and down"}
VECTORS = {
    "double": "x 2 to 4 MiB",
    "half": "x 1.5 to 4 MiB",
    "step_16": "+ 16 B to 1 KiB",
    "step_16k": "+ 16 KiB to 4 MiB",
    "many": "4096 at once, x 2 to 4 KiB",
    "large": "8 at once, x 1.5 to 4 MiB",
    "string": "strings, + 1-32 B to 512 B",
}
ZEROED = {"64": "64 B", "1k": "1 KiB", "16k": "16 KiB", "128k": "128 KiB", "1m": "1 MiB"}
USES = {"sparse": "first byte used", "full": "all used"}
LARGE_USES = {"start": "16 KiB used", "tenth": "a tenth used", "full": "all used", "turns": "all used once in eight times"}

MIXED_400 = "bench_random_mixed {n} 400 1"
MIXED_8192 = "bench_random_mixed {n} 8192 1"
P1 = Workload("bench_tiny_hot 64 {n} 1", 10_000_000, 1_000_000)
P4 = Workload("bench_random_mixed {n} 256 42", 1_000_000, 200_000, repeat=5)

POINTS: tuple[Point, ...] = (
    *(point for name, n in EXACT.items() for point in counted(NAMED[name], n)),
    quick(Point("P1", "64 B at once", P1, *NS, AHEAD, faster(0.95), with_limit=True)),
    Point("P2", "1024 B at once", replace(P1, command="bench_tiny_hot 1024 {n} 1"), *NS, AHEAD, faster(0.85), with_limit=True),
    tiny(16),
    quick(tiny(64)),
    tiny(128),
    quick(mixed("P4", "random_mixed ws 256", P4, 1.05, with_limit=True)),
    quick(mixed("P5", "random_mixed ws 8192", Workload(MIXED_8192, 10_000_000, 1_000_000, warm_mib=16), 1.08)),
    quick(mixed("P6", "random_mixed ws 200 000", P6, 1.20)),
    quick(mixed("P7", "ws 20 000, 16 B - 32 KiB", P7, 1.15)),
    quick(mixed("P8", "8-32 KiB, 1 thread", P8_1, 1.08)),
    mixed("P8", "8-32 KiB, 2 threads", P8_2, 1.08),
    quick(scenario("P9", "json", 1_000_000, 0.90)),
    quick(scenario("P10", "mir", 300_000, 0.90)),
    quick(scenario("P11", "vm", 20_000, 0.97)),
    per_op("P11", "vm scenario, faults", scenario("P11", "vm", 20_000, 0.97).work, "steady_faults_per_op", 1e-3),
    growth("1 GiB of 100 B, grown and freed", GIB_OF_100_B, "ns_per_op", "ns", faster(0.90)),
    growth("3 M x 100 B, growth alone", replace(GIB_OF_100_B, n=3_000_000, warm_mib=400, trace_rss=False), "growth_ns_per_op", "ns", faster(0.90)),
    growth("1 GiB, faults", GIB_OF_100_B, "faults_per_page", "/page", Goal(value=1 / 16)),
    growth("1 GiB, RSS to bytes asked", GIB_OF_100_B, "rss_per_asked", "x", Goal(value=1.03)),
    burst("10k x 64 B in order", "10000 64 {n} order", 400, 1.0),
    burst("100k x 64 B in order", "100000 64 {n} order", 30, 1.0),
    quick(burst("100k x 64 B random", "100000 64 {n} random", 30, 0.9)),
    burst("1M x 64 B random", "1000000 64 {n} random", 3, 0.8),
    burst("100k x 200 B random", "100000 200 {n} random", 20, 1.0),
    mixed("B1", "random_mixed ws 400", Workload(MIXED_400, 10_000_000, 2_000_000), 1.0),
    mixed("B1", "ws 400, 8-128 B", Workload(f"{MIXED_400} 8 128", 2_000_000), 1.0),
    mixed("S13", "gap 4-8 KiB", Workload("bench_random_mixed {n} 2000 1 4096 8192", 2_000_000), 1.0),
    mixed("S13", "gap 32-64 KiB", Workload("bench_random_mixed {n} 2000 1 32768 65536", 2_000_000), 1.0),
    *(tiny(size, "B2") for size in (8, 32)),
    scenario("B5", "string-builder", 1_000_000, 1.0),
    quick(scenario("B5", "mixed", 300_000, 1.0)),
    *(pattern("B8", f"{order} {size} B", COMPREHENSIVE, f"{order}_{size}") for size in (16, 32, 64, 128, 256, 512, 1024)
      for order in ("lifo", "fifo", "random")),
    *(quick(pattern("B8", name, COMPREHENSIVE, name)) for name in ("interleaved", "lived", "mixed")),
    *(quick(pattern("vector", label, VECTOR, name)) for name, label in VECTORS.items()),
    Point("vector", "peak RSS", VECTOR, *RSS, faster(1.10), faster(1.05)),
    *(pattern("calloc", f"{size}, {use}", CALLOC, f"{how}_{name}") for name, size in ZEROED.items() for how, use in USES.items()),
    *(pattern("calloc", f"{mib} MiB, {use}", ZEROED_LARGE, f"{how}_{mib}m") for mib in (2, 16, 80) for how, use in LARGE_USES.items()),
    quick(Point("M1", "idle process", Workload("bench_idle"), "rss_mib", "MiB", False, Goal(value=1.9), Goal(value=1.7))),
    *(quick(Point("M3", f"RSS on {on}", work, *RSS, faster(1.10), faster(1.05))) for on, work in (("P6", P6), ("P7", P7), ("P8, 1 thread", P8_1))),
    quick(Point("M8", "random_mixed 1M ws 400", Workload("bench_random_mixed 1000000 400 1"), *FAULTS, Goal(value=150), Goal(value=140))),
    *(per_op("M9", f"{what}, ws {size}", Workload(command, 20_000_000, 2_000_000, difference=True), metric, most)
      for what, metric, most in (("system calls", "syscalls_per_op", 1e-7), ("faults", "faults_per_op", 1e-4))
      for size, command in ((400, MIXED_400), (8192, MIXED_8192))),
    # ---- on request (--rows all, or by name) ----
    remote("1to1", "1 to 1", 1),
    remote("Nto1", "2 to 1", 2),
    remote("1toN", "1 to 2", 2),
    remote("ring", "ring of 2", 2),
    *map(fan_in, (2, 8, 64, 256, 1024)),
    *servers("P13", "2-32 KiB", MID, (1, 4), 1.15),
    *servers("P13b", "64 KiB - 1 MiB", LARGE, (1, 4), 1.10),
    *servers("P14", "8-128 B", SMALL, (1, 2, 4), 1.05),
    *servers("P14b", "8-128 B, short lives", BIRTH, (1, 4), 1.10),
    *servers("B3", "8-128 B", SMALL, (8,), 1.0),
    *servers("B3", "8-128 B, short lives", BIRTH, (8,), 1.0),
    *servers("B3", "8-64 B", SMALLER, (1, 4), 1.0),
    idle_threads("M2", "idle thread of 4000", 4000, 400, Goal(value=16)),
    on_request("M4", "larson 2-32 KiB, 4 threads", larson(f"{MID} 4"), *RSS, goal=Goal(value=185)),
    on_request("M4", "larson 64 KiB - 1 MiB, 4 threads", larson(f"{LARGE} 4"), *RSS, goal=Goal(value=95)),
    *spike("2 GiB of 16-256 B, 95 % freed", "16 256", AHEAD),
    *spike("2 GiB of 4-64 KiB, 95 % freed", "4096 65536", Goal(value=1.3)),
    beside("M6", "", "freed by a thread that only frees", Workload("bench_release remote 64", single_thread=False, series="ms"),
           "rss_to_bound", Goal(value=1)),
    *(point for name, label in TRACES.items() for point in trace(name, label)),
    on_request("P23", "aged heap, a block visited", AGED, "traverse_ns_per_block", "ns", False),
    on_request("P23", "aged heap, malloc or free with search", AGED, *NS),
    on_request("P23", "aged heap, RSS to live", AGED, *PEAK_TO_LIVE),
    *(point for profile in range(10) for point in fleet(profile)),
    left("M13", "sizes that drift, RSS to live", "drift", 400_000, ("rss_to_live", "x"), 1.45),
    left("M14", "four blocks of 1-64 MiB freed, 1 s later", "large", 1, ("left_mib", "MiB"), 12),
    left("M15", "8 forked children, memory not shared", "prefork", 8, ("private_mib", "MiB")),
    on_request("M15.python", "8 forked Python children, memory not shared", PREFORK.workload(PREFORK.n), "private_mib", "MiB", False, AHEAD, AHEAD),
    left("M16", "300 threads in read(), after malloc_trim, RSS to live", "parked", 300, ("parked_per_live", "x"), 1.2),
    *(point for name in ("perl", "lua") for point in on_folios(NAMED[name])),
    left("M18", "8 threads joined, 2 s later", "joined", 1, ("left_mib", "MiB"), 6),
    *(on_request("B7", label, PHASES, f"mops_{name}", "M/s", True) for name, label in PHASE_LABELS.items()),
    on_request("B7", "RSS after the spike", PHASES, "rss_mib_spike", "MiB", False),
    on_request("B7", "faults", PHASES, "steady_faults", "faults", False),
    on_request("B9", "a thread's life", CHURN, *NS),
    on_request("B9", "RSS after 20 000 threads", CHURN, "rss_after_kib", "KiB", False),
    *(idle_threads("B9", f"idle thread of {n}", n, n, AHEAD) for n in (10, 100, 1000)),
    *(point for program in PROGRAMS for point in real(program)),
    *(point for name in SERVERS for point in served(name)),
)


def select(names: str | None, quick: bool = False) -> list[Point]:
    """The points of rows "P1,P4", of "all", of the default set, or the quick ones. "P16" is each of P16.lua, P16.perl and so on,
    and "memory" is each row whose name begins with M."""
    if not names:
        return [p for p in POINTS if (p.quick if quick else p.default)]
    if names == "all":
        return list(POINTS)
    wanted = {name.strip().upper() for name in names.split(",")}
    unknown = wanted - {name for p in POINTS for name in names_of(p)}
    if unknown:
        raise SystemExit(f"bench: no row {', '.join(sorted(unknown))}; there are {', '.join(dict.fromkeys(p.row for p in POINTS))}")
    return [p for p in POINTS if wanted & names_of(p)]


def names_of(point: Point) -> set[str]:
    """The names that select a point: its row, the row without what follows the point, and MEMORY for the rows of memory."""
    row = point.row.upper()
    return {row, row.partition(".")[0]} | ({"MEMORY"} if point.is_of_memory else set())
