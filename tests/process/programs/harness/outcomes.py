"""Converts the output of test programs into {check: outcome}."""

import re
import xml.etree.ElementTree as ElementTree

TAP_LINE = re.compile(r"^(not )?ok\b\s*(\d*)\s*-?\s*(.*)$", re.MULTILINE)
VOLATILE = re.compile(r"0x[0-9a-fA-F]{4,}|\b\d+\.\d+\s?m?s\b")

VALUE = re.compile(r"^([\w.]+)=(\S+)$", re.MULTILINE)
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def numbered(pairs):
    """Returns the (name, outcome) pairs as a dictionary. A name that occurs again gets a number."""
    results, seen = {}, {}
    for name, outcome in pairs:
        seen[name] = seen.get(name, 0) + 1
        results[name if seen[name] == 1 else f"{name} ({seen[name]})"] = outcome
    return results


def tap(text):
    """Reads the Test Anything Protocol: ok, not ok, # SKIP, # TODO. The name of a check is its number."""
    pairs = []
    for place, found in enumerate(TAP_LINE.finditer(text), 1):
        refused, number, words = found.groups()
        directive = re.search(r"#\s*(skip|todo|TODO known breakage)", words, re.IGNORECASE)
        outcome = "fail" if refused else "ok"
        if directive:
            outcome = directive.group(1).split()[0].lower() + ("" if not refused else " not ok")
        pairs.append((number or str(place), outcome))
    return numbered(pairs)


def junit(path):
    """Reads a JUnit XML file. An outcome is ok, fail, error or skip."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return {}
    pairs = []
    for case in root.iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = next((word for tag, word in (("error", "error"), ("failure", "fail"), ("skipped", "skip"))
                        if tag in kinds), "ok")
        name = case.get("name", "?")
        pairs.append((VOLATILE.sub("@", name.rsplit(".", 2)[-1] if "." in name else name), outcome))
    return numbered(pairs)


def values(done):
    """Returns the outcome of a program of this project, and the name=value lines that it wrote."""
    return {"end": done.outcome, **dict(VALUE.findall(done.out))}


def lines(pattern, text, words):
    """Returns every match of `pattern`, which has the groups `name` and `outcome`. `words` translates the printed outcome."""
    found = re.finditer(pattern, text, re.MULTILINE)
    return numbered((VOLATILE.sub("@", m["name"].strip()), words.get(m["outcome"], m["outcome"])) for m in found)


def pytest(path):
    """Reads a JUnit file of pytest. Its names are used unchanged, because the names of parameters contain dots and numbers."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return {}
    words = {"error": "error", "failure": "fail", "skipped": "skip"}
    return numbered((ADDRESS.sub("@", f"{case.get('classname', '')}::{case.get('name', '?')}"),
                     next((words[child.tag] for child in case if child.tag in words), "ok")) for case in root.iter("testcase"))
