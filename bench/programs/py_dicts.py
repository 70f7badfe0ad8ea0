"""An index of dicts, sets and tuples that grows, is looked up, thinned out and rebuilt."""

import random
import sys
from collections import Counter, defaultdict


def fill(index: dict, draw: random.Random, count: int) -> None:
    for _ in range(count):
        key = draw.randrange(60_000)
        entry = index.setdefault(f"user{key}", {"id": key, "seen": set(), "at": []})
        entry["seen"].add((key, draw.randrange(50)))
        entry["at"].append(draw.random())


def summary(index: dict) -> tuple[int, int]:
    groups: defaultdict = defaultdict(dict)
    for name, entry in index.items():
        groups[entry["id"] % 997][name] = {**entry, "rank": len(entry["seen"])}
    ranks = Counter(e["rank"] for group in groups.values() for e in group.values())
    return len(groups), max(ranks.values(), default=0)


def main() -> None:
    draw, index, shown = random.Random(1), {}, []
    for _ in range(int(sys.argv[1])):
        fill(index, draw, 20_000)
        shown.append(summary(index))
        for name in [name for name in index if draw.random() < 0.2]:
            del index[name]
    print(shown[-1], len(index))


main()
