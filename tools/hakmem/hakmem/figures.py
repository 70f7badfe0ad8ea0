"""Formats numbers for people. A missing value is shown as a dash."""

from __future__ import annotations

MISSING = "-"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def as_number(value: object) -> float | None:
    """Returns the value, or None if it is not a number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def bytes_text(value: float | None) -> str:
    if value is None:
        return MISSING
    unit = 0
    while abs(value) >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def count_text(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}".replace(",", " ")


def short_text(value: float | None) -> str:
    """Formats the number with about three digits, for example 12.3 M."""
    if value is None:
        return MISSING
    for scale, letter in SCALES:
        if abs(value) >= scale:
            return f"{value / scale:.1f} {letter}"
    return f"{value:.0f}"


def percent_text(share: float | None, digits: int = 2) -> str:
    """Formats a share in percent. It never rounds up to 100 %."""
    if share is None:
        return MISSING
    shown = f"{share * 100:.{digits}f}"
    return f"> {100 - 10**-digits:.{digits}f} %" if share < 1 and float(shown) == 100 else f"{shown} %"


def time_text(seconds: float | None) -> str:
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes}:{left:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{left:02}"


def unit_text(value: object, unit: str) -> str:
    """Formats a setting with its unit, which reports and explain logs name. Bytes have the form of the options, for example 12m."""
    number = as_number(value)
    if number is None:
        return MISSING if value is None else str(value)
    if unit == "bytes":
        text = setting_text(f"{number:.0f}")
        return text if text == "0" or not text.isdecimal() else f"{count_text(number)} bytes"
    return f"{f'{number:g}' if abs(number) < 1e6 else count_text(number)} {'%' if unit == 'percent' else unit}".strip()


def setting_text(value: object) -> str:
    """Formats bytes as the library parses them, for example 12m for 12 MiB."""
    text = str(value)
    number = int(text) if text.isdecimal() else 0
    for scale, letter in ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")):
        if number and number % scale == 0:
            return f"{number // scale}{letter}"
    return text or MISSING
