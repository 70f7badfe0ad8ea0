"""Commands of gdb for a program on HAKMEM, which runs or has left a core file. `source .../hakmem-gdb.py` defines them in gdb."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import gdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hakmem.heap import MAGIC, VERSION, Door, Heap, Missing  # noqa: E402
from hakmem.trouble import Trouble  # noqa: E402


def read(at: int, size: int) -> bytes:
    try:
        return bytes(gdb.selected_inferior().read_memory(at, size))
    except gdb.MemoryError as error:
        raise Missing(str(error)) from None


def doors() -> Iterator[Door]:
    """Yields hak_attach of each copy of HAKMEM. The symbol is missing in a stripped program, whose memory is searched instead."""
    try:
        yield Door(read, int(gdb.parse_and_eval("(unsigned long)&hak_attach")))
    except gdb.error:
        for start, end in re.findall(r"^\s*(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s.*/", gdb.execute("info proc mappings", to_string=True), re.MULTILINE):
            found = gdb.selected_inferior().search_memory(int(start, 16), int(end, 16) - int(start, 16), MAGIC + VERSION)
            if found is not None and (door := Door(read, found)).is_relocated:
                yield door
        raise Trouble("the program does not run HAKMEM, or it runs another version than this script's") from None


class Command(gdb.Command):
    """Shows HAKMEM's heap.
    hakmem heap: the blocks of each size, large blocks, and the caches of threads.
    hakmem ADDRESS: the block that contains the address, which may be any expression, and the blocks beside it."""

    def __init__(self) -> None:
        super().__init__("hakmem", gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            heap = Heap(next(doors()))
            if argument == "heap":
                lines = list(heap.summary())
            else:
                address = int(gdb.parse_and_eval(f"(unsigned long)({argument})"))
                lines = list(heap.about(address))
                lines += [f"    allocated at {gdb.execute(f'info symbol {at - 1}', to_string=True).strip()}" for at in heap.stack_of(address)]
        except (Trouble, Missing, gdb.error) as trouble:
            raise gdb.GdbError(f"hakmem: {trouble}") from None
        print("\n".join(lines))


Command()
