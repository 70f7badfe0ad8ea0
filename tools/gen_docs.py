#!/usr/bin/env python3
"""Writes the tables of the documents that are made from the tables of src/, and docs/report.schema.json.

gen_docs.py [--root DIR] [--check]
  --root   the source tree; default: that of this script
  --check  writes nothing; prints a diff and exits with 1 if a document is stale

A document is written by hand. A generated table is between <!-- table:NAME ... --> and <!-- /table -->, and TABLES below has the function that
makes it. The index of bench/results/decisions.md is also generated, from the headings and status lines below it. Some cells in docs/STATS.md are
written by hand: what to do when a counter is high, and what the keys of the JSON report mean. These texts are kept.
"""
import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIELD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,"]+?)\s*(?:,|$)')
END = "<!-- /table -->"
PLACE = re.compile(rf"(<!-- table:(\w+)[^\n]* -->\n).*?({END})", re.DOTALL)


class Trouble(Exception):
    """The error for a source that this script cannot parse."""


def rows(path: Path, macro: str, fields: int) -> list[list[str]]:
    """Returns the arguments of every MACRO(...) of a table, which ends with #undef MACRO; strings without their quotes."""
    found = []
    for line in COMMENT.sub("", path.read_text()).splitlines():
        if not line.strip() or line == f"#undef {macro}":
            continue
        match = re.fullmatch(rf"{macro}\((.*)\)\s*", line)
        row = [field.strip().strip('"') for field in FIELD.findall(match[1])] if match else []
        if len(row) != fields:
            raise Trouble(f"not a row of {fields} fields of {macro}: {line}")
        found.append(row)
    return found


def source(table: str, macro: str, fields: int) -> Callable[[Path], list[list[str]]]:
    return lambda root: rows(root / "src" / table, macro, fields)


options_of = source("policy/options.def", "HK_OPT", 8)
parts_of = source("report/parts.def", "HK_PART", 3)
class_stats_of = source("report/class_stats.def", "HK_CLASS_STAT", 5)
heap_figures_of = source("report/heap_figures.def", "HK_HEAP_FIGURE", 6)
stats_of = source("count/stats.def", "HK_STAT", 4)


def table(head: list[str], body: list[list[str]], right: set[int] = frozenset()) -> str:
    ruler = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *body]) + "\n"


def size(number: int) -> str:
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} B"


FOR_TESTS = "for tests: "


def options_table(root: Path, for_tests: bool = False) -> str:
    body = []
    for kind, name, default, low, high, scope, unit, meaning in options_of(root):
        if scope not in ("start", "policy"):
            raise Trouble(f"option {name}: unknown scope {scope}")
        shown = ["none", "any text"]
        if kind == "NUMBER":
            shown = [number(default, unit), f"{number(low, unit)} – {number(high, unit)}"]
        elif kind == "WORD":
            words = unit.split("|")
            shown, unit = [words[int(default)], ", ".join(words)], "word"
        if meaning.startswith(FOR_TESTS) == for_tests:
            learned = "learned" if scope == "policy" else ""
            body.append([f"`HAKMEM_{name.upper()}`", *shown, unit, learned, meaning.removeprefix(FOR_TESTS)])
    return table(["variable", "default", "range", "unit", "changes", "meaning"], body, {1})


def profiles_table(root: Path) -> str:
    body = [[f"`{name}`", "`" + lines.replace("\\n", ", ").strip(", ") + "`" if lines else "the defaults", meaning]
            for name, lines, meaning in rows(root / "src/policy/profiles.def", "HK_PROFILE", 3)]
    return table(["name", "sets", "purpose"], body)


def number(text: str, unit: str) -> str:
    return size(int(text)) if unit == "bytes" else text


def written_by_hand(root: Path, name: str, expected: set[str], source: str) -> dict[str, list[str]]:
    """Returns the rows of a table of docs/STATS.md by the name in the first cell. One cell of each row is written by hand in the document."""
    place = next((place for place in PLACE.finditer((root / "docs/STATS.md").read_text()) if place[2] == name), None)
    rows_of = [line.strip("|\n ").split(" | ") for line in place[0].splitlines()[3:-1]] if place else []
    found = {cells[0].strip("`"): cells[1:] for cells in rows_of}
    if set(found) != expected:
        raise Trouble(f"docs/STATS.md: its table of {name} and {source} differ: {', '.join(sorted(set(found) ^ expected))}")
    return found


def parts_table(root: Path) -> str:
    body = [[f"`{name}`", meaning, high or "–"] for name, meaning, high in parts_of(root)]
    return table(["part", "meaning", "when it is high"], [*body, ["= `mapped`", "their sum", "–"]])


def written_keys(root: Path) -> set[str]:
    text = (root / "src/report/report_json.c").read_text()
    keys = re.findall(r'\\"(\w+)\\":', text) + re.findall(r'json_(?:limit|array)\(json, "(\w+)"', text)
    return set(keys) | {name for name, *_ in heap_figures_of(root)}


def keys_of(root: Path) -> dict[str, list[str]]:
    return written_by_hand(root, "keys", written_keys(root), "src/report/report_json.c")


def class_stats_table(root: Path) -> str:
    body = [[f"`{name}`", unit, meaning, high or "–"] for name, _, unit, meaning, high in class_stats_of(root)]
    return table(["key", "unit", "meaning", "when it is high"], body)


def counters_table(root: Path) -> str:
    who = {"THREAD": "each thread, summed", "GLOBAL": "the process"}
    high = written_by_hand(root, "counters", {name for _, name, _, _ in stats_of(root)}, "src/count/stats.def")
    body = [[f"`{name}`", unit, who[scope], meaning, high[name][-1]] for scope, name, unit, meaning in stats_of(root)]
    return table(["counter", "unit", "counted by", "meaning", "when it is high"], body)


def an_object(properties: dict[str, object], absent: tuple[str, ...] = ()) -> dict[str, object]:
    """Returns the schema of an object. All properties are required, except those in `absent`."""
    required = [name for name in properties if name not in absent]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def an_array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def option_schema(kind: str, low: str, high: str, unit: str) -> dict[str, object]:
    if kind == "WORD":
        return {"enum": unit.split("|")}
    return {"type": "string"} if kind == "TEXT" else {"type": "integer", "minimum": int(low), "maximum": int(high)}


def site_rules_of(root: Path) -> list[str]:
    names = re.search(r"hk_site_rule_names\[.*?\] = \{(.*?)\};", (root / "src/prof/sites.c").read_text(), re.DOTALL)
    if not names:
        raise Trouble("src/prof/sites.c: hk_site_rule_names not found")
    return re.findall(r'"([\w-]+)"', names[1])


def report_schema(root: Path) -> str:
    count: dict[str, object] = {"type": "integer", "minimum": 0}
    text: dict[str, object] = {"type": "string"}
    limit = {"type": ["integer", "null"], "minimum": 0}
    parts = {name: {**count, "description": meaning} for name, meaning, _ in parts_of(root)}
    class_stats = {name: {**count, "description": f"{unit}: {meaning}"} for name, _, unit, meaning, _ in class_stats_of(root)}
    class_stats["hit_rate"] = {"type": "number", "minimum": 0, "maximum": 1}
    of_class = {name: {"$ref": f"#/$defs/{name}"} for name in class_stats}
    options = options_of(root)
    live_samples = {key: count for key in ("live_count", "live_bytes", "pinned_bytes")}
    forms = {
        "version": text, "process": {"type": "integer"}, "parent": {"type": "integer"}, "command": text, "title": text, "time_ms": count, "threads": count,
        "served": an_object({"malloc": count, "free": count}),
        "resident": count, "resident_statm": count, "resident_peak": count, "resident_pss": count,
        "resident_parts": an_object({**parts, "rest_of_process": count}, ("heaps",)),
        "resident_classes": an_array(an_object({key: count for key in ("size", "live", "rounding", "in_bins", "remote", "free_in_slabs", "pinned",
                                                                       "tails")})),
        "resident_idle": an_object({"ageing": count, "of_huge_pages": count}),
        "resident_rest": an_object({"files": count, "anonymous": count}),
        "virtual": count, "limits": an_object({"address": limit, "data": limit}),
        "mapped": an_object({"total": count, "parts": an_object(parts, ("heaps",))}),
        "idle": an_object({"dirty": count, "clean": count}),
        "tiers": {**an_array(an_object({"tier": {"enum": ["tiny", "small", "medium", "large"]}, **of_class}, ("hit_rate",))), "minItems": 4, "maxItems": 4},
        "classes": an_array(an_object({"size": count, "tier": {"enum": ["tiny", "small", "medium"]}, **of_class}, ("hit_rate",))),
        "thread_lines": {**an_array(an_object({key: count for key in ("thread", "allocations", "bins", "depots")})), "maxItems": 64},
        "heaps": {**an_array(an_object({"heap": count, "name": text, **{key: count for key, *_ in heap_figures_of(root)}})), "maxItems": 32},
        "counters": an_object({name: {**count, "description": f"{unit}: {meaning}"} for _, name, unit, meaning in stats_of(root)}),
        "policy": an_object({"state": {"enum": ["STEADY", "BURST", "REMOTE_HEAVY", "MEM_TIGHT"]},
                             **{name: count for _, name, _, _, _, scope, _, _ in options if scope == "policy"}}),
        "sites": {**an_array(an_object({**{key: count for key in ("site", "block", "live", "bytes", "lifetime_ms", "saved", "wasted")},
                                       "rule": {"enum": site_rules_of(root)}, "frames": an_array(count)})), "maxItems": 20},
        "sampled": an_object({"mean": count, **live_samples, "stacks": {**an_array(an_object({**live_samples, "block": count, "frames": an_array(count)})), "maxItems": 200},
                              "modules": an_array(text)}),
        "options": an_object({name: {**option_schema(kind, low, high, unit), "description": meaning}
                              for kind, name, _, low, high, _, unit, meaning in options}),
    }
    keys = keys_of(root)
    described = {key: {**form, "description": keys[key][0]} for key, form in forms.items()}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The report of HAKMEM",
              "$comment": "Generated by tools/gen_docs.py from src/count/stats.def, src/policy/options.def and src/report/: edit the source and run it again.",
              "$defs": class_stats, **an_object(described, ("heaps",))}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def classes_table(root: Path) -> str:
    body, below = [], 0
    for index, block, slab_kib, cap, tier in rows(root / "src/policy/classes.def", "HK_CLASS", 5):
        bytes_, slab = int(block), int(slab_kib) * 1024
        waste = 100 * (bytes_ - below - 1) / bytes_
        body.append([index, block, tier.lower(), size(slab), str(slab // bytes_), str(slab % bytes_), cap, f"{waste:.1f} %"])
        below = bytes_
    return table(["class", "bytes", "tier", "slab", "blocks", "tail, bytes", "bin, most blocks", "worst waste"], body, {0, 1, 3, 4, 5, 6, 7})


def as_listed(path: str, macro: str, *head: str) -> Callable[[Path], str]:
    """Makes a table with the rows as they stand in the source, the first cell as code."""
    return lambda root: table(list(head), [[f"`{name}`", *cells] for name, *cells in rows(root / path, macro, len(head))])


def decisions_table(root: Path) -> str:
    body = [[who, f"`{what}`", unit, ", ".join(f"`{name}`" for name in (a, b, c) if name), why]
            for _, who, what, unit, a, b, c, why in rows(root / "src/count/decisions.def", "HK_DECISION", 8)]
    return table(["who", "what", "unit", "seen", "why"], body)


MESSAGE_KINDS = {"goes_on": "warning", "ends": "fatal", "either": "mistake"}
VALUE = re.compile(r"%(?:\.(?:\d+|\*))?[lz]*[sducx]")


def message_text(text: str) -> str:
    shown = re.sub("(?:…)+", "…", VALUE.sub("…", text)).replace("%%", "%").replace('\\"', '"')
    return f"`{shown}`"


def messages_of(root: Path, *kinds: str) -> list[list[str]]:
    """Returns the text, kind and meaning of each message of these kinds."""
    all_rows = rows(root / "src/base/messages.def", "HK_MESSAGE", 4)
    for name, then, *_ in all_rows:
        if then not in (*MESSAGE_KINDS, "fault", "access"):
            raise Trouble(f"message {name}: unknown word {then}")
    return [[message_text(text), then, meaning] for _, then, text, meaning in all_rows if then in kinds]


def messages_table(root: Path) -> str:
    body = [[text, MESSAGE_KINDS[then], meaning] for text, then, meaning in messages_of(root, *MESSAGE_KINDS)]
    return table(["message", "kind", "meaning"], body)


def parts_of_messages(root: Path, kind: str) -> str:
    return table(["message", "meaning"], [[text, meaning] for text, _, meaning in messages_of(root, kind)])


STATUS = re.compile(r"\(?Status( of each)?: ((?:in force|replaced by|rejected|measured)\b.*?)\.\)?$", re.DOTALL)


def anchor(title: str) -> str:
    """Returns the anchor of a heading, in the form that viewers of Markdown use."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def decisions_index(root: Path) -> str:
    """Returns the table of the entries that follow it in the document."""
    entries = decisions_of((root / "bench/results/decisions.md").read_text().partition(END)[2])
    body = [[str(at), f"[{title}](#{anchor(heading)})", status] for at, (title, heading, status) in enumerate(entries, 1)]
    return table(["", "decision", "status"], body, right={0})


def decisions_of(text: str) -> list[tuple[str, str, str]]:
    """Returns the title, heading and status of each entry. An entry is a heading with a status, or a paragraph that begins with its title in bold. A
    paragraph ends with its status, or has the status that its heading gives to each paragraph below it. A heading that has neither a status nor
    headings below it is an error."""
    found, heading, of_each = [], "", ""
    paragraphs = [p.strip() for p in text.split("\n\n") if p.strip()]
    for paragraph, next_one in zip(paragraphs, [*paragraphs[1:], ""]):
        status = STATUS.search(paragraph)
        if paragraph.startswith("#"):
            heading, of_each = paragraph.lstrip("# "), ""
            below = STATUS.fullmatch(next_one)
            if below and below[1]:
                of_each = below[2]
            elif below:
                found.append((heading, heading, below[2]))
            elif not next_one.startswith("#" * (paragraph.index(" ") + 1)):
                raise Trouble(f"bench/results/decisions.md: {heading!r} has no line \"Status: in force.\", or replaced by, rejected, measured")
        elif paragraph.startswith("**") and (status or of_each):
            title = " ".join(paragraph[2:].partition("**")[0].split()).rstrip(".,:")
            found.append((title, heading, " ".join(status[2].split()) if status else of_each))
    return found


# For each document, the functions that make its tables.
TABLES: dict[str, dict[str, Callable[[Path], str]]] = {
    "docs/OPTIONS.md": {"options": options_table, "options_for_tests": lambda root: options_table(root, for_tests=True), "profiles": profiles_table},
    "docs/MESSAGES.md": {
        "messages": messages_table, "mistakes": lambda root: parts_of_messages(root, "fault"),
        "accesses": lambda root: parts_of_messages(root, "access")},
    "docs/STATS.md": {"parts": parts_table, "class_stats": class_stats_table,
        # This table stays as it is in the document, after a check that it has a row for each key that the report writes.
        "keys": lambda root: table(["key", "meaning", "when it is high"], [[f"`{key}`", *cells] for key, cells in keys_of(root).items()]),
        "counters": counters_table},
    "docs/LEARNING.md": {"signals": as_listed("src/learn/signals.def", "HK_SIGNAL", "signal", "unit", "meaning"), "decisions": decisions_table},
    "docs/CLASSES.md": {"classes": classes_table},
    "docs/PROFILING.md": {"events": as_listed("src/count/events.def", "HK_EVENT", "event", "its number", "meaning")},
    "docs/GUARD.md": {"protections": as_listed("src/guard/protections.def", "HK_PROTECTION", "word", "protection")},
    "bench/results/decisions.md": {"index": decisions_index},
}
SCHEMA = "docs/report.schema.json"


def document(root: Path, name: str) -> str:
    """Returns the text of a document with the tables as they should be."""
    makers, text = TABLES[name], (root / name).read_text()
    places = [place[2] for place in PLACE.finditer(text)]
    if sorted(places) != sorted(makers):
        raise Trouble(f"{name}: it has the tables {', '.join(places) or 'none'}, and should have {', '.join(makers)}")
    return PLACE.sub(lambda place: place[1] + makers[place[2]](root) + place[3], text)


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
        texts = {name: document(given.root, name) for name in TABLES} | {SCHEMA: report_schema(given.root)}
    except (Trouble, OSError) as trouble:
        sys.exit(f"gen_docs: {trouble}")
    if given.check:
        stale = [name for name, text in texts.items() if differs(given.root / name, name, text)]
        if stale:
            sys.exit(f"stale: {', '.join(stale)}. Run: python3 tools/gen_docs.py")
        print(f"{', '.join(texts)}: up to date")
        return 0
    for name, text in texts.items():
        (given.root / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
