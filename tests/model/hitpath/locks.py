"""The bounds of locks.json, each with its reason."""
import json
from pathlib import Path

LOCKS = json.loads((Path(__file__).parent / "locks.json").read_text())


def bound(name: str) -> int:
    return LOCKS[name]["at_most"]


def over(name: str, found: float, what: str) -> list[str]:
    """What to say of a number beyond its bound: nothing if it is not."""
    if found <= bound(name):
        return []
    return [f"{what}: {found:g}, at most {bound(name)} ({LOCKS[name]['why']})"]
