#!/usr/bin/env python3
"""Checks that docs/DECISIONS.md has exactly the decisions that are in force in the archive.   check_decisions.py ROOT

The archive is bench/results/decisions.md, and it has a status for each entry. For each decision that is in force, docs/DECISIONS.md must have a short
entry with the same title. docs/DECISIONS.md may have at most 45 KB.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from gen_docs import decisions_of  # noqa: E402

MOST_BYTES = 45_000
ENTRY = re.compile(r"^\*\*(.+?)\.?\*\*", re.MULTILINE)
DATE = re.compile(r"^\d{4}-\d\d-\d\d: ")


def key(title: str) -> str:
    return DATE.sub("", title).rstrip(".,:").lower()


def check(page: str, archive: str) -> list[str]:
    status = {key(title): said for title, _, said in decisions_of(archive.partition("<!-- /table -->")[2])}
    short = [key(title) for title in ENTRY.findall(page)]
    said = [f"twice: {title}" for title in sorted({title for title in short if short.count(title) > 1})]
    said += [f"not in force in the archive: {title}" for title in short if not status.get(title, "").startswith("in force")]
    said += [f"in force, but missing: {title}" for title, is_so in status.items() if is_so.startswith("in force") and title not in short]
    size = len(page.encode())
    return said + ([f"{size} bytes, at most {MOST_BYTES}"] if size > MOST_BYTES else [])


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    said = check((root / "docs/DECISIONS.md").read_text(), (root / "bench/results/decisions.md").read_text())
    print("\n".join(f"docs/DECISIONS.md: {what}" for what in said) or "the decisions in force are those of the archive")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
