"""Lines of text split, cut, joined, replaced and sorted: many short lives of many sizes."""

import random
import sys

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def line(draw: random.Random) -> str:
    return " ".join(["".join(draw.choices(LETTERS, k=draw.randrange(1, 12))) for _ in range(20)])


def work(lines: list[str]) -> str:
    words = [word for text in lines for word in text.split()]
    titled = sorted(word.capitalize() + "-" + word[::-1] for word in words)
    joined = [", ".join(titled[i : i + 50]) for i in range(0, len(titled), 50)]
    swapped = [text.replace("a", "<a>").upper().partition("M") for text in joined]
    grown = ""
    for head, sign, tail in swapped:
        grown += tail[:40] + sign + head[-40:]
    return grown


def main() -> None:
    draw, kept = random.Random(1), []
    lines = [line(draw) for _ in range(1500)]
    for turn in range(int(sys.argv[1])):
        kept.append(work(lines))
        del kept[:-8]
        lines[turn % len(lines)] = line(draw)
    print(sum(map(len, kept)), hash("".join(kept)) & 0xFFFF)


main()
