"""Adds files and lines of the source to the stacks that HAKMEM wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Dict, Iterable, Iterator, List, Set, Tuple

from hakmem.trouble import Trouble

# "    #0 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1)"
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\)$")
# "hakmem: free(): block already free, in an outbox, freed by thread 8060 at 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1): address 0x7f..."
LINE = re.compile(
    r"^hakmem: .*, freed by thread \d+ at 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\): address 0x"
)
UNKNOWN = "??"

# A place in a module, and what addr2line knows of it: (function, file:line), an inlined function before its caller.
Place = Tuple[str, str]
Source = List[Tuple[str, str]]


def place_of(line: str) -> Place | None:
    found = FRAME.match(line.rstrip("\n")) or LINE.match(line)
    return (found["module"], found["address"]) if found else None


def asked(tool: str, module: str, addresses: List[str]) -> Iterator[Tuple[str, Source]]:
    """addr2line -a begins each answer with the address: two lines for each function follow."""
    line = [tool, "-a", "-C", "-f", "-i", "-e", module]
    done = subprocess.run(line, input="\n".join(addresses), capture_output=True, text=True, check=False)
    answers = iter(done.stdout.splitlines())
    address, source = "", []
    for answer in answers:
        if re.fullmatch(r"0x[0-9a-f]+", answer):
            if address:
                yield address, source
            address, source = f"{int(answer, 16):x}", []
        else:
            source.append((answer, next(answers, UNKNOWN)))
    if address:
        yield address, source


def known(source: Source) -> Source:
    return [(function, line.split(" (discriminator")[0]) for function, line in source if not line.startswith(UNKNOWN)]


def addr2line() -> str | None:
    return shutil.which("addr2line") or shutil.which("llvm-addr2line")


def look_up(places: Set[Place]) -> Dict[Place, Source]:
    tool = addr2line()
    if tool is None:
        raise Trouble("addr2line is needed (Debian: binutils)")
    found = {}
    for module in {module for module, _ in places}:
        addresses = sorted(address for of, address in places if of == module)
        for address, source in asked(tool, module, addresses):
            found[module, address] = known(source)
    return found


def symbolized(lines: Iterable[str]) -> Iterator[str]:
    """The same lines; behind each frame, a line for each function of the source that it stands in."""
    text = list(lines)
    places = {place for place in map(place_of, text) if place}
    found = look_up(places) if places else {}
    for line in text:
        yield line
        place = place_of(line)
        for function, source in found.get(place, []) if place else []:
            yield f"       {function} at {source}\n"
