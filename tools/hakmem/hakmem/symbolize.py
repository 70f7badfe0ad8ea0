"""Adds files and lines of the source to the stacks that HAKMEM wrote."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from hakmem import sources
from hakmem.trouble import Trouble

# "    #0 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1)"
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\)$")
# "hakmem: free(): block already free, in an outbox, freed by thread 8060 at 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1): address 0x7f..."
LINE = re.compile(r"^hakmem: .*, freed by thread \d+ at 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\): address 0x")

Place = tuple[str, int]  # a module, and an address in it


def place_of(line: str) -> Place | None:
    found = FRAME.match(line.rstrip("\n")) or LINE.match(line)
    return (found["module"], int(found["address"], 16)) if found else None


def look_up(places: set[Place]) -> dict[Place, list[tuple[str, str, int]]]:
    """Returns the function, file and line of each place. An inlined function comes before its caller."""
    if not any(sources.tools()):
        raise Trouble("addr2line is needed (Debian: binutils)")
    by_module: dict[str, set[int]] = defaultdict(set)
    for module, address in places:
        by_module[module].add(address)
    return {(module, address): frames for module, addresses in by_module.items()
            for address, frames in sources.look_up(module, sorted(addresses)).items()}


def symbolized(lines: Iterable[str]) -> Iterator[str]:
    """Yields the same lines. After each frame, it adds a line for each source function that contains the address."""
    text = list(lines)
    places = {place for place in map(place_of, text) if place}
    found = look_up(places) if places else {}
    for line in text:
        yield line
        place = place_of(line)
        for function, file, number in found.get(place, []) if place else []:
            if file:
                yield f"       {function} at {file}:{number}\n"
