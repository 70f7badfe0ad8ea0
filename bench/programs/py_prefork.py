"""A server that loads users and forks eight workers. Each worker answers requests, and changes a few users. Prints the sum of the memory that the
workers do not share."""

import json
import os
import random
import re
import sys

WORKERS, USERS, LOADED = 8, 60_000, 2_000


def user(number: int) -> dict:
    return {"id": number, "name": f"user{number}", "tags": [f"a{number % 7}", f"b{number % 11}"], "score": number * 1.5}


def serve(users: list[dict], text: str, requests: int, draw: random.Random) -> None:
    for _ in range(requests):
        loaded = json.loads(text)
        for _ in range(10):
            users[draw.randrange(USERS)] = {"id": 0, "name": "new", "tags": ["x"], "score": 1.0}
        names = sum(len(users[draw.randrange(USERS)]["name"]) for _ in range(200))
        found = re.findall(r"user\d+", json.dumps(loaded[:500]))
        assert names > 0 and len(found) == 500
        answer = bytearray(300_000 + draw.randrange(1_000_000))
        answer[::4096] = b"x" * len(answer[::4096])


def private_kib() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def main() -> None:
    users = [user(number) for number in range(USERS)]
    text = json.dumps(users[:LOADED])
    answered, answer = os.pipe()
    stays, stop = os.pipe()  # a worker stays until the server closes `stop`, so that its pages are not given to the next worker
    kib = 0
    for number in range(WORKERS):
        if os.fork() == 0:
            os.close(stop)
            serve(users, text, int(sys.argv[1]), random.Random(number))
            os.write(answer, b"%12d" % private_kib())
            os.read(stays, 1)
            os._exit(0)
        kib += int(os.read(answered, 12))
    os.close(stop)
    assert all(os.wait()[1] == 0 for _ in range(WORKERS))
    print(json.dumps({"private_mib": kib / 1024}))


main()
