"""HAKMEM's command-line tool: run, top, report, tune, doctor."""

__version__ = "0.1.0"
