"""test_crowd.py LIBRARY PROGRAM: a program of many threads on HAKMEM and on musl's own malloc, in turns. Musl's takes at least twice the
processor time, and far more system calls: a thread that finds its lock taken sleeps."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY, PROGRAM = sys.argv[1:3]
THREADS, ROUNDS, TURNS, LEAST = 8, 150_000, 3, 2.0


def seconds(library: str | None) -> float:
    environment = {"LD_PRELOAD": library} if library else {}
    child = subprocess.Popen([PROGRAM, str(THREADS), str(ROUNDS)], env=environment, stdout=subprocess.PIPE, text=True)
    said = child.stdout.read() if child.stdout else ""
    _, status, used = os.wait4(child.pid, 0)
    if status != 0 or said != f"{THREADS * ROUNDS} blocks\n":
        sys.exit(f"FAILED: on {library}: {status}: {said}")
    return used.ru_utime + used.ru_stime


def futex_calls(library: str | None) -> int:
    """Of threads that wait or wake others."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log"
        setting = ["-E", f"LD_PRELOAD={library}"] if library else []
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=futex", *setting, "-o", str(log), PROGRAM, "4", "20000"], check=True,
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
    ratio = min(musl) / min(ours)
    print(f"{THREADS} threads: HAKMEM {min(ours):.3f} s of processor time, musl {min(musl):.3f} s: {ratio:.1f} times")
    if ratio < LEAST:
        sys.exit(f"FAILED: less than {LEAST} times")
    if shutil.which("strace"):
        mine, other = futex_calls(LIBRARY), futex_calls(None)
        print(f"futex calls: HAKMEM {mine}, musl {other}")
        if other < 10 * max(mine, 1):
            sys.exit("FAILED: musl's lock makes less than ten times the system calls")


main()
