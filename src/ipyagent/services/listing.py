"""What the lists of services and of servers have in common."""

from __future__ import annotations


def in_notebook(on: bool | None) -> list[str]:
    """Return the note on what is switched for the notebook alone; None: nothing is."""
    if on is None:
        return []
    return ["active in this notebook" if on else "off in this notebook"]
