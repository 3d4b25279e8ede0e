"""Faults of `make mutants SAMPLE=…` that nothing could notice: by file, the line, what becomes of it, and why."""

EQUIVALENT_CHANGES: dict[str, dict[tuple[str, str], str]] = {}
