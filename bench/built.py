"""The folder of the built programs, the first argument of a test that runs them, and the allocators that such a test needs."""
import sys
from pathlib import Path

from peers import Allocator

BENCH_DIR = Path(sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "build/bench").resolve()
GLIBC = Allocator("glibc", None, "peer")


def hakmem() -> Allocator:
    return Allocator("hakmem", BENCH_DIR.parent / "libhakmem.so", "hakmem")
