"""One line about a value, and a function that tells if it was called on the way"""

from __future__ import annotations

from ipyagent.values.describe import describe


def line(value: object, name: str = "x") -> str:
    return describe(name, value, detail=False).partition(": ")[2]


class Counted:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: object, *rest: object) -> object:
        self.calls += 1
        return value
