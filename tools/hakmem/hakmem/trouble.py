"""Errors shown to the user without a traceback; and exit codes, those of <sysexits.h> and of shells."""

USAGE, NO_INPUT, FAILED, NOT_EXECUTABLE, NOT_FOUND = 64, 66, 1, 126, 127


class Trouble(Exception):
    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
