"""JSON as the library writes it: numbers of 64 bits and finite ones, text in UTF-8. Any other number is None, as if missing; half a
character, which cannot be shown, becomes U+FFFD."""

from __future__ import annotations

import json
import math
import re

LARGEST = (1 << 64) - 1
DIGITS = 20
HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def whole(text: str) -> int | None:
    value = int(text) if len(text) <= DIGITS else LARGEST + 1
    return value if abs(value) <= LARGEST else None


def finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def loads(text: str) -> object:
    """Raises ValueError for any other text."""
    try:
        return json.loads(HALVES.sub(r"\\ufffd", text), parse_int=whole, parse_float=finite, parse_constant=lambda name: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None
