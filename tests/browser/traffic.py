"""Messages between a page and its kernels: counted, and held back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, WebSocketRoute

from ipyagent.ui.card import card_module
from patience import wait_until


def count_modules(page: Page) -> Callable[[], int]:
    """Return how to count the messages that brought the module to the page, from its next load."""
    module = card_module()
    marker = module.hash.encode()
    sizes: list[int] = []

    def receive(payload: str | bytes) -> None:
        content = payload.encode() if isinstance(payload, str) else payload
        if marker in content and len(content) > len(module.source):
            sizes.append(len(content))

    page.on("websocket", lambda socket: socket.on("framereceived", receive))
    return lambda: len(sizes)


MODULE_COLOUR = """() => getComputedStyle(document.querySelector('.ipyagent-card'))
    .getPropertyValue('--ipyagent-accent')"""


class HeldMessages:
    """Hold back those that contain `word`, in either direction, from `begin` to `end`.

    Made before the page is opened.
    """

    def __init__(self, page: Page, word: bytes) -> None:
        self._page, self._word = page, word
        self._held: list[Callable[[], None]] | None = None
        page.route_web_socket(re.compile("/channels"), self._between)

    def begin(self) -> None:
        self._held = []

    def end(self) -> None:
        held, self._held = self._held or [], None
        for send in held:
            send()

    def wait(self) -> None:
        """Until one is held."""
        wait_until(lambda: self._held or self._page.wait_for_timeout(100))

    def _between(self, page: WebSocketRoute) -> None:
        kernel = page.connect_to_server()
        kernel.on_message(lambda message: self._pass(message, page.send))
        page.on_message(lambda message: self._pass(message, kernel.send))

    def _pass(self, message: str | bytes, send: Callable[[str | bytes], None]) -> None:
        data = message.encode() if isinstance(message, str) else message
        if self._held is not None and self._word in data:
            self._held.append(lambda: send(message))
        else:
            send(message)
