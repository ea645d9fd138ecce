"""Views of a plan that goes on waiting when its cell is over."""

from __future__ import annotations

from typing import Any

import pytest
from test_plans_drawn import DRAFT

from harness import Follower
from ipyagent.agent.approvals import Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.shell import Frontend, Surface
from ipyagent.schema import PlanProposed, PlanWaiting, RunFinished, RunStatus, StopReason
from ipyagent.ui import card, plain_view
from ipyagent.ui.static_html import RUN_MIME

DENIED = RunFinished(status=RunStatus.CANCELLED, stop_reason=StopReason.DENIED, duration=1)
HEADLESS = Frontend(Surface.TERMINAL, can_input=False)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What IPython is given to publish."""
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(card, "publish_display_data", lambda data, **more: published.append(data))
    return published


def test_a_notebook_keeps_the_plan_and_how_it_is_decided_on(published: list[dict[str, Any]]):
    view = card.NotebookView(Cell(), Approvals())
    tell = Follower(view)
    tell(PlanProposed(run=DRAFT, approval_id="a1"))
    assert len(published) == 1
    tell(PlanWaiting())
    assert published[1][RUN_MIME]["status"] == "draft"
    assert "%agent approve 0a1b2c" in published[1]["text/html"]
    assert view.card.widget.comm is None


@pytest.mark.parametrize("make", [lambda: card.NotebookView(Cell(), Approvals()), card.MirrorView])
def test_a_plan_that_is_denied_is_published_when_it_is_over(
    make: Any, published: list[dict[str, Any]]
):
    tell = Follower(make())
    tell(PlanProposed(run=DRAFT))
    tell(DENIED)
    assert published[-1][RUN_MIME]["status"] == "cancelled"


def test_without_a_front_end_the_mirror_is_published_once(published: list[dict[str, Any]]):
    tell = Follower(card.MirrorView())
    tell(PlanProposed(run=DRAFT))
    assert published == []
    tell(PlanWaiting())
    assert [each[RUN_MIME]["status"] for each in published] == ["draft"]


async def test_without_input_the_terminal_says_how_the_plan_is_decided_on(
    capsys: pytest.CaptureFixture[str],
):
    approvals = Approvals()
    view = plain_view.TerminalView(Cell(), approvals, HEADLESS)
    tell = Follower(view)
    tell(PlanProposed(run=DRAFT, approval_id="a1"))
    with pytest.raises(NoFrontendError):
        await view.ask(approvals.open_plan(DRAFT, "digest"))
    tell(PlanWaiting())
    assert "This plan waits for `%agent approve 0a1b2c`" in capsys.readouterr().out
