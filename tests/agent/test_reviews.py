"""Changes of different things in one reply are asked about together, each on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Lab, Watcher, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.recordings import Signer
from ipyagent.errors import AgentInterrupted
from ipyagent.kernel.threads import EngineThread
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    Run,
    ToolEdited,
    ToolFinished,
    ToolRunning,
    ToolStatus,
)
from ipyagent.tools.base import tool

Plan = Callable[[list[Approval]], list[tuple[int, Answer]]]


class Reviewer(Watcher):
    """Shows all questions at once, and decides when `expected` of them wait, in its own order."""

    asks_together = True
    expected = 2
    decide: Plan = staticmethod(lambda asked: [(0, YES), (1, YES)])

    async def ask(self, approval: Approval) -> None:
        self.asked.append(approval)
        if len(self.asked) == self.expected:
            for index, answer in self.decide(self.asked):
                self.environment.approvals.decide(self.asked[index].id, answer)
        elif len(self.asked) > self.expected:
            self.environment.approvals.decide(approval.id, YES)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.view_class = Reviewer
    return lab


def write(path: str, content: str = "new") -> dict[str, Any]:
    return call("write_file", path=path, content=content)


def review(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *calls: Any, expected: int = 2, decide: Any = None
) -> Run:
    monkeypatch.setattr(Reviewer, "expected", expected)
    if decide:
        monkeypatch.setattr(Reviewer, "decide", staticmethod(lambda asked: decide))
    return lab.run([{"calls": list(calls)}, "Done."], tools=[LOOK])


@tool(where="thread")
def look() -> str:
    """Look."""
    return "seen"


LOOK = look


def statuses(run: Run) -> list[ToolStatus]:
    return [each.status for each in run.executions]


def test_changes_of_different_files_wait_together_each_with_its_diff(lab, monkeypatch, tmp_path):
    run = review(lab, monkeypatch, write("a.txt"), write("b.txt"))
    first, second = lab.watcher.asked
    assert first.id != second.id
    assert [each.subject.call.arguments["path"] for each in lab.watcher.asked] == ["a.txt", "b.txt"]
    assert all("+new" in each.subject.preview.text for each in lab.watcher.asked)
    assert statuses(run) == [ToolStatus.SUCCESS] * 2
    assert (first.used, second.used) == (True, True)
    assert {each.decided_by for each in run.executions} == {"button"}
    assert (tmp_path / "b.txt").read_text() == "new"


def test_they_run_in_the_order_of_the_reply_whichever_was_approved_first(lab, monkeypatch):
    review(lab, monkeypatch, write("a.txt"), write("b.txt"), decide=[(1, YES), (0, YES)])
    ids = [each.subject.call.id for each in lab.watcher.asked]
    ran = [each.call_id for each in lab.watcher.events if isinstance(each, ToolRunning)]
    assert ran == ids


def test_a_call_waits_for_all_before_it_also_where_one_between_was_denied(lab, monkeypatch):
    later: list[Approval] = []

    def decide(asked: list[Approval]) -> list[tuple[int, Answer]]:
        later.append(asked[0])
        return [(2, YES), (1, NO)]

    def heard(event: Event) -> None:
        if isinstance(event, ToolFinished) and later:  # the denied one
            lab.environment.approvals.decide(later.pop().id, YES)

    monkeypatch.setattr(Reviewer, "expected", 3)
    monkeypatch.setattr(Reviewer, "decide", staticmethod(decide))
    calls = [write("a.txt"), write("b.txt"), write("c.txt")]
    run = lab.run([{"calls": calls}, "Done."], heard=heard)
    first, _, third = (each.call.id for each in run.executions)
    ran = [each.call_id for each in lab.watcher.events if isinstance(each, ToolRunning)]
    assert ran == [first, third]


@pytest.mark.spec("N20")
@pytest.mark.parametrize("late", ["the answers", "the turn"])
def test_a_question_stays_open_and_an_approval_ends_after_its_time(
    lab, monkeypatch, clock, tmp_path, late
):
    """Ten diffs take longer to read than the approval of one is good for."""

    def decide(asked: list[Approval]) -> list[tuple[int, Answer]]:
        clock.advance(61 if late == "the answers" else 0)
        return [(1, YES)]

    def approve_first() -> None:
        clock.advance(61 if late == "the turn" else 0)
        lab.environment.approvals.decide(lab.watcher.asked[0].id, YES)

    def heard(event: Event) -> None:
        if (
            isinstance(event, ApprovalDecided)
            and event.call_id == lab.watcher.asked[1].subject.call.id
        ):
            clock.loop.call_soon(approve_first)

    monkeypatch.setattr(Reviewer, "decide", staticmethod(decide))
    settings = {"workspace": {"edit_seconds": 60}}
    calls = [write("a.txt"), write("b.txt")]
    run = lab.run([{"calls": calls}, "Done."], heard=heard, settings=settings)
    if late == "the answers":
        assert statuses(run) == [ToolStatus.SUCCESS] * 2
    else:
        assert statuses(run) == [ToolStatus.SUCCESS, ToolStatus.FAILED]
        assert "write_file: approved more than 60 s ago" in run.executions[1].result.error
        assert not (tmp_path / "b.txt").exists()


def test_a_denial_of_one_leaves_the_others(lab, monkeypatch, tmp_path):
    run = review(lab, monkeypatch, write("a.txt"), write("b.txt"), decide=[(1, YES), (0, NO)])
    assert statuses(run) == [ToolStatus.DENIED, ToolStatus.SUCCESS]
    assert [each.name for each in sorted(tmp_path.glob("*.txt"))] == ["b.txt"]


def test_an_edited_one_is_asked_about_again_and_cannot_change_what_another_has_shown(
    lab, monkeypatch, tmp_path
):
    edited = replace(YES, arguments={"path": "a.txt", "content": "other"})

    def heard(event: Event) -> None:
        if isinstance(event, ToolEdited):
            lab.environment.approvals.decide(lab.watcher.asked[0].id, YES)

    monkeypatch.setattr(Reviewer, "decide", staticmethod(lambda asked: [(1, edited)]))
    run = lab.run([{"calls": [write("a.txt"), write("b.txt")]}, "Done."], heard=heard)
    assert len(lab.watcher.asked) == 3
    assert lab.watcher.asked[2].subject.proposed == {"path": "b.txt", "content": "new"}
    # What the edited one has shown is not what it would do now.
    assert statuses(run) == [ToolStatus.SUCCESS, ToolStatus.FAILED]
    assert "changed since preview" in run.executions[1].result.error
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    "second",
    [
        write("./a.txt", "again"),  # the same file
        call("look"),
        call("run_python", code="x = 1"),
        call("no_such_tool"),
        call("delete_file", path="b.txt"),  # where it was copied from
    ],
    ids=str,
)
def test_what_may_depend_on_a_call_before_it_is_asked_about_when_its_turn_comes(
    lab, monkeypatch, second
):
    run = review(lab, monkeypatch, write("a.txt"), second, expected=1, decide=[(0, YES)])
    events = lab.watcher.events
    first, other = (each.call.id for each in run.executions)
    finished = next(i for i, each in enumerate(events) if isinstance(each, ToolFinished))
    assert events[finished].execution.call.id == first
    begun = [getattr(each, "execution", None) for each in events[:finished]]
    assert other not in {each.call.id for each in begun if each}


def test_only_who_sees_them_all_is_asked_about_several(tmp_path, monkeypatch):
    lab = Lab(tmp_path)
    lab.run([{"calls": [write("a.txt"), write("b.txt")]}, "Done."], answer=YES)
    types = [type(each) for each in lab.watcher.events]
    second = len(types) - 1 - types[::-1].index(ApprovalRequested)
    assert ToolFinished in types[:second]


def test_a_stop_in_the_middle_leaves_no_question_and_no_change(lab, monkeypatch, tmp_path):
    def stop(asked: list[Approval]) -> list[tuple[int, Answer]]:
        lab.cell.stop()
        return [(1, YES)]  # the second one is approved, and waits for the first

    monkeypatch.setattr(Reviewer, "decide", staticmethod(stop))
    with pytest.raises(AgentInterrupted):
        lab.run([{"calls": [write("a.txt"), write("b.txt")]}, "Done."])
    ended = [each for each in lab.watcher.events if isinstance(each, ToolFinished)]
    assert [each.execution.status for each in ended] == [ToolStatus.CANCELLED] * 2
    assert lab.environment.approvals.pending() == []
    assert [*tmp_path.glob("*.txt")] == []


def test_a_stop_waits_a_moment_for_the_one_that_runs_while_another_is_asked_about(
    lab, monkeypatch, tmp_path
):
    engine = EngineThread.current()

    async def turn() -> None:
        await asyncio.sleep(0)

    @tool(where="thread", sensitive=True, target=lambda name: name)
    def save(name: str) -> str:
        """Save."""
        lab.cell.stop()
        for _ in range(20):  # until the loop has come to the stop
            engine.wait_for(turn())
        return f"Saved {name}."

    monkeypatch.setattr(Reviewer, "decide", staticmethod(lambda asked: [(0, YES)]))
    calls = [call("save", name=each) for each in ("a", "b")]
    with pytest.raises(AgentInterrupted):
        lab.run([{"calls": calls}, "Done."], tools=[save])
    first, second = lab.session.runs[-1].executions
    assert (first.status, first.result.output) == (ToolStatus.SUCCESS, "Saved a.")
    assert second.status is ToolStatus.CANCELLED


def test_an_allowed_change_runs_at_once_beside_one_that_is_asked_about(lab, monkeypatch):
    rules = [{"effect": "allow", "tool": "write_file", "path": "a.txt"}]
    monkeypatch.setattr(Reviewer, "expected", 1)
    monkeypatch.setattr(Reviewer, "decide", staticmethod(lambda asked: [(0, YES)]))
    calls = [write("a.txt"), write("b.txt")]
    run = lab.run([{"calls": calls}, "Done."], settings={"policy": {"rules": rules}})
    assert [each.decided_by for each in run.executions] == ["policy", "button"]
    assert statuses(run) == [ToolStatus.SUCCESS] * 2


def test_each_approval_is_signed_where_its_call_stands(lab, monkeypatch, tmp_path):
    calls = [write("a.txt"), write("b.txt"), write("c.txt")]
    decide = [(2, YES), (1, NO), (0, YES)]
    run = review(lab, monkeypatch, *calls, expected=3, decide=decide)
    first, _, third = (each.call.id for each in run.executions)
    assert Signer(tmp_path).find_valid(run) == {first, third}
