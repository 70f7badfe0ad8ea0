"""A log searched, cut up and rewritten by regular expressions."""

import random
import re
import sys

PATH = re.compile(r"(?P<verb>GET|PUT) (?P<path>/[\w/.-]+)(\?(?P<query>\S*))? (?P<code>\d{3})")
PAIR = re.compile(r"([a-z]+)=([^&]*)&?")
NUMBER = re.compile(r"\d+")


def entry(draw: random.Random) -> str:
    path = "/".join(str(draw.randrange(10**6)) for _ in range(draw.randrange(1, 6)))
    query = "&".join(f"{draw.choice('abcdef') * 3}={draw.randrange(999)}" for _ in range(5))
    verb, code = draw.choice(["GET", "PUT"]), draw.randrange(200, 510)
    return f"{draw.random():.9f} {verb} /{path}?{query} {code}"


def main() -> None:
    draw, found, length = random.Random(1), {}, 0
    log = "\n".join(entry(draw) for _ in range(4000))
    for turn in range(int(sys.argv[1])):
        for match in PATH.finditer(log):
            parts = match.groupdict()
            parts["pairs"] = PAIR.findall(parts["query"])
            found[f"{turn % 4}{parts['path']}"] = parts
        length += len(NUMBER.sub(lambda m: m.group()[::-1], log))
        length += len(re.split(r"[ /?&=]", log))
    print(len(found), length)


main()
