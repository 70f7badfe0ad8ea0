"""Records pickled and unpickled, with shared parts and with cycles."""

import datetime
import pickle
import random
import sys


class Person:
    def __init__(self, draw: random.Random, number: int) -> None:
        self.name = f"person {number}"
        self.born = datetime.date(1950, 1, 1) + datetime.timedelta(days=draw.randrange(20_000))
        self.marks = [draw.random() for _ in range(draw.randrange(20))]
        self.friends: list[Person] = []
        self.notes = {f"key{i}": b"x" * draw.randrange(200) for i in range(4)}


def people(draw: random.Random, count: int) -> list[Person]:
    crowd = [Person(draw, i) for i in range(count)]
    for person in crowd:
        person.friends = draw.sample(crowd, 3)
    return crowd


def main() -> None:
    sys.setrecursionlimit(100_000)
    draw, size, kept = random.Random(1), 0, []
    crowds = [people(draw, 300) for _ in range(10)]
    for turn in range(int(sys.argv[1])):
        text = pickle.dumps(crowds[turn % 10], protocol=4)
        kept.append(pickle.loads(text))
        del kept[:-10]
        size += len(text)
    print(size, sum(len(person.marks) for crowd in kept for person in crowd))


main()
