"""Contains HAKMEM's tool, and its functions for Python programs: report, series, diff, environment, preload.

The functions are imported when they are first used, so that `hakmem run` starts quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Difference", "Part", "Report", "Term", "Trouble", "diff", "environment", "preload", "report", "series"]

if TYPE_CHECKING:
    from hakmem.api import Difference, Part, Report, Term, Trouble, diff, environment, preload, report, series


def __getattr__(name: str) -> object:
    if name in __all__:
        from hakmem import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
