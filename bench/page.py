"""Writes the result as one self-contained HTML page: the pictures of plots.py and the tables of tables.py."""
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jinja2
from markupsafe import Markup

import plots
import tables
from results import Result
from verdicts import Line

HERE = Path(__file__).resolve().parent
RATIOS = (
    "HAKMEM to the best peer of each row. Right of the line HAKMEM is better, by that factor; the bar is the 95 % interval. "
    "A hollow dot: the interval holds 1, no difference was shown."
)
CHARTS = {
    "programs": ("Memory of real programs over time", "Resident memory of an ordinary run of each, seen every two milliseconds, over its own "
                 "processor time. How long each took is not in it."),
    "memory": ("Memory over time", "Resident memory of one run, seen every few milliseconds. A line that ends earlier was faster. These runs are "
               "not timed."),
    "fragmentation": ("Memory and what is live", "Resident memory of the whole process, as the program saw it itself; the grey ground is what it "
                      "had asked for and not freed."),
}


def save(result: Result, path: Path) -> None:
    path.write_text(render(result))


def render(result: Result) -> str:
    page = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined)
    return page.get_template("page.html").render(
        variables=Markup(plots.variables()),
        summary=summary(result),
        pictures=[(title, note, Markup(svg)) for title, note, svg in pictures(result)],
        tables=[(title, note.replace("*", "").replace("`", ""), rows) for title, note, rows in tables.sections(result)],
        facts=tables.facts(result),
        notes=result.notes,
    )


def summary(result: Result) -> str:
    found = Counter(line.verdict() for line in result.lines())
    verdicts = ", ".join(f"{verdict.value}: {count}" for verdict, count in found.items() if verdict)
    machine = result.machine
    return (
        f"{result.parts[0]['began'][:10]} · {len(result.points)} rows ({verdicts}), {len(result.names('peer'))} peers · "
        f"{machine.get('cpu', '?')}, {machine.get('processors', '?')} processors · commit {result.hakmem.get('commit', 'unknown')[:10]}"
    )


def pictures(result: Result) -> Iterator[tuple[str, str, str]]:
    """Ratios by family of rows, none where HAKMEM did not run; then memory over time."""
    by_family: dict[str, list[Line]] = {}
    for line in result.lines():
        if line.versus:
            by_family.setdefault(family_of(line), []).append(line)
    for family, lines in by_family.items():
        yield family, RATIOS, plots.to_best(lines)
    for group, (title, note) in CHARTS.items():
        drawn = plots.charts(result, group)
        if drawn:
            yield title, note, drawn


def family_of(line: Line) -> str:
    if line.point.work.exact:
        return "Real programs, counted"
    if line.is_memory:
        return "Memory, faults and system calls"
    if line.point.row.startswith("P16"):
        return "Real programs"
    return "Speed" if line.is_goal_row else "Patterns of many kinds"
