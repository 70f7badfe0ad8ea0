"""Object code: bodies that attract each other, tasks that pass messages, a tree that changes."""

import sys
from collections import deque


class Vector:
    __slots__ = ("x", "y", "z")

    def __init__(self, x: float, y: float, z: float) -> None:
        self.x, self.y, self.z = x, y, z

    def plus(self, other: "Vector", share: float) -> "Vector":
        return Vector(self.x + share * other.x, self.y + share * other.y, self.z + share * other.z)


class Task:
    def __init__(self, name: int) -> None:
        self.name, self.inbox, self.done = name, deque(), 0

    def step(self, tasks: list["Task"]) -> None:
        message = self.inbox.popleft()
        self.done += message["weight"]
        to = tasks[(self.name * 7 + self.done) % len(tasks)]
        to.inbox.append(
            {"from": self.name, "weight": self.done % 5 + 1, "path": [self.name, to.name]}
        )


class Node:
    def __init__(self, sign: str, *parts: "Node | float") -> None:
        self.sign, self.parts = sign, parts


def grow(depth: int) -> Node:
    parts = (grow(depth - 1), grow(depth - 1)) if depth else (1.0, 2.0)
    return Node("+*"[depth % 2], *parts)


def swapped(node: Node) -> Node:
    return Node(node.sign, *[swapped(p) if isinstance(p, Node) else p for p in node.parts[::-1]])


def bodies(steps: int) -> float:
    places = [Vector(i, i * 0.5, -i) for i in range(1, 6)]
    speeds = [Vector(0.1 * i, 0, 0) for i in range(5)]
    for _ in range(steps):
        for i, place in enumerate(places):
            for other in places[:i]:
                apart = other.plus(place, -1.0)
                pull = 0.001 / (1 + apart.x**2 + apart.y**2 + apart.z**2)
                speeds[i] = speeds[i].plus(apart, pull)
        places = [p.plus(v, 0.01) for p, v in zip(places, speeds, strict=True)]
    return sum(p.x for p in places)


def tasks(steps: int) -> int:
    crew = [Task(i) for i in range(50)]
    for i in range(200):
        crew[i % 50].inbox.append({"from": 0, "weight": 1, "path": [0]})
    for i in range(steps):
        if crew[i % 50].inbox:
            crew[i % 50].step(crew)
    return sum(task.done for task in crew)


def main() -> None:
    n, tree = int(sys.argv[1]), grow(14)
    for _ in range(n):
        tree = swapped(tree)
    print(f"{bodies(n * 1500):.6f} {tasks(n * 20_000)} {tree.sign}")


main()
