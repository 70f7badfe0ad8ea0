"""Finds the function, file and line of addresses, and adds them to the stacks that HAKMEM wrote. It uses llvm-symbolizer, eu-addr2line or addr2line,
whichever is installed. Without them, it uses the symbols of the file."""

from __future__ import annotations

import bisect
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hakmem import elf, scripts
from hakmem.attached import Mapping, mappings
from hakmem.process import Process
from hakmem.trouble import Trouble

UNKNOWN = "??"
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/opt/", "/build/")
SYSTEM_SOURCES = ("/usr/", "../sysdeps", "/build/", "../csu", "<", "/rustc/", "/rust/deps/")
PACKAGES = re.compile(r"/\.cargo/(?:registry|git)/|/(?:node_modules|site-packages|dist-packages)/|/lib(?:64)?/python[\d.]+t?/|^node:|^<frozen ")
INTERPRETERS = re.compile(r"/(?:lib)?(?:node|nodejs|python|ruby|perl|php|java|jvm|lua|R|octave)[\w.-]*$")
MAPPING_INTERPRETERS = re.compile(r"/(?:lib)?(?:node|nodejs|python)[\w.-]*$")
# Matches a mapping of a file in a profile, and the comment with the file's build-id that follows.
BUILD_ID = re.compile(r"^\S+ \S+ \S+ \S+ \d+ +(/.*?)(?: \(deleted\))?\n# build-id ([0-9a-f]+)$", re.MULTILINE)
TOOL_S = 120
CLOCK_S = 1.0  # the difference between the clocks of files and of processes
STT_FUNC = 2
# Matches what a compiler adds to the name of a function when it makes a copy of the function.
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
RUST_ESCAPES = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "LP": "(", "RP": ")", "C": ","}  # or uXX, the code of the character
CLONE = re.compile(r"(?: \[clone [^]]*\]| \(\.[\w.]+\)|\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)*)+$")
OWN = re.compile(r"/libhakmem[^/]*$")
ALLOCATORS = re.compile(r"<?hakmem::|hak_|hk_|operator (?:new|delete)\b|_Zn[aw]|__cxa_allocate|_cgo_[0-9a-f]+_C|(?:__rustc::)?(?:__rust_|__rdl_|__rg_)")
RUNTIMES = re.compile(
    r"<?(?:std|__gnu_cxx|hashbrown)::|<?alloc::(?:alloc|borrow|boxed|collections|fmt|rc|raw_vec|slice|str|string|sync|vec)::|"
    r"<?core::(?:alloc|cell|convert|fmt|iter|mem|ops|option|ptr|result|slice|str)::|_?start_thread$|_start$|__libc_start|clone3?$")
C_LIBRARIES = re.compile(r"/(?:ld-|ld\.|lib(?:c|m|pthread|stdc\+\+|c\+\+|c\+\+abi|gcc_s)[-.])[^/]*$")


@dataclass(frozen=True)
class Frame:
    """A function in a call stack. An inlined function comes before its caller."""

    function: str
    file: str = ""
    line: int = 0
    module: str = ""
    of_script: bool = False

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file or os.path.basename(self.module)

    @property
    def text(self) -> str:
        """Returns the function and the line. The file has no folders."""
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})" if self.file else self.function

    @property
    def is_of_runtime(self) -> bool:
        """Returns True if the function belongs to an allocator, a runtime of a language, a package, or a standard library."""
        if self.of_script:
            return self.is_of_package
        libraries = self.file.startswith(SYSTEM_SOURCES) or self.is_of_package
        named = ALLOCATORS.match(self.function) or (not self.file and RUNTIMES.match(self.function))
        return bool(libraries or named or C_LIBRARIES.search(self.module) or INTERPRETERS.search(self.module))

    @property
    def is_the_programs(self) -> bool:
        """Returns True if the function lies in a file of the program that was not installed with the system."""
        return bool(self.module) and (self.of_script or not self.module.startswith(SYSTEM)) and not self.is_of_runtime

    @property
    def is_of_package(self) -> bool:
        return bool(PACKAGES.search(self.file) or PACKAGES.search(self.module))

    def __str__(self) -> str:
        return f"{self.function} at {self.place}" if self.place else self.function


class Sources:
    """Knows the functions of the addresses of one process, profile or report. A file that has another build-id than the one that ran is not used, or,
    if the build-id is unknown, a file that was changed after the time `written`. `symbols` is a folder that has the files as they were then, by path or
    by name. `profile` is the file of the profile, if it is one."""

    def __init__(self, maps: str, pid: int | None = None, written: float = math.inf, symbols: Path | None = None, profile: Path | None = None) -> None:
        self.maps = sorted((mapping for mapping in mappings(maps) if mapping.path.startswith("/")), key=lambda one: one.start)
        self.starts = [mapping.start for mapping in self.maps]
        self.text, self.pid, self.written, self.symbols, self.profile = maps, pid, written, symbols, profile
        self.known: dict[int, list[Frame]] = {}
        self.changed: set[str] = set()
        self.build_ids = dict(BUILD_ID.findall(maps))
        self.interpreted = False
        self.refused: dict[Path, str] = {}
        self.code: dict[int, str] = {}
        self.lines: dict[str, dict[str, int]] = {}

    def mapping(self, address: int) -> Mapping | None:
        at = bisect.bisect_right(self.starts, address) - 1
        return self.maps[at] if at >= 0 and address < self.maps[at].end else None

    def file_of(self, path: str) -> str | None:
        """Returns the file that the process ran, or None. The file of a process in a container is in the process's own root."""
        inside = Path(f"/proc/{self.pid}/root{path}")
        places = [self.symbols / path.lstrip("/"), self.symbols / Path(path).name] if self.symbols else [inside if self.pid and inside.exists() else Path(path)]
        there = [place for place in places if place.is_file()]
        found = next((str(place) for place in there if self.is_as_it_ran(path, place)), None)
        if there and not found:
            self.changed.add(path)
        return found

    def is_as_it_ran(self, path: str, file: Path) -> bool:
        if path in self.build_ids:
            return elf.read_by(elf.build_id, file) == self.build_ids[path]
        return bool(self.symbols) or file.stat().st_mtime <= self.written

    def tell_missing(self) -> None:
        """Says on stderr why some functions have no names."""
        if self.known and not any(tools()):
            print("hakmem: no lines of sources are shown, because addr2line is not installed (Debian: binutils)", file=sys.stderr)
        for path in sorted(self.changed):
            print(f"hakmem: {path} has changed since: functions and lines are not looked up in it", file=sys.stderr)
        for file, why in self.refused.items():
            print(f"hakmem: {file} is not used: {why}", file=sys.stderr)
        if self.interpreted and (self.pid or self.profile) and not self.code and not self.refused:
            print("hakmem: this shows functions of the interpreter: start Python 3.12 or newer, and Node, with `hakmem run --scripts`, to see those of the "
                  "script", file=sys.stderr)

    def learn(self, stacks: Iterable[tuple]) -> None:
        """Looks up all addresses at once. A return address is that of the instruction after the call, so the byte before it is looked up."""
        by_path: dict[str, dict[int, int]] = defaultdict(dict)
        generated = []
        for address in {address for stack in stacks for address in stack} - set(self.known):
            mapping = self.mapping(address - 1)
            self.known[address] = [Frame(f"0x{address:x}")]
            if mapping:
                by_path[mapping.path][address] = address - 1 - mapping.start + mapping.offset
            else:
                generated.append(address)
        self.learn_generated(sorted(generated))
        self.interpreted |= any(MAPPING_INTERPRETERS.search(path) for path in by_path)
        for path, places in by_path.items():
            self.learn_file(path, places)

    def maps_of_code(self) -> Iterator[str]:
        """Yields the texts that name generated code. A profile that the tool has written names the code itself."""
        yield self.text
        with suppress(OSError):
            for path, owners in [scripts.map_of(self.pid)] if self.pid else scripts.maps_of_file(self.profile) if self.profile else []:
                try:
                    yield scripts.read_map(path, owners)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.refused[path] = error.strerror or str(error)

    def learn_generated(self, addresses: list[int]) -> None:
        """Looks up addresses of generated code in the map that runtimes write for `perf`. A later line of the map replaces an earlier one."""
        for text in self.maps_of_code() if addresses else ():
            for start, size, name in scripts.rows(text):
                for address in addresses[bisect.bisect_right(addresses, start):bisect.bisect_right(addresses, start + size)]:
                    self.code[address] = name
        for address in self.code.keys() & set(addresses):
            self.known[address] = [self.generated_frame(self.code[address])]

    def generated_frame(self, name: str) -> Frame:
        function, file, line = scripts.function_of(name) or (name, "", 0)
        if not line and file.startswith("/"):
            self.lines[file] = self.lines.get(file) or self.lines_of_script(file)
            line = scripts.line_of(function, self.lines[file])
        return Frame(function, file, line, file, bool(file))

    def lines_of_script(self, path: str) -> dict[str, int]:
        """Returns the lines of a Python program, or nothing if its file is missing or is newer than the process."""
        file = self.file_of(path)
        with suppress(OSError):
            if file and self.pid and os.stat(file).st_mtime > time.time() - Process(self.pid).seconds_alive() + CLOCK_S:
                self.changed.add(path)
            elif file:
                return scripts.lines_of(Path(file).read_text(errors="replace"))
        return {}

    def code_text(self) -> str:
        """Returns the names of generated code for a file of the profile, which may be read when the process and its map are gone."""
        return "".join(f"# code {address - 1:x} 1 {name}\n" for address, name in sorted(self.code.items()))

    def learn_file(self, path: str, offsets: dict[int, int]) -> None:
        file = self.file_of(path) or ""
        symbols = Symbols(file)
        places = {address: symbols.address(offset) for address, offset in offsets.items()}
        found = look_up(file, sorted(set(places.values()))) if file else {}
        for address, place in places.items():
            frames = [frame for frame in found.get(place, []) if frame[0] != UNKNOWN]
            name = symbols.name(place) or f"{os.path.basename(path)}+0x{offsets[address]:x}"
            self.known[address] = [Frame(function, source, line, path) for function, source, line in frames] or [Frame(name, module=path)]

    def frames(self, stack: tuple) -> list[Frame]:
        """Returns the frames of a stack, the innermost first, without those of HAKMEM."""
        found = [frame for address in stack for frame in self.known.get(address, [Frame(f"0x{address:x}")])]
        while len(found) > 1 and OWN.search(found[0].module):
            found = found[1:]
        return found


# The first rule that finds a frame names the innermost such frame.
RULES = {
    "function of the program's own files": lambda frame: frame.is_the_programs,
    "function of the executable": lambda frame: bool(frame.module) and ".so" not in os.path.basename(frame.module) and not frame.is_of_runtime,
    "function outside the C library and the runtimes": lambda frame: bool(frame.module) and not frame.is_of_runtime,
    "function of a package or a standard library": lambda frame: frame.is_of_package,
    "function": lambda frame: True,
}
BEST_RULE = next(iter(RULES))
CALLER_RULE = "caller of code of which no file is known"  # such as that of a plugin which is closed
NAMELESS = re.compile(r"0x[0-9a-f]+$")
RULE_TEXT = f"Each place is in the innermost {BEST_RULE}, if one is known."


def blame(frames: list[Frame]) -> tuple[Frame, str]:
    """Returns the frame that is reported for a stack, and the rule that chose it."""
    found = ((frame, rule) for rule, fits in RULES.items() for frame in frames if fits(frame))
    frame, rule = next(found, (Frame(UNKNOWN), "function"))
    if rule == BEST_RULE and any(NAMELESS.match(inner.function) for inner in frames[:frames.index(frame)]):
        return frame, CALLER_RULE
    return frame, rule


Answer = list  # of (function, file, line)


def tools() -> Iterator[list[str]]:
    """Yields the commands of the installed programs, the best first."""
    for tool, *options in (["llvm-symbolizer", "--output-style=GNU"], ["eu-addr2line"], ["addr2line"], ["llvm-addr2line"]):
        path = shutil.which(tool)
        if path and tool not in os.environ.get("HAKDEV_TOOL_WITHOUT", "").split(","):
            yield [path, *options]


def look_up(file: str, places: list[int]) -> dict[int, Answer]:
    """Returns the frames of each place. The result is empty if no program is installed, or if none can read the file."""
    for tool in tools():
        try:
            return by_addr2line(tool, file, places)
        except (OSError, subprocess.SubprocessError, ValueError):
            continue
    return {}


def source_of(text: str) -> tuple[str, int]:
    """Parses "file:line" or "file:line:column", also if " (discriminator 2)" follows. Returns ("", 0) for "??:0"."""
    found = re.match(r"(.*?):(\d+)(?::\d+)?(?: \(.*\))?$", text)
    if found is None or found[1].startswith(UNKNOWN) or int(found[2]) == 0:
        return "", 0
    return os.path.normpath(found[1]), int(found[2])


def plain(function: str) -> str:
    """Returns the name of a function without what compilers add. Also decodes what tools leave of the names of Rust."""
    name = CLONE.sub("", re.sub(r" inlined at .*", "", function))
    if not RUST_HASH.search(name):
        return name
    name = re.sub(r"\$(\w+?)\$", lambda found: RUST_ESCAPES.get(found[1]) or chr(int(found[1][1:], 16)), RUST_HASH.sub("", name))
    return name.replace("..", "::").removeprefix("_")


def by_addr2line(tool: list[str], file: str, places: list[int]) -> dict[int, Answer]:
    """Asks addr2line, which prints the place because of -a, and then pairs of lines."""
    command, asked = [*tool, "-a", "-C", "-f", "-i", "-e", file], "".join(f"0x{place:x}\n" for place in places)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, errors="replace", check=True, timeout=TOOL_S)
    lines = iter(done.stdout.splitlines())
    found: dict[int, Answer] = {}
    answer: Answer = []
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            answer = found.setdefault(int(line, 16), [])
        elif line:
            answer.append((plain(line), *source_of(next(lines, ""))))
    return found


class Symbols:
    """Finds the functions of a file by their addresses, and converts offsets in the file to addresses."""

    def __init__(self, file: str) -> None:
        self.segments, self.functions = symbols_of(file)

    def address(self, offset: int) -> int:
        for at, start, size in self.segments:
            if at <= offset < at + size:
                return start + offset - at
        return offset

    def name(self, address: int) -> str | None:
        at = bisect.bisect_right(self.functions, (address, math.inf)) - 1
        return self.functions[at][2] if at >= 0 and address < self.functions[at][1] else None


@lru_cache(maxsize=64)
def symbols_of(file: str) -> tuple[list, list]:
    """Returns the segments of a file, and the start, end and name of its functions. A file of 32 bits has none."""
    return elf.read_by(lambda data: parsed_symbols(elf.Reader(data)), Path(file)) or ([], [])


def parsed_symbols(reader: elf.Reader) -> tuple[list, list] | None:
    if reader.layout is not elf.WIDE:
        return None
    functions = [(value, value + size, reader.text(strings[1] + name))
                 for symbols, strings in reader.symbols(elf.SHT_SYMTAB, elf.SHT_DYNSYM)
                 for name, info, defined, value, size in symbols if info & 15 == STT_FUNC and defined and size]
    return [(offset, start, size) for kind, offset, start, size, _ in reader.segments() if kind == elf.PT_LOAD], sorted(functions)


def short(path: str) -> str:
    """Returns the path relative to the current folder, if it is below that folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


# "    #0 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1)"
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\)$")
# "hakmem: free(): block already free, in an outbox, freed by thread 8060 at 0x5571297441e1 main+0x15 (/srv/bin/shop+0x11e1): address 0x7f..."
LINE = re.compile(r"^hakmem: .*, freed by thread \d+ at 0x[0-9a-f]+ .*\((?P<module>/.*)\+0x(?P<address>[0-9a-f]+)\): address 0x")

Place = tuple[str, int]  # a module, and an address in it


def place_of(line: str) -> Place | None:
    found = FRAME.match(line.rstrip("\n")) or LINE.match(line)
    return (found["module"], int(found["address"], 16)) if found else None


def look_up_places(places: set[Place]) -> dict[Place, list[tuple[str, str, int]]]:
    """Returns the function, file and line of each place. An inlined function comes before its caller."""
    if not any(tools()):
        raise Trouble("addr2line is needed (Debian: binutils)")
    by_module: dict[str, set[int]] = defaultdict(set)
    for module, address in places:
        by_module[module].add(address)
    return {(module, address): frames for module, addresses in by_module.items() for address, frames in look_up(module, sorted(addresses)).items()}


def symbolized(lines: Iterable[str]) -> Iterator[str]:
    """Yields the same lines. After each frame, it adds a line for each source function that contains the address."""
    text = list(lines)
    places = {place for place in map(place_of, text) if place}
    found = look_up_places(places) if places else {}
    for line in text:
        yield line
        place = place_of(line)
        for function, file, number in found.get(place, []) if place else []:
            if file:
                yield f"       {function} at {file}:{number}\n"
