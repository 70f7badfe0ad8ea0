"""inputs.py FOLDER PORT: writes what the HTTP servers serve and what their load asks: files, nginx's settings, a body of JSON, lists of URIs."""

import json
import os
import random
import sys
from pathlib import Path
from string import Template

FILES = 100
WORDS = "amber birch cedar delta ember fjord grove heron inlet juniper kelp larch meadow".split()


def order(draw: random.Random, number: int) -> dict:
    lines = [{"item": draw.choice(WORDS), "count": draw.randrange(9), "price": draw.random()} for _ in range(draw.randrange(1, 9))]
    return {"id": f"order-{number:08d}", "tags": draw.sample(WORDS, 2), "lines": lines, "note": " ".join(draw.choices(WORDS, k=draw.randrange(40)))}


def main() -> None:
    folder, port = Path(sys.argv[1]), sys.argv[2]
    draw = random.Random(23)
    (folder / "files").mkdir()
    for number in range(FILES):
        (folder / "files" / f"{number}.txt").write_text("".join(f"{draw.randrange(10**6)}\n" for _ in range(number * number)))
    (folder / "body.json").write_text(json.dumps([order(draw, number) for number in range(12)]))
    paths = {
        "files.uris": [f"{place}{number}.txt" for number in range(FILES) for place in ("", "packed/", "through/", "kept/", "edited/")],
        "orders.uris": [f"orders/{draw.randrange(1, 120)}" for _ in range(FILES)],
    }
    settings = Template((Path(__file__).parent / "nginx.conf").read_text())
    user = "root" if os.geteuid() == 0 else "nobody"
    (folder / "nginx.conf").write_text(settings.substitute(folder=folder, port=port, user=user))
    for name, found in paths.items():
        (folder / name).write_text("".join(f"http://127.0.0.1:{port}/{path}\n" for path in found))


main()
