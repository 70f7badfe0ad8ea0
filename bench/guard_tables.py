"""Tables and the picture of which allocator finds which mistake, and of what that costs."""
import statistics
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import mistakes
import plots
import verdicts
from guard_cost import COUNTED, LOOPS, geometric_mean, relative
from tables import Rows, as_markdown, interval_text, paste_tables

MACHINE = ("cpu", "processors", "memory", "kernel", "libc")
NOT_CAUGHT = ("crashed", "hung")


def words(document: dict, form: str, kind: str) -> list[str]:
    """Of each try of each case of a kind."""
    ways = document["outcomes"][form].get(kind, {})
    ends = [text.split(" | ") if " | " in text else [text] * document["tries"] for sizes in ways.values() for text in sizes]
    return [end.split(" ")[0] for tries in ends for end in tries]


def share(found: list[str]) -> float | None:
    """Caught, of those that could be made; None: of none."""
    able = [word for word in found if word != "none"]
    return sum(word in mistakes.CAUGHT for word in able) / len(able) if able else None


def names(document: dict) -> list[str]:
    return [form["name"] for form in document["forms"] if form["name"] in document.get("outcomes", {})]


def protections(document: dict) -> list[tuple[str, str]]:
    """The forms with a protection, each with the form that its cost is relative to."""
    return [(form["name"], form["base"]) for form in document["forms"] if form["name"] != form["base"]]


def families() -> dict[str, list[mistakes.Kind]]:
    """By title."""
    return {title: [kind for kind in mistakes.kinds() if kind.family == family] for family, title in mistakes.FAMILIES.items()}


# ---- tables -----------------------------------------------------------------

def cell(found: list[str], tries: int) -> str:
    caught = share(found)
    if caught is None:
        return "no call"
    able = sum(word != "none" for word in found) // tries
    if caught in (0, 1):
        return "all" if caught else "·"
    whole = caught * able
    return f"{whole:.0f}/{able}" if abs(whole - round(whole)) < 0.01 else f"{whole:.1f}/{able}"


def kinds_table(document: dict) -> str:
    """One table a family."""
    forms, tries, parts = names(document), document["tries"], []
    for title, members in families().items():
        rows: Rows = [["mistake", "cases", *forms]]
        for kind in members:
            cells = [cell(words(document, form, kind.name), tries) for form in forms]
            rows.append([kind.title, str(len(list(kind.cases()))), *cells])
        parts.append(f"**{title}**\n\n{as_markdown(rows)}")
    return "\n".join(parts)


def summary(document: dict) -> str:
    """Cases caught, by family; and those in which the program broke down or hung, which are not caught."""
    rows: Rows = [["allocator", *mistakes.FAMILIES.values(), "all", "crashed later, or hung"]]
    for form in names(document):
        by_family = [[word for kind in members for word in words(document, form, kind.name)] for members in families().values()]
        every = sum(by_family, [])
        shares = ["-" if caught is None else f"{100 * caught:.0f} %" for caught in map(share, [*by_family, every])]
        damaged = sum(word in NOT_CAUGHT for word in every) / document["tries"]
        rows.append([form, *shares, f"{damaged:.0f}"])
    return as_markdown(rows)


def said(document: dict) -> str:
    """A line of each kind, of the most protected mode of HAKMEM that was run; addresses differ from run to run."""
    lines: dict[str, str] = {}
    for form in document["forms"]:
        if form["role"] == "hakmem":
            lines |= {kind: f"`{line}`" for kind, line in document["said"].get(form["name"], {}).items()}
    order = [kind for kind in mistakes.kinds() if kind.name in lines]
    return as_markdown([["mistake", "what the user reads"], *([kind.title, lines[kind.name].replace("|", "\\|")] for kind in order)])


def cost(document: dict) -> str:
    """Ratios to the same allocator without the protection: means over the programs, and over the loops."""
    counted, timed = document.get("counted", {}), document.get("timed", {})
    head = [f"{what}, {where}" for what in ("instructions", "page faults", "peak RSS", "time") for where in ("programs", "loops")]
    rows: Rows = [["protection", "beside", *head]]
    for name, base in protections(document):
        figures = [times(relative(counted, name, base, figure, list(where)))
                   for figure in ("instructions_m", "page_faults", "peak_mib") for where in (COUNTED, LOOPS)]
        figures += [time_text(timed, name, base, list(where)) for where in (COUNTED, LOOPS)]
        rows.append([name, base, *figures])
    return as_markdown(rows)


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} ×"


def round_ratios(timed: dict, form: str, base: str, wanted: list[str]) -> list[float]:
    """Round by round, the mean over the programs: a busy machine slows both."""
    pairs = [(seen[form], seen[base]) for name, seen in timed.items() if name in wanted and seen.get(form) and seen.get(base)]
    rounds = min((min(len(mine), len(its)) for mine, its in pairs), default=0)
    return [geometric_mean([mine[at] / its[at] for mine, its in pairs if its[at]]) or 1.0 for at in range(rounds)]


def time_text(timed: dict, form: str, base: str, wanted: list[str]) -> str:
    ratios = round_ratios(timed, form, base, wanted)
    if not ratios:
        return "-"
    interval = verdicts.median_interval(ratios)
    return times(statistics.median_high(ratios)) + (f" ({interval_text(interval)})" if interval else "")


def programs(document: dict) -> str:
    """Instructions and peak RSS of each program, as ratios."""
    counted = document.get("counted", {})
    rows: Rows = [["protection", *(f"{name}: {what}" for name in counted for what in ("instructions", "peak"))]]
    for name, base in protections(document):
        cells = [times(relative(counted, name, base, figure, [program])) for program in counted for figure in ("instructions_m", "peak_mib")]
        rows.append([name, *cells])
    return as_markdown(rows)


def forms_table(document: dict) -> str:
    return as_markdown([["column", "version", "what it is"],
                        *([form["name"], form["version"] or "this one", form["about"]] for form in document["forms"])])


def facts(document: dict) -> str:
    where = ", ".join(f"{key}: {document['machine'][key]}" for key in MACHINE if key in document["machine"])
    commit = document["hakmem"].get("commit", "unknown")[:10]
    notes = "".join(f"- {note}\n" for note in document["notes"])
    said = f"\nNot in the tables:\n\n{notes}" if notes else ""
    tries = f", each case {document['tries']} times" if "tries" in document else ""
    return f"Measured {document['began'][:10]}{tries}. {where}. HAKMEM: commit {commit}.\n{said}"


# What of a document each is made from: one of these must be there.
PLACES: dict[str, tuple[tuple[str, ...], Callable[[dict], str]]] = {
    "forms": (("forms",), forms_table),
    "summary": (("outcomes",), summary),
    "kinds": (("outcomes",), kinds_table),
    "said": (("outcomes",), said),
    "cost": (("counted", "timed"), cost),
    "programs": (("counted",), programs),
    "facts": (("forms",), facts),
}


def table(document: dict, name: str) -> str:
    needed, make = PLACES[name]
    return make(document) if document.keys() & needed else ""


def page(document: dict) -> str:
    return "\n".join(filter(None, (table(document, name) for name in PLACES)))


def paste(document: dict, path: Path) -> None:
    paste_tables(path, "guard", PLACES, lambda name: table(document, name))


# ---- the picture ------------------------------------------------------------

def picture(document: dict) -> str:
    """A row a kind, a column an allocator: the darker, the more of its cases are caught."""
    forms = names(document)
    with mpl.rc_context(plots.STYLE):
        figure = Figure(figsize=(plots.WIDTH, 2.4 + 0.17 * (len(mistakes.kinds()) + len(mistakes.FAMILIES))), layout="constrained")
        axes = figure.add_subplot()
        height, labels = 0.0, []
        for title, members in families().items():
            axes.text(-0.1, height + 0.75, title, ha="right", va="center", size=9, weight="bold")
            height += 1
            for kind in members:
                labels.append((height + 0.5, kind.name.replace("_", " ")))
                draw_row(axes, document, forms, kind.name, height)
                height += 1
        axes.set(xlim=(0, len(forms)), ylim=(height, 0))
        axes.set_yticks([at for at, _ in labels], [text for _, text in labels], size=7.5)
        axes.set_xticks([x + 0.5 for x in range(len(forms))], forms, rotation=40, ha="left", size=8.5)
        axes.xaxis.tick_top()
        axes.tick_params(axis="both", length=0)
        axes.spines["bottom"].set_visible(False)
        figure.suptitle("Who catches which mistake", x=0.01, ha="left", size=14, weight="bold")
        figure.supxlabel("Share of a kind's cases (sizes of 8 B to 2 MiB, three ways) that are caught. Empty: none. A dash: no such call.",
                         x=0.01, ha="left", size=8.5, color=plots.colour("soft"))
        return plots.standalone(plots.as_svg(figure))


def draw_row(axes, document: dict, forms: list[str], kind: str, y: float) -> None:
    for x, form in enumerate(forms):
        caught = share(words(document, form, kind))
        tint = plots.colour("hakmem" if form.startswith("hakmem") else "jemalloc")
        if not caught:
            axes.add_patch(Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, facecolor="none", edgecolor=plots.colour("grid"), linewidth=0.5))
        if caught is None:
            axes.text(x + 0.5, y + 0.5, "–", ha="center", va="center", size=7, color=plots.colour("soft"))
        elif caught > 0:
            axes.add_patch(Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, facecolor=tint, alpha=0.12 + 0.88 * caught, linewidth=0))
            if caught < 1:
                axes.text(x + 0.5, y + 0.5, f"{100 * caught:.0f}", ha="center", va="center", size=6.5)
