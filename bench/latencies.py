"""Reads what the load generators print, and their logs: how many requests took how many milliseconds, and the rates."""
import re
from collections.abc import Callable

Latencies = list[tuple[float, int]]  # milliseconds, and the number of requests that took them


def of_redis_benchmark(printed: str, _: str) -> Latencies:
    """Reads the cumulative distributions of each test."""
    found = []
    for test in re.split(r"^====== .* ======", printed, flags=re.MULTILINE):
        before = 0
        steps = re.findall(r"<= ([\d.]+) milliseconds \(cumulative count (\d+)\)", test)
        for ms, count in sorted((float(ms), int(count)) for ms, count in steps):
            found.append((ms, count - before))
            before = count
    return found


def of_pgbench(_: str, log: str) -> Latencies:
    """Reads the log, which has a line for each transaction. The third word is the time in microseconds."""
    return [(int(line.split()[2]) / 1e3, 1) for line in log.splitlines()]


def of_h2load(_: str, log: str) -> Latencies:
    """Reads the log, which has a line for each request: its start, the HTTP status, and the time in microseconds."""
    lines = [line.split() for line in log.splitlines()]
    return [(int(us) / 1e3, 1) for _, status, us in lines if status == "200"]


def of_sysbench(printed: str, _: str) -> Latencies:
    """Reads the histogram, whose lines have milliseconds, a bar, and a count."""
    histogram = printed.partition("Latency histogram")[2].partition("SQL statistics")[0]
    return [(float(ms), int(count)) for ms, count in re.findall(r"^ *([\d.]+) \|\** +(\d+)$", histogram, re.MULTILINE)]


# The reader of the latencies, and where the rates stand in the output.
GENERATORS: dict[str, tuple[Callable[[str, str], Latencies], str]] = {
    "redis-benchmark": (of_redis_benchmark, r"throughput summary: ([\d.]+) requests per second"),
    "pgbench": (of_pgbench, r"^tps = ([\d.]+)"),
    "h2load": (of_h2load, r"^finished in .*, ([\d.]+) req/s"),
    "sysbench": (of_sysbench, r"transactions: +\d+ +\(([\d.]+) per sec\.\)"),
}


def read(generator: str, printed: str, log: str) -> tuple[Latencies, float]:
    """Returns the latencies of the requests that succeeded, and the seconds that all took. Every test of a run has the same number of requests."""
    reader, rate = GENERATORS[generator]
    latencies = reader(printed, log)
    rates = [float(text) for text in re.findall(rate, printed, re.MULTILINE)]
    return latencies, sum(count_of(latencies) / len(rates) / rate for rate in rates)


def count_of(latencies: Latencies) -> int:
    return sum(count for _, count in latencies)


def percentile(latencies: Latencies, share: float) -> float:
    """Returns the least latency that this share of the requests did not exceed."""
    done, wanted = 0, share * count_of(latencies)
    for ms, count in sorted(latencies):
        done += count
        if done >= wanted:
            return ms
    return 0.0
