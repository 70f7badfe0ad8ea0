"""Makes the table of the program's own heaps in hakmem top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hakmem.figures import bytes_text, count_text, cut
from hakmem.tables import plain_table

COLUMNS = ("name", "heap", "physical", "limit", "peak", "live", "cached", "blocks", "served", "refused", "resets")
# The order in which columns get room if there is not enough for all. After the name, the column to sort by comes first.
WANTED = ("name", "physical", "limit", "blocks", "refused", "live", "peak", "served", "cached", "resets", "heap")
BYTES = ("physical", "limit", "peak", "live", "cached")
# The columns to sort by. The first one shows best which heap is full.
SORTS = ("physical", "limit", "peak", "live", "cached", "blocks", "served", "refused", "resets", "name", "heap")
FIELDS = {"blocks": "live_blocks"}  # names in the report of columns that have a shorter name
LEAST_NAME = 15  # characters with the gap; a longer name is cut if other columns need the room


def value_of(row: dict[str, Any], column: str) -> Any:
    return row.get(FIELDS.get(column, column))


def text_of(row: dict[str, Any], column: str) -> str:
    value = value_of(row, column)
    if column == "name":
        return "".join(letter if letter.isprintable() else " " for letter in str(value or "-"))
    if value is None or (column == "limit" and value == 0):
        return "-"
    return bytes_text(value) if column in BYTES else str(value) if column == "heap" else count_text(value)


def fitting(widths: dict[str, int], sort: str, room: int) -> tuple[list[str], int]:
    """Returns the columns that fit, and the most characters that the column of names may have."""
    least = {**widths, "name": min(widths["name"], LEAST_NAME)}
    chosen = set()
    for name in dict.fromkeys(("name", sort, *WANTED)):
        if least[name] <= room:
            chosen.add(name)
            room -= least[name]
    return [name for name in COLUMNS if name in chosen], least["name"] + max(0, room)


def heap_table(
    heaps: Sequence[dict[str, Any]], sort: str, descending: bool, rows: int, dense: bool, width: int, heading: Callable[[str], str]
) -> Table:
    """Returns the table of the heaps in the report, which has the 32 largest. `width` is the number of columns of the terminal."""
    by_number = sorted(heaps, key=lambda row: row.get("heap") or 0)
    value: Callable[[dict[str, Any]], Any] = lambda row: value_of(row, sort) or ("" if sort == "name" else 0)
    shown = sorted(by_number, key=value, reverse=descending)[:rows]
    texts = [{name: text_of(row, name) for name in COLUMNS} for row in shown]
    gap = 1 if dense else 3
    widths = {name: gap + max([len(heading(name)), *(len(row[name]) for row in texts)]) for name in COLUMNS}
    columns, room = fitting(widths, sort, width + gap)
    cells = [[Text(cut(row[name], room - gap) if name == "name" else row[name]) for name in columns] for row in texts]
    heads = map(heading, columns)
    return plain_table(f"Heaps of its own ({len(heaps)})", *heads, rows=cells or [["-"] * len(columns)], dense=dense)
