#!/usr/bin/env python3
"""Simulates a web service for a few seconds: builds orders, writes them as JSON, reads them back, searches and sums them.

workload_json.py [SCALE]   prints figures that depend only on SCALE, so that runs can be compared.
It measures nothing, and its output does not depend on the allocator.
"""
import hashlib
import json
import random
import re
import sys

WORDS = ("amber birch cedar delta ember fjord grove heron inlet juniper kelp larch meadow north orchid pine quartz river "
         "spruce tundra umber valley willow xenon yarrow zephyr").split()


class Dice:
    """A seeded generator. It uses only random(), because the numbers of other functions differ between versions of Python."""

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def words(self, n: int) -> str:
        return " ".join([WORDS[int(self.random() * len(WORDS))] for _ in range(n)])


def order(dice: Dice, number: int) -> dict:
    return {
        "id": f"order-{number:08d}",
        "customer": {"name": dice.words(2).title(), "tags": [dice.words(1) for _ in range(dice.below(6))]},
        "lines": [{"item": dice.words(1 + dice.below(3)), "count": 1 + dice.below(9), "price": dice.below(100_000) / 100}
                  for _ in range(1 + dice.below(8))],
        "note": dice.words(dice.below(40)),
    }


def serve(dice: Dice, first: int, count: int, seen: "hashlib._Hash") -> dict:
    """Serves one batch of requests: writes objects as text, parses the text, and returns an index of the objects, which the service keeps."""
    body = "[" + ",\n".join([json.dumps(order(dice, first + i)) for i in range(count)]) + "]"
    seen.update(body.encode())
    index = {}
    for entry in json.loads(body):
        entry["total"] = round(sum(line["count"] * line["price"] for line in entry["lines"]), 2)
        index[entry["id"]] = entry
    return index


def search(index: dict, word: str) -> int:
    """Searches the notes, and splits, joins and replaces strings. This allocates many short-lived blocks of many sizes."""
    pattern = re.compile(rf"\b{word}\b")
    found = 0
    for entry in index.values():
        if pattern.search(entry["note"]):
            sentences = [part.strip().capitalize() for part in entry["note"].split(word)]
            found += len("; ".join(sentences).replace(" ", "_"))
    return found


def export(index: dict) -> int:
    """Writes all kept orders as one text, and parses it. This is a spike of memory in addition to the long-lived objects."""
    text = json.dumps(list(index.values()), sort_keys=True, indent=1)
    return len(text) + len(json.loads(text))


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    dice, seen, kept = Dice(20260101), hashlib.sha256(), {}
    found, exported, batches, size = 0, 0, max(1, round(40 * scale)), 250
    for batch in range(1, batches + 1):
        kept.update(serve(dice, batch * size, size, seen))
        if batch % 4 == 0:
            found += search(kept, WORDS[batch % len(WORDS)])
        # Removes random orders, so that memory is freed in another order than it was allocated.
        if batch % 5 == 0:
            for key in [key for key in kept if dice.below(8) == 0]:
                del kept[key]
        if batch % 20 == 0:
            exported += export(kept)
    revenue = sum(entry["total"] for entry in kept.values())
    print(f"{batches * size} orders, {len(kept)} kept, revenue {revenue:.2f}, {found} found, {exported} exported")
    print(f"sha256 {seen.hexdigest()}")


if __name__ == "__main__":
    main()
