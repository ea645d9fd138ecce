"""How long a question waits for the page to draw its card."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from comm import get_comm_manager

from ipyagent.kernel.pages import TARGET, Pages
from ipyagent.ui.card import DRAWING, HANDSHAKE, patience
from ipyagent.ui.page_bridge import PageBridge


@pytest.fixture
def desk() -> Iterator[PageBridge]:
    """That of a kernel that nobody listens to."""
    pages = Pages(lambda _page, _message: None)
    session = SimpleNamespace(send=lambda *_args, **_details: None)
    pages.open(SimpleNamespace(session=session, iopub_socket=None, get_parent=dict))
    yield PageBridge(pages, lambda _feeds: {}, lambda _run, _cell: None)
    pages.close()


def connect(page: str) -> None:
    """A page opens its comm."""
    data = {"page": page, "client": "me", "notebooks": ["a.ipynb"]}
    content = {"comm_id": page, "target_name": TARGET, "data": data}
    get_comm_manager().comm_open(None, None, {"content": content})


@pytest.mark.parametrize(
    ("silent", "expected"), [([], HANDSHAKE), ([True], HANDSHAKE), ([True, False], DRAWING)]
)
def test_a_page_that_is_open_may_be_busy_drawing(
    desk: PageBridge, silent: list[bool], expected: float
) -> None:
    for number, is_silent in enumerate(silent):
        connect(f"page-{number}")
        desk.pages.all()[-1].silent = is_silent
    assert patience(desk) == expected


def test_a_front_end_without_the_extension_is_given_a_moment() -> None:
    assert patience(None) == HANDSHAKE
