"""Runs unmodified programs on glibc's malloc and on a preloaded one, and compares what they do."""
