"""Orders written as JSON, read back and kept for a while, as a web service does."""

import json
import random
import sys

WORDS = "amber birch cedar delta ember fjord grove heron inlet juniper kelp larch meadow".split()
KEPT = 12  # batches


def order(draw: random.Random, number: int) -> dict:
    lines = [
        {
            "item": " ".join(draw.sample(WORDS, 3)),
            "count": draw.randrange(9),
            "price": draw.random(),
        }
        for _ in range(draw.randrange(1, 9))
    ]
    note = " ".join(draw.choices(WORDS, k=draw.randrange(40)))
    return {
        "id": f"order-{number:08d}",
        "tags": draw.sample(WORDS, 2),
        "lines": lines,
        "note": note,
    }


def main() -> None:
    draw, kept, size, total = random.Random(1), {}, 400, 0.0
    for batch in range(int(sys.argv[1])):
        text = json.dumps([order(draw, batch * size + i) for i in range(size)], indent=1)
        kept[batch] = json.loads(text)
        kept.pop(batch - KEPT, None)
        total += sum(line["price"] for entry in kept[batch] for line in entry["lines"])
    print(f"{total:.3f} {len(json.dumps(list(kept.values())))}")


main()
