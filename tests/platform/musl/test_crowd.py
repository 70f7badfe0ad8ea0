"""Usage: test_crowd.py LIBRARY PROGRAM
Tests that threads that pass blocks to each other do not wait for each other's malloc: they make few futex calls in total.

Musl's own malloc is measured for comparison. It has one lock, and a thread that finds the lock taken sleeps. The number and the cost of its futex
calls depend on the machine, so they are only printed."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY, PROGRAM = sys.argv[1:3]
CANNOT_RUN = 77
THREADS, ROUNDS, TURNS = 16, 20_000, 3
MOST_A_THREAD = 25  # 4 of them are for start and end; musl has about 500


def seconds(library: str | None) -> float:
    environment = {"LD_PRELOAD": library} if library else {}
    child = subprocess.Popen([PROGRAM, str(THREADS), str(ROUNDS)], env=environment, stdout=subprocess.PIPE, text=True)
    said = child.stdout.read() if child.stdout else ""
    _, status, used = os.wait4(child.pid, 0)
    if status != 0 or said != f"{THREADS * ROUNDS} blocks\n":
        sys.exit(f"FAILED: on {library}: {status}: {said}")
    return used.ru_utime + used.ru_stime


def futex_calls(library: str | None) -> int:
    """Returns the number of futex calls that wait or wake."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log"
        setting = ["-E", f"LD_PRELOAD={library}"] if library else []
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=futex", *setting, "-o", str(log), PROGRAM, str(THREADS), str(ROUNDS)],
                       check=True,
                       stdout=subprocess.DEVNULL)
        return sum("futex(" in line for line in log.read_text().splitlines())


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.txt"
        environment = {"LD_PRELOAD": LIBRARY, "HAKMEM_REPORT": str(report)}
        subprocess.run([PROGRAM, "2", "20000"], env=environment, check=True, stdout=subprocess.DEVNULL)
        served = int(report.read_text().split("served ")[1].split()[0])
        if served < 40_000:
            sys.exit(f"FAILED: HAKMEM served {served} calls only")
    ours, musl = zip(*((seconds(LIBRARY), seconds(None)) for _ in range(TURNS)))
    print(f"{THREADS} threads: HAKMEM {min(ours):.3f} s of processor time, musl {min(musl):.3f} s: {min(musl) / min(ours):.1f} times")
    if not shutil.which("strace"):
        sys.exit(CANNOT_RUN)
    mine, other = futex_calls(LIBRARY), futex_calls(None)
    print(f"futex calls: HAKMEM {mine}, musl {other}")
    if not 0 < mine <= MOST_A_THREAD * THREADS:
        sys.exit(f"FAILED: not between 1 and {MOST_A_THREAD * THREADS} futex calls")


main()
