"""How long a question waits for the page to draw its card."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ipyagent.ui import views


class Card:
    """Takes note of how long it was waited for."""

    async def present(self, seconds: float, _approval: Any) -> bool:
        self.seconds = seconds
        return True


@pytest.mark.parametrize(
    ("silent", "expected"),
    [([], views.HANDSHAKE), ([True], views.HANDSHAKE), ([True, False], views.DRAWING)],
)
def test_a_page_that_is_open_may_be_busy_drawing(silent: list[bool], expected: float) -> None:
    pages = [SimpleNamespace(silent=each) for each in silent]
    view = views.NotebookView.__new__(views.NotebookView)
    view.card = card = Card()  # type: ignore[assignment]
    view.desk = SimpleNamespace(pages=SimpleNamespace(all=lambda: pages))  # type: ignore[assignment]
    asyncio.run(view.ask(None))  # type: ignore[arg-type]
    assert card.seconds == expected
