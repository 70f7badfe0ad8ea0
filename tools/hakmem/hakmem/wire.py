"""Parses JSON as the library writes it. Integers beyond 64 bits and numbers that are not finite become None, as if they were missing. An escape of
half a character (a surrogate), which cannot be shown, becomes U+FFFD."""

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
    """Returns the value of a JSON text. Raises ValueError if the text is not JSON."""
    try:
        return json.loads(HALVES.sub(r"\\ufffd", text), parse_int=whole, parse_float=finite, parse_constant=lambda name: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None
