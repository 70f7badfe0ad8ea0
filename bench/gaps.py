"""Measures what learning can gain at most: the gaps between HAKMEM's defaults, the best single fixed setting for all programs, and the best fixed
setting for each program.

The search runs every candidate once on every program. The finals run, for each program, the candidates that looked best for it, interleaved with the
defaults, the learner and the best single settings. The first half of the rounds picks the best candidate, and only the other half tells its figures,
because the best of many noisy figures is always too good.
"""
import math
import statistics
from dataclasses import dataclass, replace

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.table import Column, Table

import contest
from contest import Course, Play, Setting
from measure import BadRun
from plots import DOT, STYLE, as_svg, colour

# CPU x RSS is the measure that a user would accept for both at once: a setting that takes 1 % more memory must save 1 % of the processor time.
MEASURES = ("cpu", "faults", "rss", "cpu x rss")
FINALISTS = 4  # candidates of each measure
LEARNED, SINGLE, OWN = "learned", "best single", "best of its own"
KINDS = (LEARNED, SINGLE, OWN)  # shown beside the defaults


@dataclass
class Gap:
    """Figures of one program by one measure, as ratios to the defaults, and the setting that is its own best."""

    program: str
    measure: str
    ratios: dict[str, float]
    options: dict[str, str]


def best(settings: list[Setting], play: str, measure: str, count: int) -> list[Setting]:
    return sorted(settings, key=lambda setting: contest.of_play(setting, play)[measure])[:count]


def singles(settings: list[Setting]) -> dict[str, Setting]:
    """The best single setting for all programs, by each measure."""
    return {measure: min(settings, key=lambda setting: contest.mean(setting, measure)) for measure in MEASURES}


def halves(setting: Setting) -> tuple[Setting, Setting]:
    """The rounds that pick, and the rounds that tell."""
    half = len(setting.runs) // 2
    return replace(setting, runs=setting.runs[:half]), replace(setting, runs=setting.runs[half:])


def finals(course: Course, play: Play, searched: list[Setting], single: dict[str, Setting], rounds: int) -> list[Gap]:
    chosen = [one for measure in MEASURES for one in best(searched, play.name, measure, FINALISTS)]
    learned, defaults = Setting(LEARNED, {}), searched[0]
    runners = {one.name: replace(one, runs=[]) for one in (learned, defaults, *single.values(), *chosen)}
    Course(course.runner, course.library, [play], course.dice.randrange(1 << 30)).finals(list(runners.values()), rounds)
    picking, telling = ({name: halves(one)[part] for name, one in runners.items()} for part in (0, 1))
    gaps = []
    for measure in MEASURES:
        own = best([one for one in picking.values() if one.name != LEARNED], play.name, measure, 1)[0].name
        names = {LEARNED: LEARNED, SINGLE: single[measure].name, OWN: own}
        value = {name: contest.of_play(telling[name], play.name)[measure] for name in {defaults.name, *names.values()}}
        gaps.append(Gap(play.name, measure, {kind: value[name] / value[defaults.name] for kind, name in names.items()}, runners[own].options))
    return gaps


def measured(course: Course, count: int, seed: int, jobs: int, rounds: int) -> tuple[list[Gap], dict[str, Setting]]:
    searched = course.search(contest.candidates(count, seed), long=False, jobs=jobs)
    single = singles(searched)
    gaps = []
    for play in course.plays:
        try:
            gaps += finals(course, play, searched, single, rounds)
        except BadRun as bad:  # a program that fails once must not cost the figures of the others
            course.failed[play.name] = str(bad)
    return gaps, single


def means(gaps: list[Gap]) -> dict[str, dict[str, float]]:
    """Geometric means over the programs: by measure, then by kind."""
    return {measure: {kind: statistics.geometric_mean(gap.ratios[kind] for gap in gaps if gap.measure == measure) for kind in KINDS}
            for measure in MEASURES}


def table(gaps: list[Gap]) -> Table:
    """Each cell: the learner, the best single setting and the program's own best, as ratios to the defaults."""
    shown = Table("", *(Column(measure, justify="right") for measure in MEASURES), title=f"{' / '.join(KINDS)}, to the defaults")
    rows = {"all, geometric mean": means(gaps)}
    for gap in gaps:
        rows.setdefault(gap.program, {})[gap.measure] = gap.ratios
    for name, row in rows.items():
        shown.add_row(name, *(" ".join(f"{row[measure][kind]:.2f}" for kind in KINDS) for measure in MEASURES))
    return shown


def picture(gaps: list[Gap]) -> str:
    """One panel a measure, one row a program: what the learner, the best single and the program's own best setting take of the defaults' cost."""
    programs = list(dict.fromkeys(gap.program for gap in gaps))
    tints = dict(zip(KINDS, (colour("hakmem"), colour("mimalloc"), colour("jemalloc"))))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 1.2 + 0.24 * len(programs)), layout="constrained")
        for panel, measure in enumerate(MEASURES):
            axes = figure.add_subplot(1, len(MEASURES), panel + 1)
            axes.set_title(measure, fontsize=10, loc="left")
            axes.axvline(1, color=colour("soft"), linewidth=1)
            seen = {gap.program: gap.ratios for gap in gaps if gap.measure == measure}
            for at, program in enumerate(programs):
                axes.plot([min(seen[program].values(), default=1), 1], (at, at), color=colour("grid"), linewidth=1.5, zorder=1)
                for kind in KINDS:
                    axes.plot(seen[program][kind], at, marker="o", markersize=DOT * 0.75, color=tints[kind], zorder=2)
            axes.set_ylim(len(programs) - 0.4, -0.6)
            axes.set_xlim(0.0 if min(min(r.values()) for r in seen.values()) < 0.5 else 0.5, 1.05 * max(1.2, *(max(r.values()) for r in seen.values())))
            axes.set_yticks(range(len(programs)), programs if panel == 0 else [""] * len(programs))
            axes.tick_params(axis="y", length=0)
        handles = [Line2D([], [], color=tints[kind], marker="o", linestyle="", label=kind) for kind in KINDS]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(KINDS))
        return as_svg(figure)


def share(value: dict[str, float]) -> float:
    """The share of the gap between the defaults and the own best settings that the learner takes."""
    return math.log(value[LEARNED]) / math.log(value[OWN]) if value[OWN] < 1 else math.nan
