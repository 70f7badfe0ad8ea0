"""Runs unmodified programs on glibc's malloc and on a preloaded one, and compares their outcomes."""
