#!/usr/bin/env python3
"""Checks the glossary in CONTRIBUTING.md.   check_glossary.py ROOT

The heading "## Glossary" must be followed by a table | term | meaning | with at most 40 terms. All terms must differ. Each meaning must be one
sentence, and each term must be used in src/ as a word of an identifier or of a comment. docs/MAP.md must link to the glossary.
"""
import re
import sys
from pathlib import Path

MOST_TERMS = 40
SECTION = re.compile(r"^## Glossary\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\|([^|\n]*)\|(.*)\|[ \t]*$", re.MULTILINE)
RULER = re.compile(r"^[ |:-]+$")
LINK = re.compile(r"\]\(\.\./CONTRIBUTING\.md#glossary\)")
# Comments and strings are matched in one pass, so that a quote inside a comment does not begin a string.
TEXT = re.compile(r'(//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"', re.DOTALL)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def words_of(text: str) -> str:
    """Returns the words of a text in lower case, with one space around each. The words of hk_slab_free are hk, slab and free."""
    return " " + " ".join(word.lower() for word in WORD.findall(text)) + " "


def words_of_sources(root: Path) -> str:
    files = sorted(path for path in (root / "src").rglob("*") if path.suffix in (".c", ".h", ".def"))
    return words_of("\n".join(TEXT.sub(lambda m: m[1] or '""', path.read_text()) for path in files))


def singular(term: str) -> str:
    return re.sub(r"(?<![su])s$", "", words_of(term).strip())


def is_used(term: str, words: str) -> bool:
    one = singular(term)
    forms = (words_of(term).strip(), one, one + "s", one + "es", re.sub("y$", "ies", one))
    return any(f" {form} " in words for form in forms)


def rows(section: str) -> list[tuple[str, str]]:
    """Returns the rows of the table, without its head and the line below the head."""
    found = [(m[1].strip(" `*"), m[2].strip()) for m in ROW.finditer(section) if not RULER.match(m[0])]
    return found[1:] if found and found[0] == ("term", "meaning") else []


def trouble_of_meaning(meaning: str) -> str:
    if not meaning.endswith("."):
        return "does not end with a period"
    return "has more than one sentence" if re.search(r"[.!?][)`*\"]*\s", meaning) or "<br" in meaning else ""


def trouble_of_term(term: str, meaning: str, words: str) -> list[str]:
    if not words_of(term).strip():
        return ["a row has no term"]
    said = [] if is_used(term, words) else [f"{term}: no word of src/"]
    wrong = trouble_of_meaning(meaning)
    return said + ([f"{term}: its meaning {wrong}"] if wrong else [])


def check(root: Path) -> list[str]:
    section = SECTION.search((root / "CONTRIBUTING.md").read_text())
    if section is None:
        return ['CONTRIBUTING.md has no heading "## Glossary"']
    table = rows(section[1])
    if not table:
        return ["CONTRIBUTING.md: the glossary has no table | term | meaning | with a row"]
    words, seen, said = words_of_sources(root), set(), []
    if len(table) > MOST_TERMS:
        said.append(f"{len(table)} terms, at most {MOST_TERMS}")
    for term, meaning in table:
        said += trouble_of_term(term, meaning, words)
        if singular(term) in seen:
            said.append(f"{term}: stands twice")
        seen.add(singular(term))
    if not LINK.search((root / "docs/MAP.md").read_text()):
        said.append("docs/MAP.md has no link to ../CONTRIBUTING.md#glossary")
    return said


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    said = check(root)
    print("\n".join(said) or f"{len(rows(SECTION.search((root / 'CONTRIBUTING.md').read_text())[1]))} terms, each used in src/")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
