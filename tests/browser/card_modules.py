"""The module that draws cards, as it is sent to a page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from ipyagent.ui.card import card_module


def count_modules(page: Page) -> Callable[[], int]:
    """Return how to count the messages that brought the module to the page, from its next load."""
    marker = card_module().hash.encode()
    sizes: list[int] = []

    def receive(payload: str | bytes) -> None:
        content = payload.encode() if isinstance(payload, str) else payload
        if marker in content and len(content) > 100_000:
            sizes.append(len(content))

    page.on("websocket", lambda socket: socket.on("framereceived", receive))
    return lambda: len(sizes)


MODULE_COLOUR = """() => getComputedStyle(document.querySelector('.ipyagent-run'))
    .getPropertyValue('--ipyagent-accent')"""
