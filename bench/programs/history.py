"""A history for git fast-import: a few hundred files that change line by line.

history.py COMMITS | git fast-import
"""

import random
import sys

FILES = 300


def source(draw: random.Random, lines: int) -> list[str]:
    return [
        f"line {i} = call_{draw.randrange(500)}({draw.randrange(10**6)});" for i in range(lines)
    ]


def changed(draw: random.Random, lines: list[str]) -> list[str]:
    for _ in range(4):
        at = draw.randrange(len(lines))
        lines[at : at + draw.randrange(4)] = source(draw, draw.randrange(1, 5))
    return lines


def commit(draw: random.Random, number: int, tree: dict[int, list[str]]) -> str:
    parts = [f"commit refs/heads/main\ncommitter A <a@b> {1_700_000_000 + number * 60} +0000\n"]
    message = f"change {number}"
    parts.append(f"data {len(message)}\n{message}\n")
    for file in draw.sample(sorted(tree), 6 if number else FILES):
        text = "\n".join(changed(draw, tree[file])) + "\n"
        parts.append(f"M 100644 inline folder{file % 12}/file{file}.c\ndata {len(text)}\n{text}\n")
    return "".join(parts)


def main() -> None:
    draw = random.Random(1)
    tree = {file: source(draw, draw.randrange(40, 400)) for file in range(FILES)}
    for number in range(int(sys.argv[1])):
        sys.stdout.write(commit(draw, number, tree))


main()
