#!/usr/bin/env python3
"""Checks src/ against the rules in rooms.json.   check_rooms.py [SRC [RULES [BUILD]]]

BUILD is a build folder. Its CTest lists the tests that exist. Without BUILD, or in a build without cmocka, state_tested_by is not checked. The script
prints one line for each breach, which begins with file:line, and exits with 1. Without breaches, it prints one line of measures.
"""
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from source import Source

HERE = Path(__file__).resolve().parent
SUFFIXES = {".c", ".h", ".def"}


def node_of(name: str) -> str:
    """Returns the node of the dependency graph. A .c file, its header and its table share one node."""
    return name.rsplit(".", 1)[0]


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Returns the shortest circle through each node, and each circle only once."""
    found, known = [], set()
    for start in sorted(arrows):
        circle = way_back(arrows, start)
        if circle and frozenset(circle) not in known:
            known.add(frozenset(circle))
            found.append(circle)
    return found


def way_back(arrows: dict[str, set[str]], start: str) -> list[str]:
    ways, reached = [[start]], {start}
    for way in ways:
        for node in sorted(arrows.get(way[-1], ())):
            if node == start:
                return way
            if node not in reached:
                reached.add(node)
                ways.append(way + [node])
    return []


class House:
    def __init__(self, src: Path, rules: dict, tests: set[str] | None = None):
        self.src, self.rules, self.tests, self.breaches = src, rules, tests, []
        self.files = {}
        for path in sorted(p for p in src.rglob("*") if p.is_file()):
            name = path.relative_to(src).as_posix()
            if path.suffix in SUFFIXES:
                self.files[name] = Source(path, name)
            else:
                self.breach(name, 1, f"only {', '.join(sorted(SUFFIXES))} files live here")

    def breach(self, name: str, line: int, text: str) -> None:
        self.breaches.append(f"{self.src.name}/{name}:{line}: {text}")

    def room_of(self, name: str) -> str | None:
        parts = name.split("/")
        return parts[0] if len(parts) == 2 and parts[0] in self.rules["rooms"] else None

    def inhabitants(self):
        """Returns (name, source, room) of each file in a room."""
        return [(name, source, self.room_of(name)) for name, source in self.files.items() if self.room_of(name)]

    # Each of the following methods checks one rule.

    def check_rules_point_down(self) -> None:
        order = list(self.rules["rooms"])
        for room, below in self.rules["rooms"].items():
            for other in below:
                if other not in order or order.index(other) >= order.index(room):
                    self.breaches.append(f"rooms.json: {room} may not include {other}: it is not below it")

    def check_rss_stats(self) -> None:
        for name in self.files:
            if not self.room_of(name):
                self.breach(name, 1, "belongs to no room (src/<room>/<file>, rooms in rooms.json)")

    def check_rooms_have_files(self) -> None:
        for room in self.rules["rooms"].keys() - {room for _, _, room in self.inhabitants()}:
            self.breaches.append(f"rooms.json: the room {room} has no file")

    def check_unique_names(self) -> None:
        seen = defaultdict(list)
        for name in self.files:
            seen[name.split("/")[-1]].append(name)
        for names in seen.values():
            for name in names[1:]:
                self.breach(name, 1, f"has the file name of {names[0]}")

    def check_includes(self) -> None:
        public = self.rules["public_header"]
        for name, source, room in self.inhabitants():
            allowed = {room, *self.rules["rooms"][room]}
            for target, line in source.includes:
                if target == public["name"]:
                    if room not in public["rooms"]:
                        self.breach(name, line, f"{room} may not include the public header {target}")
                elif target not in self.files:
                    self.breach(name, line, f'includes "{target}", which is no file of src/ (write "room/file.h")')
                elif target.endswith(".c"):
                    self.breach(name, line, f"includes {target}: no file of src/ includes a .c file")
                elif self.room_of(target) not in allowed:
                    self.breach(name, line, f"{room} may not include {self.room_of(target)} ({target})")

    def check_cycles(self) -> None:
        state = {}

        def visit(name: str, path: list[str]) -> None:
            state[name] = "open"
            for target, line in self.files[name].includes:
                if state.get(target) == "open":
                    loop = path[path.index(target):] + [target]
                    self.breach(name, line, "cycle: " + " -> ".join(loop))
                elif target in self.files and target not in state:
                    visit(target, path + [target])
            state[name] = "done"

        for name in self.files:
            if name not in state:
                visit(name, [name])

    def definitions(self) -> dict[str, str]:
        """Returns a map from the functions and variables that a .c file defines with external linkage to the node that defines them."""
        return {symbol: node_of(name) for name, source, _ in self.inhabitants() if name.endswith(".c")
                for symbol in source.defined()}

    def arrows(self) -> dict[str, dict[str, str]]:
        """Returns for each node the nodes of its room that it includes, or whose functions and variables it names, with the place of the name."""
        owner, found = self.definitions(), defaultdict(dict)
        for name, source, room in self.inhabitants():
            here, seen = node_of(name), [(node_of(target), line, target) for target, line in source.includes if target in self.files]
            if name.endswith(".c"):
                seen += [(owner[word], line, word) for word, line in source.words() if word in owner]
            for node, line, what in seen:
                if node != here and self.room_of(node) == room:
                    found[here].setdefault(node, f"{name}:{line} names {what}")
        return found

    def check_circles(self) -> None:
        """No two files of a room may depend on each other, not even through other files."""
        arrows = self.arrows()
        for circle in circles({node: set(to) for node, to in arrows.items()}):
            name = min(name for name in self.files if node_of(name) == circle[0])
            ways = "; ".join(arrows[a][b] for a, b in zip(circle, circle[1:] + circle[:1]))
            self.breach(name, 1, f"circle: {' -> '.join(circle + circle[:1])} ({ways})")

    def check_sizes(self) -> None:
        for name, source in self.files.items():
            if source.lines > self.rules["file_lines"]:
                self.breach(name, 1, f"{source.lines} lines, at most {self.rules['file_lines']}")
            for function in source.functions():
                if function.length > self.rules["function_lines"]:
                    self.breach(name, function.line,
                                f"{function.name}() has {function.length} lines, at most {self.rules['function_lines']}")

    def check_conditionals(self) -> None:
        for name, source in self.files.items():
            if self.room_of(name) not in self.rules["conditional_rooms"]:
                for line, text in source.conditionals():
                    self.breach(name, line, f"{text}: conditionals live in {' and '.join(self.rules['conditional_rooms'])}")

    def check_os_calls(self) -> None:
        for name, source, room in self.inhabitants():
            if room == self.rules["os_room"]:
                continue
            for line, call in source.uses(self.rules["os_calls"], but_in=self.rules["os_calls_may_be_named_by"]):
                self.breach(name, line, f"{call}() outside the room {self.rules['os_room']}")
            for header, line in source.system_includes:
                if any(header == h or (h.endswith("/") and header.startswith(h)) for h in self.rules["os_headers"]):
                    self.breach(name, line, f"<{header}> outside the room {self.rules['os_room']}")

    def check_environment(self) -> None:
        place, askers = self.rules["environment_place"], set()
        for name, source, room in self.inhabitants():
            for line, call in source.uses(self.rules["environment_calls"]):
                if room != self.rules["os_room"]:
                    self.breach(name, line, f"{call} outside the room {self.rules['os_room']}")
                elif askers - {name}:
                    self.breach(name, line, f"{call} in a second file of the room {room}")
                else:
                    askers.add(name)
            for line, door in source.members(self.rules["environment_doors"]):
                if name != place and room != self.rules["os_room"]:
                    self.breach(name, line, f"{door}(): only {place} reads the environment")

    def shared_state(self) -> dict[str, str]:
        """Returns a map from the variables that a .c file defines for other files to their room."""
        return {variable: room for name, source, room in self.inhabitants() if name.endswith(".c")
                for variable in source.state() if variable in source.defined()}

    def states(self) -> dict[str, list[str]]:
        """Returns for each .c file the variables that it defines, and the variables of its room that it names."""
        shared, found = self.shared_state(), {}
        for name, source, room in self.inhabitants():
            if name.endswith(".c"):
                words = {word for word, _ in source.words()}
                named = sorted(variable for variable in words & shared.keys() if shared[variable] == room)
                found[name] = list(dict.fromkeys(source.state() + named))
        return found

    def check_state_is_tested(self) -> None:
        """A .c file with state, its own or its room's, must have a unit test of its name, or rooms.json must name the test that covers it."""
        if self.tests is None:
            return
        covered = self.rules["state_tested_by"]
        for name, state in self.states().items():
            test = "unit_" + Path(name).stem
            if name in covered and (not state or test in self.tests):
                self.breach(name, 1, f"rooms.json names a test for it, but it has {'a unit test' if state else 'no state'}")
            elif state and name not in covered and test not in self.tests:
                self.breach(name, 1, f"has state ({', '.join(state)}), but there is no test {test}, and rooms.json names none")
        for name, test in covered.items():
            if name not in self.files:
                self.breaches.append(f"rooms.json: state_tested_by: there is no file {name}")
            if test not in self.tests:
                self.breaches.append(f"rooms.json: state_tested_by: {name}: there is no test {test}")

    def check(self) -> list[str]:
        for rule in (method for method in dir(self) if method.startswith("check_")):
            getattr(self, rule)()
        return self.breaches

    def measures(self) -> str:
        lengths = [f.length for source in self.files.values() for f in source.functions()] or [0]
        lines = [source.lines for source in self.files.values()] or [0]
        return (f"{len(lines)} files, {sum(lines)} lines, longest file {max(lines)}; {len(lengths)} functions, "
                f"median {statistics.median(lengths):g} lines, longest {max(lengths)}")


def tests_of(build: str) -> set[str] | None:
    """Returns the names of a build's tests, or None if the build has no unit tests."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    names = {test["name"] for test in json.loads(listed.stdout)["tests"]}
    if any(name.startswith("unit_") for name in names):
        return names
    print("this build has no unit tests: state_tested_by was not checked")
    return None


def main(arguments: list[str]) -> int:
    src = Path(arguments[0]) if arguments else HERE.parents[2] / "src"
    rules = json.loads(Path(arguments[1] if len(arguments) > 1 else HERE / "rooms.json").read_text())
    house = House(src.resolve(), rules, tests_of(arguments[2]) if len(arguments) > 2 else None)
    if not house.files:
        print(f"{src}: no file to check")
        return 1
    breaches = house.check()
    print("\n".join(breaches) if breaches else f"rooms: {house.measures()}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
