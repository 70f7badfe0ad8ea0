"""Reads the bounds of locks.json, which has a reason for each."""
import json
from pathlib import Path

LOCKS = json.loads((Path(__file__).parent / "locks.json").read_text())


def bound(name: str) -> int:
    return LOCKS[name]["at_most"]


def over(name: str, found: float, what: str) -> list[str]:
    """Returns a message if the number is above its bound, and otherwise an empty list."""
    if found <= bound(name):
        return []
    return [f"{what}: {found:g}, at most {bound(name)} ({LOCKS[name]['why']})"]
