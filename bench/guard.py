#!/usr/bin/env python3
"""Which mistakes allocators find, and what their protections cost: `make bench ROWS=guard`. README.md has examples of its use (Mistakes)."""
import json
import time as clock
from pathlib import Path

import typer

import guard_cost
import guard_peers
import guard_tables
import machine
import mistakes
from guard_peers import Form
from progress import Bar
from results import Unfit, layout

FORMAT = "hakmem-guard/1"
PARTS = ("guard.mistakes", "guard.counted", "guard.timed")
TRIES = 3
ROUNDS = 11


def is_asked_for(rows: str | None) -> bool:
    return bool(rows) and rows.strip().lower().startswith("guard")


def parts_of(rows: str) -> list[str]:
    wanted = [name.strip().lower() for name in rows.split(",")]
    unknown = set(wanted) - {"guard", *PARTS}
    if unknown:
        raise typer.BadParameter(f"no row {', '.join(sorted(unknown))}; there are guard, {', '.join(PARTS)}", param_hint="--rows")
    return list(PARTS) if "guard" in wanted else wanted


def measure(rows: str, library: Path | None, bench_dir: Path, peers: str | None, rounds: int | None, quick: bool) -> dict:
    """The document of a run."""
    forms, notes = guard_peers.find_forms(peers.split(",") if peers else None)
    if library:
        own, unknown = guard_peers.find_modes(library.parent, bench_dir / "bench_idle")
        forms, notes = [*own, *forms], [*unknown, *notes]
    parts = parts_of(rows)
    found = {"format": FORMAT, "began": clock.strftime("%Y-%m-%d %H:%M:%S %z"), "machine": machine.describe(),
             "hakmem": machine.hakmem(library), "forms": [described(form) for form in forms]}
    if "guard.mistakes" in parts:
        looking = [form for form in forms if not form.samples]
        found |= look_for_mistakes(bench_dir / "mistake", looking, 1 if quick else TRIES)
    if "guard.counted" in parts:
        found["counted"], problems = guard_cost.count(bench_dir, forms, quick)
        notes += problems
    if "guard.timed" in parts:
        found["timed"], problems = guard_cost.time(bench_dir, forms, rounds or ROUNDS, quick)
        notes += problems
    return found | {"notes": list(dict.fromkeys(notes))}


def look_for_mistakes(program: Path, forms: list[Form], tries: int) -> dict:
    """How each case ended, and the first line that each form said of each kind; without the mistake, any word is a complaint."""
    cases = [case for kind in mistakes.kinds() for case in kind.cases()]
    outcomes, said, complaints = {}, {}, {}
    with Bar(len(forms)) as bar:
        for form in forms:
            name, env = form.allocator.name, mistakes.environment(form.allocator.environment())
            bar.step(f"mistakes: {name}")
            seen = mistakes.run_all(program, cases, env, tries)
            outcomes[name] = by_kind(seen)
            said[name] = first_lines(seen)
            right = mistakes.run_all(program, cases, env, sound=True)
            wrong = {str(case): mistakes.complaint_when_sound(case.kind, ends[0]) for case, ends in right.items()}
            complaints[name] = {case: text for case, text in wrong.items() if text}
    return {"tries": tries, "outcomes": outcomes, "said": said, "complaints_when_right": complaints}


def by_kind(seen: dict) -> dict:
    """kind -> way -> one text for each size: "message", or the words of all tries if they differ."""
    found: dict = {}
    for case, ends in seen.items():
        words = [f"{end.word} {end.when}".strip() for end in ends]
        text = words[0] if len(set(words)) == 1 else " | ".join(words)
        found.setdefault(case.kind.name, {}).setdefault(case.way, []).append(text)
    return found


def first_lines(seen: dict) -> dict[str, str]:
    lines: dict[str, str] = {}
    for case, ends in seen.items():
        for end in ends:
            if end.said:
                lines.setdefault(case.kind.name, end.said.splitlines()[0][:200])
    return lines


def merge(documents: list[dict]) -> dict:
    """Parts, or allocators, that were measured apart on one machine. The later one's figures are taken."""
    merged: dict = {}
    for document in documents:
        if document.get("format") != FORMAT:
            raise Unfit(f"not a {FORMAT} document")
        for key in ("machine", "tries"):
            if merged.get(key, document.get(key)) != document.get(key, merged.get(key)):
                raise Unfit(f"the documents differ in {key}")
        listed = {form["name"]: form for form in [*merged.get("forms", []), *document["forms"]]}
        notes = dict.fromkeys([*merged.get("notes", []), *document["notes"]])
        merged = together(merged, document) | {"forms": list(listed.values()), "notes": list(notes)}
    return merged


def together(one: dict, other: dict) -> dict:
    both = {key: together(one[key], value) if isinstance(value, dict) and key in one else value for key, value in other.items()}
    return one | both


def save(document: dict, json_path: Path | None, markdown: Path | None, picture: Path | None) -> None:
    for path, make in ((json_path, lambda found: layout(found) + "\n"), (markdown, guard_tables.page), (picture, guard_tables.picture)):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make(document))
            print(f"written: {path}")


def page(
    inputs: list[Path] = typer.Argument(..., metavar="RESULT.json..."),
    merged: Path | None = typer.Option(None, "--merge", metavar="OUT", help="the results, put together as one JSON"),
    markdown: Path | None = typer.Option(None, metavar="OUT"),
    picture: Path | None = typer.Option(None, metavar="OUT.svg"),
    paste: list[Path] = typer.Option([], metavar="FILE.md", help="tables between <!-- guard:NAME --> and <!-- /guard -->"),
) -> None:
    """Tables and the picture from results; nothing is measured."""
    try:
        document = merge([json.loads(path.read_text()) for path in inputs])
        print(guard_tables.summary(document))
        save(document, merged, markdown, picture)
        for path in paste:
            guard_tables.paste(document, path)
    except Unfit as problem:
        raise typer.BadParameter(str(problem)) from None


if __name__ == "__main__":
    typer.run(page)
