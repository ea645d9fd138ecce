"""Messages between a page and its kernels that take their time."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, WebSocketRoute

from patience import wait_until


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
