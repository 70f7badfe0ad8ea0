"""Samples a running process through its memory, as a debugger would, but without stopping its threads (src/runtime/attach.h)."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from hakmem import elf, process
from hakmem.heap import MAGIC, VERSION, Door
from hakmem.profiles import Profile
from hakmem.trouble import Trouble

NOT_YET, ON, ENDED, REFUSED = range(4)
END = (1 << 64) - 1
AT_SECURE = 23
DEFAULT_MEAN = 512 << 10
MOST_SAMPLES = 8192  # number of live samples that the default aims at, so a larger process is sampled more rarely
CHUNK, PAGE = 1 << 20, 4096
POLL_S = 0.02
WAKE_S = 0.5
MODE_OPEN = 1  # HK_MODE_OPEN


class Memory:
    """Reads and writes the memory of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        with refusing(pid, "opened"):
            self.file = os.open(f"/proc/{pid}/mem", os.O_RDWR)

    def close(self) -> None:
        os.close(self.file)

    def read(self, at: int, size: int) -> bytes:
        with refusing(self.pid):
            found = os.pread(self.file, size, at)
        if len(found) < size:
            raise Trouble(f"process {self.pid} has ended")
        return found

    def word(self, at: int) -> int:
        return int.from_bytes(self.read(at, 8), "little")

    def set_word(self, at: int, value: int) -> None:
        with refusing(self.pid, "changed"):
            os.pwrite(self.file, value.to_bytes(8, "little"), at)

    def set_byte(self, at: int, value: int) -> None:
        """Leaves the other bytes of the word alone, because the process may change them at the same time."""
        with refusing(self.pid, "changed"):
            os.pwrite(self.file, bytes([value]), at)


@contextmanager
def refusing(pid: int, done: str = "read") -> Iterator[None]:
    """Raises Trouble, which names the reason, in place of an error of the system."""
    try:
        yield
    except OSError as error:
        why = "it has ended" if error.errno in (errno.ENOENT, errno.ESRCH, errno.EIO) else str(error.strerror)
        if error.errno in (errno.EACCES, errno.EPERM):
            why = process.refusal_reason(process.Process(pid))
        raise Trouble(f"process {pid} cannot be {done}: {why}") from None


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    access: str
    offset: int
    path: str


def mappings(text: str) -> Iterator[Mapping]:
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) >= 5 and "-" in fields[0]:
            start, end = (int(number, 16) for number in fields[0].split("-"))
            path = fields[5] if len(fields) > 5 else ""
            yield Mapping(start, end, fields[1], int(fields[2], 16), path.removesuffix(" (deleted)"))


def maps_of(pid: int) -> str:
    with refusing(pid), open(f"/proc/{pid}/maps", errors="replace") as file:
        return file.read()


def find_door(memory: Memory) -> Door:
    """Returns the table through which HAKMEM in the process can be controlled. It searches HAKMEM's own library first, and then each file into which
    HAKMEM may be linked."""
    found = [mapping for mapping in mappings(maps_of(memory.pid)) if mapping.path.startswith("/") and "r" in mapping.access]
    data = [mapping for mapping in found if "x" not in mapping.access]
    for mapping in sorted(data, key=lambda one: "libhakmem" not in one.path):
        for at in range(mapping.start, mapping.end, CHUNK):
            try:
                place = memory.read(at, min(CHUNK + len(MAGIC + VERSION), mapping.end - at)).find(MAGIC + VERSION)
                if place >= 0 and (door := Door(memory.read, at + place)).is_relocated:
                    return door
            except Trouble:
                break  # the mapping is gone, or this part lies beyond the end of the file
    process.find(memory.pid)  # raises Trouble if the process has ended
    raise Trouble(f"process {memory.pid} runs on a version of HAKMEM that cannot be sampled while it runs")


class Attached:
    """A process on HAKMEM. `begin` asks for sampling, which the next malloc of any of its threads switches on."""

    def __init__(self, pid: int) -> None:
        process.find(pid)
        with refusing(pid), open(f"/proc/{pid}/auxv", "rb") as file:
            if any(kind == AT_SECURE and value != 0 for kind, value in struct.iter_unpack("<QQ", file.read())):
                raise Trouble(f"process {pid} is privileged (AT_SECURE): HAKMEM does not sample it")
        self.pid = pid
        self.memory = Memory(pid)
        try:
            self.door = find_door(self.memory)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.memory.close()

    def maps(self) -> str:
        """Returns the memory maps. The build-id of each file follows the line of its first page."""
        found = []
        for line in maps_of(self.pid).splitlines():
            found.append(line)
            for mapping in mappings(line):
                if mapping.offset == 0 and mapping.path.startswith("/") and "r" in mapping.access:
                    with suppress(Trouble, ValueError, IndexError, struct.error):
                        found.append(f"# build-id {elf.build_id(self.memory.read(mapping.start, PAGE))}")
        return "\n".join(found) + "\n"

    @property
    def state(self) -> int:
        return self.memory.word(self.door.state + 8)

    def mode(self) -> int:
        """Returns the mode word of the gate (src/policy/gate.h)."""
        return self.memory.word(self.door.gate + 16)

    @property
    def hits(self) -> bool:
        """Returns False while the gate is shut, so that no call is a hit. A sampling round or a request shuts it, and some options keep it shut."""
        return self.mode() & MODE_OPEN != 0

    def ask(self, wanted: int) -> None:
        self.memory.set_word(self.door.state, wanted)
        self.wake()

    def wake(self) -> None:
        """Shuts the gate and makes the tick due, so that the next malloc is a miss and makes a tick."""
        self.memory.set_word(self.door.due, 0)
        if self.hits:
            self.memory.set_byte(self.door.gate + 16, self.mode() & 0xFF & ~MODE_OPEN)
            self.memory.set_word(self.door.gate, 0)

    def answered(self) -> bool:
        return self.memory.word(self.door.state) == 0

    def begin(self, mean: int | None = None) -> bool:
        """Asks for sampling if it is off. Returns True if it was already on. A process that samples since its start is not asked, because it may sleep
        and then does not answer."""
        was_on = self.state == ON or self.door.sampled_from_start
        if not was_on:
            self.ask(mean or default_mean(self.pid))
            was_on = self.wait(WAKE_S) and not self.door.watches
        return was_on

    def check(self) -> None:
        if self.state == REFUSED:
            raise Trouble(
                f"process {self.pid} refuses: it has no memory for samples, or it began with HAKMEM_HARDENED, HAKMEM_SAFE_FREE, "
                "HAKMEM_SITE_RULES or HAKMEM_TRACE_RING. Start it with HAKMEM_HEAP_SAMPLE=512k instead"
            )

    def wait(self, seconds: float) -> bool:
        """Returns True as soon as the process has answered, or False when the time has passed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.answered():
            time.sleep(POLL_S)
        self.check()
        return self.answered()

    def watch(self, seconds: float) -> Iterator[float]:
        """Waits for some seconds, and yields the time that has passed. Wakes the process if it makes no tick, because all its calls are hits."""
        begun, rounds = time.monotonic(), -1
        while (passed := time.monotonic() - begun) < seconds:
            yield passed
            time.sleep(min(WAKE_S, seconds - passed))
            now = self.rounds()
            if self.state == ON and now == rounds and self.hits:
                self.wake()
            self.check()
            rounds = now

    def rounds(self) -> int:
        return self.door.field(self.door.watch, "attach_sampling.xrounds")

    def end(self) -> None:
        if not self.answered() and self.state != ON:
            self.memory.set_word(self.door.state, 0)  # withdraws the request to begin, which no thread has seen
        self.ask(END)
        self.wait(WAKE_S)

    def read(self) -> Profile:
        if not self.door.sampled or not (self.state in (ON, ENDED) or self.door.sampled_from_start):
            return Profile([], self.maps(), 0.0, self.door.mean or DEFAULT_MEAN, pid=self.pid, waiting=True)
        return self.door.profile(self.maps(), time.monotonic() * 1000, self.pid)


def default_mean(pid: int) -> int:
    """Returns the mean bytes between two samples. It is larger for a large process, so that the table of samples does not become full."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        resident = 0
    return max(DEFAULT_MEAN, resident // MOST_SAMPLES)
