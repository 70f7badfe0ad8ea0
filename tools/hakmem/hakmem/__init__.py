"""The user's tool of HAKMEM: run, top, report, tune, doctor."""

__version__ = "0.1.0"
