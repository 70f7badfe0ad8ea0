#!/usr/bin/env python3
"""Writes the documents that are derived from the tables in src/, which are the only truth about their subjects:

  docs/OPTIONS.md  from src/policy/options.def
  docs/STATS.md    from src/count/stats.def, and from what src/report/ writes
  docs/CLASSES.md  from src/policy/classes.def

gen_docs.py [--root DIR] [--check]
  --root   the tree; by default the one that this file lies in
  --check  writes nothing; exit 1, and a diff, where a document is not what would be written
"""
import argparse
import difflib
import re
import sys
from collections.abc import Callable
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIELD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,"]+?)\s*(?:,|$)')


class Trouble(Exception):
    """A source that this script does not understand: better no document than a wrong one."""


def rows(text: str, macro: str, fields: int) -> list[list[str]]:
    """The arguments of every MACRO(...) of a table, strings without their quotes."""
    found = []
    for line in COMMENT.sub("", text).splitlines():
        if not line.strip():
            continue
        match = re.fullmatch(rf"{macro}\((.*)\)\s*", line)
        row = [field.strip().strip('"') for field in FIELD.findall(match[1])] if match else []
        if len(row) != fields:
            raise Trouble(f"not a row of {fields} fields of {macro}: {line}")
        found.append(row)
    return found


def table(head: list[str], body: list[list[str]], right: set[int] = frozenset()) -> str:
    ruler = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *body]) + "\n"


def note(source: str) -> str:
    return f"<!-- Written by tools/gen_docs.py from {source}: change that, and run it again. -->\n"


def size(number: int) -> str:
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} B"


# OPTIONS.md

OPTIONS_INTRO = """# Options

Each option is an environment variable. No option is needed: the defaults are meant for every program.

```sh
HAKMEM_REPORT=- HAKMEM_PURGE_DELAY=2000 LD_PRELOAD=/path/to/libhakmem.so program   # one variable each
HAKMEM_CONF="report:-,purge_delay:2000" LD_PRELOAD=/path/to/libhakmem.so program   # or all in one
```

- After `HAKMEM_`, a name may be written in small letters or in capitals. Where both forms set an option, its own variable wins.
- Numbers are decimal, and may end in `k`, `m` or `g` (1024, 1024², 1024³).
- A value that is no number in its range is a warning on stderr, and the option stays as it was. A name that nobody knows is a
  warning too.
- All options are read once, at the first allocation or when the library is loaded. Later changes of the environment do nothing.
- Programs that run with rights that their caller does not have (set-user-ID; `AT_SECURE`) read no option.
- The report prints the values in effect.

"""


def options_document(root: Path) -> str:
    body = []
    for kind, name, default, low, high, scope, unit, meaning in rows(
            (root / "src/policy/options.def").read_text(), "HK_OPT", 8):
        if scope != "start":
            raise Trouble(f"option {name}: scope {scope} is explained nowhere in {OPTIONS_INTRO!r}")
        shown = ["none", "any text"]
        if kind == "NUMBER":
            shown = [number(default, unit), f"{number(low, unit)} – {number(high, unit)}"]
        body.append([f"`HAKMEM_{name.upper()}`", *shown, unit, meaning])
    return (note("src/policy/options.def") + OPTIONS_INTRO
            + table(["variable", "default", "range", "unit", "what it decides"], body, {1}))


def number(text: str, unit: str) -> str:
    return size(int(text)) if unit == "bytes" else text


# STATS.md

CLASS_KEYS = {
    "size": "bytes of a block of this class",
    "tier": "tiny, mid or large (docs/CLASSES.md)",
    "served": "blocks handed out from bins of this class, ever",
    "live_blocks": "blocks with the program",
    "live": "their bytes, each block counted whole",
    "in_bins": "bytes of free blocks ready in threads' bins",
    "remote": "bytes of blocks freed by another thread, on their way back",
    "free_in_slabs": "bytes of blocks that are free in their slabs",
    "tails": "bytes at the ends of slabs, too short for a block",
    "slabs": "slabs of this class",
}
JSON_KEYS = {
    "version": "of the library",
    "process": "process id",
    "served": "`malloc`: allocations served, by whichever function; `free`: those of them that are not live any more",
    "threads": "threads that have a cache now",
    "resident": "bytes of memory that the kernel counts for the whole process (/proc/self/statm)",
    "virtual": "bytes of address space that the kernel counts for it; reservations that cost no memory are in it",
    "mapped": "`total`, and its `parts`: the table above",
    "idle": "the part `idle` again: `dirty` may still hold pages, `clean` was never touched or was given back",
    "classes": "one object for each class that was used: the table below",
    "counters": "the counters below",
    "options": "the options in effect; a text that was not set is \"\"",
}
STATS_INTRO = """# The report

`HAKMEM_REPORT=FILE` writes a report when the program exits. FILE ending in `.json` gives JSON, anything else text; `-` is stderr; `%p` in
FILE becomes the process id. A program that links HAKMEM can call `hak_report(FILE)` at any time, and malloc_stats() prints
the text to stderr.

The report allocates nothing. It stops nobody: while other threads allocate, the numbers are close, not exact. When they rest, the
parts sum to what is mapped.

## Where the memory is

"""
STATS_AFTER_PARTS = """
`mapped` is the writable memory that HAKMEM has asked the system for: slabs' memory, big blocks, and its own tables. It is not
resident memory: pages that were never touched, or were given back, are mapped but not resident. And the resident memory of a
process holds its code and stacks as well. The tables grow in windows: most of `metadata` is room that no page was ever needed for.

## Keys of the JSON form

"""


def parts_table(root: Path) -> str:
    parts = re.findall(r'\{"(\w+)", "([^"]+)", census->', (root / "src/report/census.c").read_text())
    count = re.search(r"HK_PARTS = (\d+)", (root / "src/report/census.h").read_text())
    if not count or int(count[1]) != len(parts):
        raise Trouble(f"src/report/census.c: {len(parts)} parts found, census.h says {count and count[1]}")
    return table(["part", "what it is"], [[f"`{name}`", meaning] for name, meaning in parts] +
                 [["= `mapped`", "their sum"]])


def keys_table(root: Path, keys: dict[str, str], function: str) -> str:
    """The keys that are explained must be those that the functions write."""
    text = (root / "src/report/report.c").read_text()
    bodies = re.findall(rf"^static void {function}\(.*?^}}|^void {function}\(.*?^}}", text, re.DOTALL | re.MULTILINE)
    written = {key for body in bodies for key in re.findall(r'\\"(\w+)\\":', body)}
    if function == "hk_report_json":
        written |= {key for word in ("json_parts", "json_classes") for key in first_key(text, word)}
        written -= {"malloc", "free", "dirty", "clean"}
    elif function == "json_classes":
        written -= {"classes"}
    if written != set(keys):
        raise Trouble(f"src/report/report.c, {function}: keys differ from those explained: {sorted(written ^ set(keys))}")
    return table(["key", "what it says"], [[f"`{key}`", meaning] for key, meaning in keys.items()])


def first_key(text: str, function: str) -> list[str]:
    match = re.search(rf'^static void {function}\(.*?\\"(\w+)\\":', text, re.DOTALL | re.MULTILINE)
    if not match:
        raise Trouble(f"src/report/report.c: {function} writes no key")
    return [match[1]]


def stats_document(root: Path) -> str:
    stats = rows((root / "src/count/stats.def").read_text(), "HK_STAT", 4)
    who = {"THREAD": "each thread, summed", "GLOBAL": "all"}
    body = [[f"`{name}`", unit, who[scope], meaning] for scope, name, unit, meaning in stats]
    return (note("src/count/stats.def and src/report/") + STATS_INTRO + parts_table(root) + STATS_AFTER_PARTS
            + keys_table(root, JSON_KEYS, "hk_report_json") + "\n## Of each class\n\n"
            + keys_table(root, CLASS_KEYS, "json_classes")
            + "\nThe text form shows `size`, `tier`, `served`, `live`, `in_bins`, `free_in_slabs` (in slabs) and `slabs`.\n"
            + "\n## Counters\n\nSlow paths count, the hit path does not (but for `served`, docs/DECISIONS.md).\n\n"
            + table(["counter", "unit", "counted by", "meaning"], body))


# CLASSES.md

CLASSES_INTRO = """# Size classes

A request of up to 1 MiB gets a block of the smallest class that holds it. Four classes to a doubling: rounding wastes less than
20 % of a block at worst (but for blocks of up to 64 bytes, whose sizes are the multiples of 16).

- **slab**: a run of 64 KiB units that is cut into blocks of one class; **tail** is what is left at its end.
- **bin**: how many free blocks a thread may keep ready, if its byte budget allows (`HAKMEM_THREAD_CACHE`); one it always may.
- **worst waste**: of the smallest request of the class, the part of the block that is not asked for.

Tiny and mid classes are looked up in 16-byte steps and serve malloc's hit path. Large ones are looked up in 4 KiB steps, behind
it, and come from bins too. A request with an alignment of up to 64 KiB gets the smallest class that holds it and whose size is a
multiple of the alignment. What is larger than 1 MiB, or aligned to more, is no class: it is a mapping of its own.

"""


def classes_document(root: Path) -> str:
    body, below = [], 0
    for index, block, slab_kib, cap, tier in rows((root / "src/policy/classes.def").read_text(), "HK_CLASS", 5):
        bytes_, slab = int(block), int(slab_kib) * 1024
        waste = 100 * (bytes_ - below - 1) / bytes_
        body.append([index, block, tier.lower(), size(slab), str(slab // bytes_), str(slab % bytes_), cap, f"{waste:.1f} %"])
        below = bytes_
    return (note("src/policy/classes.def") + CLASSES_INTRO
            + table(["class", "bytes", "tier", "slab", "blocks", "tail, bytes", "bin, most blocks", "worst waste"], body,
                    {0, 1, 3, 4, 5, 6, 7}))


DOCUMENTS: dict[str, Callable[[Path], str]] = {
    "docs/OPTIONS.md": options_document,
    "docs/STATS.md": stats_document,
    "docs/CLASSES.md": classes_document,
}


def differs(path: Path, name: str, text: str) -> bool:
    old = path.read_text() if path.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), f"{name} (is)", f"{name} (should be)"))
    return old != text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    try:
        texts = {name: document(given.root) for name, document in DOCUMENTS.items()}
    except (Trouble, OSError) as trouble:
        sys.exit(f"gen_docs: {trouble}")
    if given.check:
        stale = [name for name, text in texts.items() if differs(given.root / name, name, text)]
        if stale:
            sys.exit(f"not what its source says: {', '.join(stale)}. Run: python3 tools/gen_docs.py")
        print(f"{', '.join(texts)}: as their sources say")
        return 0
    for name, text in texts.items():
        (given.root / name).parent.mkdir(exist_ok=True)
        (given.root / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
