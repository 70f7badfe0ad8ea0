"""Defines the error that is shown to the user without a traceback, and exit codes, which are those of <sysexits.h> and of shells."""

from pathlib import Path

USAGE, NO_INPUT, FAILED, NOT_EXECUTABLE, NOT_FOUND = 64, 66, 1, 126, 127


class Trouble(Exception):
    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def text_of(path: Path) -> str:
    """Returns the text of a file that the user has named."""
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}", NO_INPUT) from None
