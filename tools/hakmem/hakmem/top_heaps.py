"""The table of the program's own heaps in hakmem top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hakmem.figures import bytes_text, count_text
from hakmem.tables import plain_table

COLUMNS = ("name", "heap", "physical", "limit", "peak", "live", "cached", "served", "refused", "resets")
NARROW = ("name", "physical", "limit", "live", "refused")
BYTES = ("physical", "limit", "peak", "live", "cached")
# The columns to sort by: the first is what a full heap is seen by.
SORTS = ("physical", "limit", "peak", "live", "cached", "served", "refused", "resets", "name", "heap")


def text_of(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if column == "name":
        return "".join(letter if letter.isprintable() else " " for letter in str(value or "-"))
    if value is None or (column == "limit" and value == 0):
        return "-"
    return bytes_text(value) if column in BYTES else str(value) if column == "heap" else count_text(value)


def heap_table(
    heaps: Sequence[dict[str, Any]], sort: str, descending: bool, rows: int, dense: bool, narrow: bool, heading: Callable[[str], str]
) -> Table:
    """Of the heaps in the report, which has the 32 largest."""
    columns = [name for name in COLUMNS if not narrow or name in NARROW or name == sort]
    table = plain_table(f"Heaps of its own ({len(heaps)})", *map(heading, columns), dense=dense)
    by_number = sorted(heaps, key=lambda row: row.get("heap") or 0)
    value: Callable[[dict[str, Any]], Any] = lambda row: row.get(sort) or ("" if sort == "name" else 0)
    for row in sorted(by_number, key=value, reverse=descending)[:rows]:
        table.add_row(*[Text(text_of(row, name)) for name in columns])
    if not heaps:
        table.add_row(*["-"] * len(columns))
    return table
