#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that no other test checks: sizes of pages, and subjects of commits.   check_house.py ROOT

README.md may have at most 170 lines, and docs/ at most 450 KB. The subject of a commit has at most 72 characters, begins with a capital letter, and
has no prefix and no period at its end. Its first word must be an imperative. The check knows the endings that no imperative has, and other usual
words that are no imperatives. Commits up to FIRST are older than the rule. Without git or its history, subjects are not checked.
"""
import re
import subprocess
import sys
from pathlib import Path

MOST_LINES, MOST_BYTES, MOST_CHARACTERS = 170, 450_000, 72
FIRST = "07522191"
SHAPE = re.compile(r"(?:[A-Z]|[A-Z][\w-]* )")
PREFIX = re.compile(r"\w+(?:\([\w/-]+\))?!?: |\[|(?:wip|fixup|squash)\b", re.IGNORECASE)
NOT_IMPERATIVE = re.compile(r"(?:The|A|An|This|These|It|All|Each|No|Now|Some|New|More)$|\w{3,}ing$|(?!(?:Embed|Feed|Need|Seed|Shed|Speed|Exceed|Proceed|Succeed)$)\w+ed$")


def subject_trouble(subject: str) -> str:
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters, at most {MOST_CHARACTERS}"
    if PREFIX.match(subject):
        return "it has a prefix"
    if not SHAPE.match(subject) or subject.endswith("."):
        return "it does not begin with a capital letter, or ends with a period"
    first = subject.split()[0]
    return f"{first!r} is no imperative" if NOT_IMPERATIVE.match(first) else ""


def subjects(root: Path) -> list[str]:
    def git(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), *words], capture_output=True, text=True)

    try:
        if git("merge-base", "--is-ancestor", FIRST, "HEAD").returncode != 0:
            return []
        return git("log", "--format=%s", f"{FIRST}..HEAD").stdout.splitlines()
    except FileNotFoundError:
        return []


def sizes(root: Path) -> list[str]:
    lines = len((root / "README.md").read_text().splitlines())
    size = sum(path.stat().st_size for path in (root / "docs").rglob("*") if path.is_file())
    return ([f"README.md has {lines} lines, at most {MOST_LINES}"] if lines > MOST_LINES else []) + (
        [f"docs/ has {size} bytes, at most {MOST_BYTES}"] if size > MOST_BYTES else [])


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    checked = subjects(root)
    said = sizes(root) + [f"{subject!r}: {trouble}" for subject in checked if (trouble := subject_trouble(subject))]
    print("\n".join(said) or f"the pages are short enough, and {len(checked)} subjects of commits are as they should be")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
