"""Pages that are connected, without a kernel."""

from __future__ import annotations

from typing import Any

from ipyagent.kernel.pages import Page


class Out:
    """The kernel's end of a page's comm: what was sent there."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def types(self) -> list[str]:
        """What the run said to the page."""
        return [each["message"]["type"] for each in self.sent if each["type"] == "run"]


class MemoryPages:
    """As much of `Pages` as a desk uses."""

    def __init__(self) -> None:
        self.pages: list[Page] = []

    def all(self) -> list[Page]:
        return list(self.pages)

    def add(self, name: str) -> tuple[Page, Out]:
        out = Out()
        self.pages.append(Page(name, (name,), (), _out=out, _in=None))
        return self.pages[-1], out
