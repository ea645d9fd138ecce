"""A kernel's answers to its pages."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from comm.base_comm import BaseComm

from ipyagent.kernel.pages import Message, Page, Pages
from ipyagent.ui.page_bridge import PageBridge


class Wire(BaseComm):
    """A comm whose messages are kept."""

    def __init__(self) -> None:
        super().__init__(target_name="ipyagent", primary=False)
        self.sent: list[Any] = []
        self.arrived = threading.Event()

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
        self.sent.append(data)
        self.arrived.set()


def test_a_request_that_fails_is_replied_to_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Message) -> dict[str, object]:
        raise RuntimeError("out of paper")

    wire = Wire()
    page = Page("one", ("client",), (), _out=wire, _in=wire)
    bridge = PageBridge(Pages(print), lambda _: {}, lambda *_: None, {"models": fail})
    bridge.on_message(page, {"type": "ask", "id": 7, "what": "models"})
    assert wire.arrived.wait(20)
    assert wire.sent == [{"type": "reply", "id": 7, "value": None}]
    assert "a page's request for models failed" in caplog.text
