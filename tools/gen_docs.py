#!/usr/bin/env python3
"""Writes the documents that are derived from the tables in src/, which are the only truth about their subjects:

  docs/OPTIONS.md  from src/policy/options.def
  docs/LEARNING.md from src/learn/signals.def and src/count/decisions.def
  docs/STATS.md    from src/count/stats.def, and from the tables of src/report/ and what it writes
  docs/report.schema.json  from the same
  docs/CLASSES.md  from src/policy/classes.def
  docs/PROFILING.md, its table of events, from src/count/events.def
  docs/DECISIONS.md, its index, from the headings and status lines below it

gen_docs.py [--root DIR] [--check]
  --root   the tree; by default the one that this file lies in
  --check  writes nothing; exit 1, and a diff, where a document is not what would be written
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

- After `HAKMEM_`, a name may be in lower or upper case. If both forms set an option, its own variable takes precedence.
- Numbers are decimal, and may end in `k`, `m` or `g` (1024, 1024², 1024³).
- An invalid value, or one out of range, prints a warning on stderr, and the option keeps its value. An unknown name prints a warning too.
- HAKMEM reads all options once, at the first allocation or when the library is loaded. Later changes of the environment have no effect.
- Programs with more privileges than their caller (set-user-ID; `AT_SECURE`) read no option.
- An option marked "learned" is the initial value of the policy: while `HAKMEM_LEARN` is `on` it may change ([LEARNING.md](LEARNING.md)).
- The report prints the current values.

"""


PROFILES_INTRO = """
## Profiles

`HAKMEM_PROFILE` names one of these, or a file of lines `name = value`, in which `#` begins a comment. `HAKMEM_PROFILE_SAVE` and `hakmem tune`
write such files. Options set by their own variables take precedence.

"""


def options_document(root: Path) -> str:
    body = []
    for kind, name, default, low, high, scope, unit, meaning in rows(
            (root / "src/policy/options.def").read_text(), "HK_OPT", 8):
        if scope not in ("start", "policy"):
            raise Trouble(f"option {name}: scope {scope} is explained nowhere in {OPTIONS_INTRO!r}")
        shown = ["none", "any text"]
        if kind == "NUMBER":
            shown = [number(default, unit), f"{number(low, unit)} – {number(high, unit)}"]
        elif kind == "WORD":
            words = unit.split("|")
            shown, unit = [words[int(default)], ", ".join(words)], "word"
        body.append([f"`HAKMEM_{name.upper()}`", *shown, unit, "learned" if scope == "policy" else "", meaning])
    profiles = [[f"`{name}`", "`" + lines.replace("\\n", ", ").strip(", ") + "`" if lines else "the defaults", meaning]
                for name, lines, meaning in rows((root / "src/policy/profiles.def").read_text(), "HK_PROFILE", 3)]
    return (note("src/policy/options.def and src/policy/profiles.def") + OPTIONS_INTRO
            + table(["variable", "default", "range", "unit", "changes", "what it decides"], body, {1})
            + PROFILES_INTRO + table(["name", "begins with", "for"], profiles))


def number(text: str, unit: str) -> str:
    return size(int(text)) if unit == "bytes" else text


# STATS.md and report.schema.json

# Of each key of the JSON form: what it says, and what to do when it is high.
KEYS = {
    "version": ("of the library", ""),
    "process": ("process id", ""),
    "time_ms": ("milliseconds since HAKMEM started; in a fork child, since it started in the first process", ""),
    "threads": ("threads that have a tcache now", "each has bins of its own: see the part `thread_caches`"),
    "served": ("calls of the whole process", ""),
    "malloc": ("allocations served, by all functions", "a profile of the program tells where they come from"),
    "free": ("those that are no longer live", "far below `malloc`, and falling back further: the program keeps what it allocates"),
    "resident": ("bytes of memory that the kernel counts for the whole process: the sum of Rss in /proc/self/smaps; 0 if that "
                 "cannot be read", "`resident_parts` lists its parts"),
    "resident_statm": ("the same from /proc/self/statm, to compare: the kernel adds that up from sums of each thread, so it may lag by some "
                       "hundred KiB", ""),
    "resident_parts": ("bytes of each part that are in memory; with `rest_of_process` they sum to `resident` within 2 %", ""),
    "rest_of_process": ("resident bytes that are not HAKMEM's: code, stacks, other mappings", "not malloc's doing: look at /proc/PID/smaps"),
    "virtual": ("bytes of address space that the kernel counts for the process", "nothing: reservations that cost no memory are in it"),
    "limits": ("`address` is RLIMIT_AS and `data` RLIMIT_DATA, in bytes; null where there is none", ""),
    "address": ("RLIMIT_AS", ""),
    "data": ("RLIMIT_DATA", ""),
    "mapped": ("`total`, and its `parts`: the table above", ""),
    "total": ("the sum of the parts", ""),
    "parts": ("the table above", ""),
    "idle": ("the part `idle` again, in two", ""),
    "dirty": ("bytes that may still hold pages", "see the part `idle`"),
    "clean": ("bytes that were never touched or were purged", "nothing: address space"),
    "tiers": ("one object for each tier: tiny, mid, large, big (docs/CLASSES.md)", ""),
    "classes": ("one object for each class that was used", ""),
    "size": ("bytes of a block of the class", ""),
    "tier": ("tiny, mid, large or big", ""),
    "hit_rate": ("share of the calls without a miss, of 1", "the nearer to 1 the better: see `misses`"),
    "counters": ("the counters below", ""),
    "sites": ("with `HAKMEM_SITE_RULES`, the twenty call sites with the most live bytes (docs/LEARNING.md)", ""),
    "site": ("where the call of malloc returns to, as a number: `addr2line -e FILE`, less where FILE is mapped", ""),
    "block": ("its blocks are of up to so many bytes, and of more than half; one that allocates others too is several", ""),
    "live": ("bytes of them in use; of blocks of up to 1 MiB an estimate", ""),
    "bytes": ("bytes of them ever", ""),
    "lifetime_ms": ("median lifetime of the freed ones, rounded up to a power of two; 0 if none was freed", ""),
    "rule": ("the rule for its freed blocks, in watch mode the one that would apply: none, keep-warm, purge-at-once", ""),
    "saved": ("bytes that keep-warm saved from being faulted in again, or that purge-at-once purged one purge delay earlier", "good"),
    "wasted": ("bytes that were kept and not reused, or purged and reused at once", "far above `saved`: leave the rules off"),
    "policy": ("the current knobs; `options` has their initial values (docs/LEARNING.md)", ""),
    "state": ("STEADY, BURST, REMOTE_HEAVY or MEM_TIGHT", "MEM_TIGHT: raise `HAKMEM_GOAL`, or find out what is live"),
    "options": ("the current options; an unset text is \"\"", ""),
}
COUNTERS_HIGH = {
    "overflows": "bursts larger than the bins: raise `HAKMEM_THREAD_CACHE` or `HAKMEM_DEPOT`",
    "samples": "as many as `HAKMEM_HEAP_SAMPLE` asks for",
    "samples_lost": "the profile misses these: raise `HAKMEM_HEAP_SAMPLE`",
    "cramped": "with many `misses` of the same class: raise `HAKMEM_THREAD_CACHE`",
    "big_fresh": "as `big_mapped`; from 16 MiB in 150 ms on the learner has more of it put on huge pages",
    "big_missed": "the learner lets the cache of big blocks grow, up to eightfold; beyond, raise `HAKMEM_BIG_CACHE`",
    "remote_frees": "memory is passed from thread to thread; it costs a little more, and is no fault",
    "remote_drained": "as `remote_frees`",
    "remote_stolen": "threads that allocated much sleep now: fine",
    "purged_remote": "as `remote_pending`: an owner sleeps or never allocates; what was freed for it holds no memory",
    "big_calls": "with few `big_reused`: raise `HAKMEM_BIG_CACHE`",
    "resized_in_place": "good: nothing was copied",
    "slabs_made": "with as many released: the program's need of a class comes and goes",
    "slabs_released": "as `slabs_made`",
    "slabs_abandoned": "threads come and go; others take over what they leave",
    "slabs_adopted": "good: what ended threads left is used",
    "orphan_calls": "allocations in destructors of ending threads, or the system refuses memory: see `os_refusals`",
    "purges": "beside few bytes a purge: raise `HAKMEM_PURGE_DELAY`",
    "purged_bytes": "what comes and goes is faulted in anew: if that is much CPU, raise `HAKMEM_PURGE_DELAY`",
    "purged_in_slabs": "as `purged_bytes`",
    "big_reused": "good",
    "big_mapped": "each costs a system call and its page faults: raise `HAKMEM_BIG_CACHE`",
    "big_kept": "sites whose blocks come back after the purge delay: see `sites`",
    "big_dropped": "sites whose blocks do not come back: see `sites`",
    "big_altered": "each was mapped and faulted in for one owner only: do not mlock, protect or advise blocks that come and go",
    "os_refusals": "a limit is near: `ulimit -v`, cgroup, overcommit, vm.max_map_count",
    "limit_refusals": "the heap has come up to `HAKMEM_LIMIT`",
    "out_of_memory": "as `os_refusals` and `limit_refusals`; the first was reported on stderr",
    "sites_lost": "more than a hundred sites, or than some thousand picked blocks live: rules follow the rest",
    "foreign_frees": "the program mixes allocators: find out which library brings its own",
    "deepbind_dropped": "nothing; where two plugins then take each other's names for their own: `HAKMEM_DEEPBIND=keep`",
    "threads_started": "short-lived threads: a pool would save their start",
    "threads_ended": "as `threads_started`",
    "forks": "nothing",
    "fork_stranded": "memory of threads that a fork child does not have; it is small, and gone when the child ends",
}
STATS_INTRO = """# The report

`HAKMEM_REPORT=FILE` writes a report when the program exits. FILE ending in `.json` gives JSON ([its schema](report.schema.json)), in
`.prom` OpenMetrics, any other name text; `-` is stderr; `%p` in FILE becomes the process id. While the program runs, HAKMEM writes the report

- every so many milliseconds: `HAKMEM_REPORT_EVERY=1000`;
- on a signal: `HAKMEM_REPORT_SIGNAL=10`, then `kill -USR1 PID`, and FILE exists within half a second. The program must not
  handle or ignore that signal itself; if it does, HAKMEM says so and leaves the signal alone. As with any handler, a waiting call
  (poll, nanosleep) may end with EINTR;
- when a program that links HAKMEM calls `hak_report(FILE)`; malloc_stats() prints the text to stderr.

Each report replaces FILE as a whole: a reader never sees half of one. HAKMEM's background thread writes the first two, also while
the program is idle.

The report allocates nothing, and stops no thread: while other threads allocate, the numbers are close, not exact. When they rest, the
parts sum to `mapped`. mallinfo2(), mallinfo() and malloc_info() return the same numbers.

## Where the memory is

"""
STATS_AFTER_PARTS = """
All are bytes. `mapped` is the writable memory that HAKMEM has mapped: slabs' memory, big blocks, and its own tables. It
is not resident memory: pages that were never touched, or were purged, are mapped but not resident. The second column of the text,
`resident_parts` in JSON, is the resident memory of each part:

- HAKMEM asks the kernel about each page of its own (mincore). A page of a slab is divided by the slab's bitmap. Blocks in bins are not
  free in the bitmap, so they count like the other blocks of their class. A page of tables that HAKMEM has
  freed in part is divided likewise.
- A mapping without a page of HAKMEM's is `rest_of_process`, as the kernel counts it; in a mapping with such pages, the pages between them are.
- Pages that were read and never written are present, but the kernel does not count them. If a mapping has such pages, the kernel's count
  is divided in proportion to the present pages.

`live` and `rounding` are estimates: the hit path counts no sizes. Each miss notes the requested size, and the blocks of a class are assumed
to be like those at its misses. The size of blocks of more than 1 MiB is known, to the page.

"""


def parts_of(root: Path) -> list[list[str]]:
    return rows((root / "src/report/parts.def").read_text(), "HK_PART", 3)


def tallies_of(root: Path) -> list[list[str]]:
    return rows((root / "src/report/tallies.def").read_text(), "HK_TALLY", 5)


def stats_of(root: Path) -> list[list[str]]:
    stats = rows((root / "src/count/stats.def").read_text(), "HK_STAT", 4)
    names = {name for _, name, _, _ in stats}
    if names != set(COUNTERS_HIGH):
        raise Trouble(f"src/count/stats.def: what to do when it is high, COUNTERS_HIGH does not say or says of what is not there: "
                      f"{sorted(names ^ set(COUNTERS_HIGH))}")
    return stats


def what_to_do(text: str) -> str:
    return text or "–"


def parts_table(root: Path) -> str:
    body = [[f"`{name}`", meaning, what_to_do(high)] for name, meaning, high in parts_of(root)]
    return table(["part", "what it is", "when it is high"], [*body, ["= `mapped`", "their sum", "–"]])


def written_keys(root: Path) -> set[str]:
    text = (root / "src/report/report_json.c").read_text()
    return set(re.findall(r'\\"(\w+)\\":', text)) | set(re.findall(r'json_limit\(text, "(\w+)"', text))


def keys_table(root: Path) -> str:
    """The keys that are explained must be those that are written."""
    if written_keys(root) != set(KEYS):
        raise Trouble(f"src/report/report_json.c: keys differ from those explained: {sorted(written_keys(root) ^ set(KEYS))}")
    return table(["key", "what it says", "when it is high"],
                 [[f"`{key}`", meaning, what_to_do(high)] for key, (meaning, high) in KEYS.items()])


def stats_document(root: Path) -> str:
    who = {"THREAD": "each thread, summed", "GLOBAL": "all"}
    counters = [[f"`{name}`", unit, who[scope], meaning, COUNTERS_HIGH[name]] for scope, name, unit, meaning in stats_of(root)]
    tallies = [[f"`{name}`", unit, meaning, what_to_do(high)] for name, _, unit, meaning, high in tallies_of(root)]
    return (note("src/count/stats.def and src/report/") + STATS_INTRO + parts_table(root) + STATS_AFTER_PARTS
            + "## Of each class and each tier\n\n" + table(["key", "unit", "what it says", "when it is high"], tallies)
            + "\n## Other keys of the JSON form\n\n" + keys_table(root)
            + "\n## Counters\n\nSlow paths count; the hit path counts only `served` (docs/DECISIONS.md).\n\n"
            + table(["counter", "unit", "counted by", "meaning", "when it is high"], counters)
            + "\n## OpenMetrics\n\nThe same: `hakmem_mapped_bytes` and `hakmem_resident_bytes` by `part`, `hakmem_class_…` by `size`"
              " and `tier`, `hakmem_tier_…` by `tier`,\nand each counter as `hakmem_…_total`. Names of bytes end in `_bytes`.\n")


def an_object(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def an_array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def option_schema(kind: str, low: str, high: str, unit: str) -> dict[str, object]:
    if kind == "WORD":
        return {"enum": unit.split("|")}
    return {"type": "string"} if kind == "TEXT" else {"type": "integer", "minimum": int(low), "maximum": int(high)}


def site_rules_of(root: Path) -> list[str]:
    names = re.search(r"hk_site_rule_names\[.*?\] = \{(.*?)\};", (root / "src/learn/site_rules.c").read_text(), re.DOTALL)
    if not names:
        raise Trouble("src/learn/site_rules.c: the names of the rules are not there")
    return re.findall(r'"([\w-]+)"', names[1])


def report_schema(root: Path) -> str:
    count: dict[str, object] = {"type": "integer", "minimum": 0}
    text: dict[str, object] = {"type": "string"}
    limit = {"type": ["integer", "null"], "minimum": 0}
    parts = {name: {**count, "description": meaning} for name, meaning, _ in parts_of(root)}
    tallies = {name: {**count, "description": f"{unit}: {meaning}"} for name, _, unit, meaning, _ in tallies_of(root)}
    tallies["hit_rate"] = {"type": "number", "minimum": 0, "maximum": 1}
    options = rows((root / "src/policy/options.def").read_text(), "HK_OPT", 8)
    forms = {
        "version": text, "process": {"type": "integer"}, "time_ms": count, "threads": count,
        "served": an_object({"malloc": count, "free": count}),
        "resident": count, "resident_statm": count, "resident_parts": an_object({**parts, "rest_of_process": count}),
        "virtual": count, "limits": an_object({"address": limit, "data": limit}),
        "mapped": an_object({"total": count, "parts": an_object(parts)}),
        "idle": an_object({"dirty": count, "clean": count}),
        "tiers": {**an_array(an_object({"tier": {"enum": ["tiny", "mid", "large", "big"]}, **tallies})), "minItems": 4, "maxItems": 4},
        "classes": an_array(an_object({"size": count, "tier": {"enum": ["tiny", "mid", "large"]}, **tallies})),
        "counters": an_object({name: {**count, "description": f"{unit}: {meaning}"} for _, name, unit, meaning in stats_of(root)}),
        "policy": an_object({"state": {"enum": ["STEADY", "BURST", "REMOTE_HEAVY", "MEM_TIGHT"]},
                             **{name: count for _, name, _, _, _, scope, _, _ in options if scope == "policy"}}),
        "sites": {**an_array(an_object({**{key: count for key in ("site", "block", "live", "bytes", "lifetime_ms", "saved", "wasted")},
                                       "rule": {"enum": site_rules_of(root)}})), "maxItems": 20},
        "options": an_object({name: {**option_schema(kind, low, high, unit), "description": meaning}
                              for kind, name, _, low, high, _, unit, meaning in options}),
    }
    described = {key: {**form, "description": KEYS[key][0]} for key, form in forms.items()}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The report of HAKMEM",
              "$comment": note("src/count/stats.def, src/policy/options.def and src/report/").strip("<!-> \n"), **an_object(described)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


# CLASSES.md

CLASSES_INTRO = """# Size classes

A request of up to 1 MiB gets a block of the smallest class that holds it. Each doubling has four or five classes, so rounding wastes less than
20 % of a block at worst (except blocks of up to 64 bytes, whose sizes are the multiples of 16).

- **slab**: a run of 64 KiB slices that is cut into blocks of one class; **tail** is the remainder at its end.
- **bin**: the number of free blocks that a thread may cache, if its byte budget allows (`HAKMEM_THREAD_CACHE`); it may always cache one.
- **worst waste**: the unused part of the block for the smallest request of the class.

Tiny and mid classes are looked up in 16-byte steps and serve malloc's hit path. Large ones are looked up in 4 KiB steps, behind
the hit path, and come from bins too. A request with an alignment of up to 64 KiB gets the smallest class that holds it and whose size is a
multiple of the alignment. A block larger than 1 MiB, or with a larger alignment, has no class: it has a mapping of its own.

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


# LEARNING.md

LEARNING_INTRO = """# What HAKMEM learns, and why it does what it does

The hit path does not count. Slow paths do: bins that ran empty, slabs that were cut, memory that came free and memory that was
reused. Every 150 ms, in a slow call of malloc, the counts since the last tick become one vector of signals, and a pure function
(`hk_learner_step()` in `learn/learner.c`) computes from these, and from its own state, the policy of the next tick. The policy is one
page of knobs, published as a whole by one pointer, and read-only (`policy/policy.h`). Slow paths read it there.

```
  slow paths --counts--> signals --ace--> delay, caps, huge --goal--> knobs --one pointer--> slow paths
                            |                                           |
                     HAKMEM_LEARN_TRACE                           HAKMEM_EXPLAIN, HAKMEM_PROFILE_SAVE
```

The same signals give the same decisions: `hakmem-replay TRACE` makes them again from a recorded trace, without the program.

## The rules

**State** (`learn/phase.c`). BURST: more than 64 slabs net were cut in a tick, and more than a sixteenth of what is warm. REMOTE_HEAVY: more than 1000
blocks were freed by threads that do not own them, and more than 8 for each miss. MEM_TIGHT: what is used is within an eighth of the
memory goal, until it is a quarter away; or tasks of the system wait for memory for a tenth of the time (PSI, /proc/pressure/memory, where
`HAKMEM_GOAL` or `HAKMEM_BACKGROUND=1` allows files to be read). Else STEADY, after three ticks without a sign of the state before. The states say what kind of
time it is, for who reads the log or `hakmem top`; MEM_TIGHT moves knobs. BURST and REMOTE_HEAVY only report: half and twice of each knob that they might have moved (a bin's quick turn, bytes a refill, parcels a
tick) was no better by what the machine can tell, and a knob that nobody can show to matter is not one ([DECISIONS.md](DECISIONS.md)).

Each of the four rules that follow has an option. A rule without a measured gain over programs is off as HAKMEM comes.

**Delay** (`learn/delay.c`; off unless `HAKMEM_LEARN_DELAY=on`). Memory that came free either is wanted again after some time, or never. Both are counted, in spans of
64 ms to 8 s, whether it was still warm or had been given back meanwhile. To hold a byte for `reuse_worth` (500 ms) is taken to cost as
much as to fault it in again. For each delay from 128 ms to 8 s, what it would have cost for all that was seen of late is a sum; the
least wins, if it is 10 % less than that of the delay in force. Half of what was seen is forgotten in 3 s. What came free in
the last 2.4 s may still be wanted, and does not count as lost yet. What is wanted again within 128 ms is warm under any delay, and is
left out. Below 4 MiB nothing is concluded. Where there are more than 512 threads, ticks are rarer: 150 ms for each 512.

**Crowd** (`learn/caps.c`; off unless `HAKMEM_LEARN_CROWD=on`). Where there are more than eight threads for each cpu that the process may use (affinity, and the quota of its control
group), threads share what eight for each cpu might hold ready.

**Big cache** (`learn/caps.c`; `HAKMEM_LEARN_BIG_CACHE`). Big blocks mapped anew that the cache had just let go for want of room, with a hit rate below 55 %, in
two ticks: the cache of big blocks doubles, up to eightfold; after 10 s without, it halves.

**Huge pages** (`learn/huge.c`; `HAKMEM_LEARN_HUGE`). One fault instead of 512, and memory that stays untouched on them is resident all the same: so smaller blocks
stay on small pages, until it is seen what the program does. After a tick in which 16 MiB of big blocks were mapped anew, big blocks that come
and go are put on them from 1 MiB on, not from `huge_blocks_from`, their mapping rounded up to whole ones where that adds no more than a third (what
is added is cut off if the block has not grown into it when the delay is over). It ends after a minute without a sign. While the state is MEM_TIGHT neither
`huge_blocks_from` nor `huge_pages_from` is lower than by default.

**Goal** (`learn/goal.c`). The goal is `HAKMEM_GOAL` in bytes or percent, or else the limit of the control group (version 2: memory.max and memory.high;
version 1: memory.limit_in_bytes). From the start it sets a ceiling: the goal less a twelfth, and less the process's memory outside the heap (if
that cannot be read: 8 MiB, at most a 24th).
Before the footprint exceeds the ceiling, idle memory is purged, the oldest first (`hold_to_ceiling()` in `decay/decay.c`). While MEM_TIGHT, a cached
block must fit a request within 125 %, a thread caches 1 MiB, depots stay empty, and idle memory is purged after 128 ms. Live memory cannot be purged: a program that needs
more than the goal exceeds it. `HAKMEM_LIMIT` is the hard limit. File pages do not count: the system reclaims them itself.

With `HAKMEM_GOAL`, or with `HAKMEM_BACKGROUND=1`, HAKMEM reads the resident memory from the kernel at each tick, and the limits of the group and of its parents every
2 s. Otherwise it opens no file after the start, because a sandbox may kill the program for it; the footprint then stands for the resident memory.

**Classes** (`tcache/bins.c`). A thread's bin grows fourfold when it runs empty or over again before it has served four times its
capacity, and is released when it served nothing between two epochs ([MEMORY.md](MEMORY.md)).

**Sites** (`learn/site_rules.c`, `prof/sites.c`; off unless `HAKMEM_SITE_RULES=on`). The purge delay is the same for all memory, but a program may have one
buffer that it uses each second, and another that it uses once an hour. With this option HAKMEM follows, for each call site of malloc that allocates blocks of more
than 1 MiB, the fate of these blocks. For each freed block it notes the time until a request, from any site, could use its
memory: within the purge delay (soon), within `reuse_worth` (late), or not by then (gone). The notes are the same whether the memory was kept or
purged. To fault a block in again costs as much as to hold it for `reuse_worth`; so, summed over the last 16 to 32 blocks of a site,

- *keep-warm* saves a fault for each late block, and costs the time that late and gone blocks are held beyond the delay;
- *purge-at-once* saves the delay for each late or gone block, and costs a fault, counted twice, for each soon block.

After four blocks HAKMEM follows the better rule, if it saves a sixteenth of a fault per block more than the current one; the rule ends when it costs more than it saves.
Kept blocks are part of the cache of big blocks and of its budget (`HAKMEM_BIG_CACHE`), and are purged last, after `reuse_worth`.

A site is a caller and block sizes of one power of two. The table has room for a hundred sites; a new site replaces one that was not seen for half an hour, or,
among thousands, one that is not seen again. The report's `sites` shows the twenty with the most live bytes, also of blocks of 1 KiB to 1 MiB,
which are sampled (one in 512 KiB on average) and have no rule: the rules tried for them did not pay ([DECISIONS.md](DECISIONS.md#2026-11-22-site-rules)).
`HAKMEM_SITE_RULES=watch` changes nothing; `rule` is then the rule that would apply, `saved` and `wasted` its hypothetical effect. The log names a
site by the return address of its call.

With `on` or `watch`, allocations of up to 1 KiB can still be hits; larger ones, and each free, take the slow path.

## What it is worth

Beside the same HAKMEM with `HAKMEM_LEARN=off`: nothing in programs of half a second and less, which end before much is learned (22 of them: CPU x RSS 1.03, 0.96-1.09), and little in most
that live for seconds: of 31 programs of 0.4 to 7 s one moved its delay, three their big blocks, none a cache. It is there for what the
defaults are wrong for: working sets of big blocks beyond 128 MiB (big cache), and big blocks of 1 to 4 MiB mapped by the dozen (huge pages). Rule by rule, page faults x RSS, with it
to without, over 44 programs (those in which it decides nothing are as without):

| rule | decides in | faults x RSS | as HAKMEM comes |
|---|---|---|---|
| huge pages | 12 | an R program 0.30, Python with images 0.38, bench_phases 0.75, service 0.93, octave 0.97, four others 1.00 | on |
| big cache | 1 | the R program 0.78 | on |
| delay | 5 | bench_phases 1.06, octave and the R program 1.00; on a busy machine 0.84 to 1.53 | off |
| crowd | 3 | 0.96, 1.02, 1.05 | off |
| sites | | 0.97 to 1.16 (scattered) | off |

It does not beat the best fixed setting for all these programs. The figures are in
[DECISIONS.md](DECISIONS.md#learning-judged-by-what-it-is-for), and `bench/rival.py` makes them again.

## Reading the log

`HAKMEM_EXPLAIN=FILE` writes a line of JSON for each decision: `ms` since the start, `who` (the rule), `what` changed, `old` and `new`, `unit`,
what was `seen`, and `why`. For a bin also its `thread` and the `class`'s block size. The log ends at `HAKMEM_EXPLAIN_MOST` bytes. Writing never
blocks a thread that allocates: decisions wait in a ring of 256, and a line of `log` says how many found no room there.

## Freezing

`HAKMEM_PROFILE_SAVE=FILE` writes the knobs at exit; `HAKMEM_PROFILE=FILE` begins with them, and `HAKMEM_LEARN=frozen` keeps
them, except for the memory goal.

## What is seen

"""


def learning_document(root: Path) -> str:
    signals = rows((root / "src/learn/signals.def").read_text(), "HK_SIGNAL", 3)
    decisions = rows((root / "src/count/decisions.def").read_text(), "HK_DECISION", 8)
    seen = [[f"`{name}`", unit, meaning] for name, unit, meaning in signals]
    made = [[who, f"`{what}`", unit, ", ".join(f"`{name}`" for name in (a, b, c) if name), why]
            for _, who, what, unit, a, b, c, why in decisions]
    return (note("src/learn/signals.def and src/count/decisions.def") + LEARNING_INTRO
            + table(["signal", "unit", "meaning"], seen)
            + "\n## What is decided\n\n" + table(["who", "what", "unit", "seen", "why"], made))

# PROFILING.md

EVENTS_BEGIN, EVENTS_END = "<!-- Written by tools/gen_docs.py from src/count/events.def: begin -->\n", "<!-- end -->\n"


def profiling_document(root: Path) -> str:
    """Somebody's prose, but for one table."""
    before, begin, rest = (root / "docs/PROFILING.md").read_text().partition(EVENTS_BEGIN)
    _, end, after = rest.partition(EVENTS_END)
    if not begin or not end:
        raise Trouble("docs/PROFILING.md: the place of the table of events is not marked")
    events = rows((root / "src/count/events.def").read_text(), "HK_EVENT", 3)
    return before + begin + table(["event", "its number", "what happened"], [[f"`{name}`", *row] for name, *row in events]) + end + after


# DECISIONS.md

INDEX_BEGIN, INDEX_END = "<!-- Written by tools/gen_docs.py from the entries below: begin -->\n", "<!-- end -->\n"
STATUS = re.compile(r"\(?Status( of each)?: ((?:in force|replaced by|rejected|measured)\b.*?)\.\)?$", re.DOTALL)


def anchor(title: str) -> str:
    """As the pages that show Markdown make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def decisions_document(root: Path) -> str:
    """Somebody's prose, but for the index."""
    before, begin, rest = (root / "docs/DECISIONS.md").read_text().partition(INDEX_BEGIN)
    _, end, after = rest.partition(INDEX_END)
    if not begin or not end:
        raise Trouble("docs/DECISIONS.md: the place of the index is not marked")
    entries = decisions_of(after)
    body = [[str(at), f"[{title}](#{anchor(heading)})", status] for at, (title, heading, status) in enumerate(entries, 1)]
    return before + begin + table(["", "decision", "status"], body, right={0}) + end + after


def decisions_of(text: str) -> list[tuple[str, str, str]]:
    """Title, heading and status of each entry: a heading with a status, or a paragraph that begins with its title in bold and either
    ends with a status or stands where a heading gives one to each. A heading that has neither a status nor headings below it is
    a mistake."""
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
                raise Trouble(f"docs/DECISIONS.md: {heading!r} has no line \"Status: in force.\", or replaced by, rejected, measured")
        elif paragraph.startswith("**") and (status or of_each):
            title = " ".join(paragraph[2:].partition("**")[0].split()).rstrip(".,:")
            found.append((title, heading, " ".join(status[2].split()) if status else of_each))
    return found


DOCUMENTS: dict[str, Callable[[Path], str]] = {
    "docs/OPTIONS.md": options_document,
    "docs/STATS.md": stats_document,
    "docs/LEARNING.md": learning_document,
    "docs/report.schema.json": report_schema,
    "docs/CLASSES.md": classes_document,
    "docs/PROFILING.md": profiling_document,
    "docs/DECISIONS.md": decisions_document,
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
