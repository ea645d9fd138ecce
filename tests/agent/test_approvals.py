from functools import partial

import pytest

from harness import ALWAYS, NO, YES, Lab, at_once, call
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.errors import AgentError, ApprovalExpiredError
from ipyagent.schema import Decision, ToolCall, ToolExecution, ToolStatus

CALL = ToolCall(id="c1", name="write_file", arguments={"path": "a", "content": "b"})


@pytest.mark.spec("P05", "P23", "P24")
def test_an_approval_is_good_for_exactly_its_call() -> None:
    changed = [
        CALL.model_copy(update={"arguments": {"path": "a", "content": "b "}}),
        CALL.model_copy(update={"arguments": {"path": "a"}}),
        CALL.model_copy(update={"name": "delete_file"}),
        CALL.model_copy(update={"id": "c2"}),
    ]
    for other in changed:
        approvals = Approvals()
        approval = approvals.open_call(ToolExecution(call=CALL))
        assert approvals.decide(approval.id, YES)
        with pytest.raises(AgentError, match="not approved"):
            approvals.use(approval, other)
        approvals.use(approval, CALL)


@pytest.mark.spec("P05")
def test_of_many_uses_at_once_exactly_one_is_granted() -> None:
    for _ in range(50):
        approvals, refused = Approvals(), list[str]()
        approval = approvals.open_call(ToolExecution(call=CALL))
        approvals.decide(approval.id, YES)

        def use(approvals: Approvals, approval: Approval, refused: list[str]) -> None:
            try:
                approvals.use(approval, CALL)
            except ApprovalExpiredError as error:
                refused.append(str(error))

        at_once([partial(use, approvals, approval, refused)] * 8)
        assert len(refused) == 7
        assert all("was used" in each for each in refused)


def test_an_undecided_or_denied_approval_cannot_be_used() -> None:
    approvals = Approvals()
    approval = approvals.open_call(ToolExecution(call=CALL))
    with pytest.raises(AgentError):
        approvals.use(approval, CALL)
    approvals.decide(approval.id, NO)
    with pytest.raises(AgentError):
        approvals.use(approval, CALL)


@pytest.mark.spec("P05", "P23")
def test_of_many_answers_at_once_exactly_one_wins() -> None:
    for _ in range(50):
        approvals, wins = Approvals(), list[bool]()
        approval = approvals.open_call(ToolExecution(call=CALL))

        def answer(approvals: Approvals, approval: Approval, wins: list[bool], n: int) -> None:
            wins.append(approvals.decide(approval.id, YES if n % 2 else NO))

        at_once([partial(answer, approvals, approval, wins, n) for n in range(8)])
        assert sum(wins) == 1
        assert approvals.pending() == []


def test_an_expired_approval_cannot_be_approved_later() -> None:
    approvals = Approvals()
    approval = approvals.open_call(ToolExecution(call=CALL))
    assert (approval.decision, approval.decided_at) == (None, None)
    approvals.expire(approval)
    assert not approvals.decide(approval.id, YES)
    assert approval.decision is Decision.EXPIRED
    with pytest.raises(ApprovalExpiredError, match="in time"):
        approvals.use(approval, CALL)


@pytest.mark.spec("P05", "P23")
def test_whoever_comes_second_can_be_told_what_was_decided_and_when() -> None:
    approvals = Approvals()
    approval = approvals.open_call(ToolExecution(call=CALL))
    assert approvals.decide(approval.id, YES)
    decided_at = approval.decided_at
    assert not approvals.decide(approval.id, NO)
    found = approvals.get(approval.id)
    assert found is approval
    assert (found.decision, found.decided_at) == (Decision.APPROVED, decided_at)
    assert decided_at is not None


def test_an_unknown_id_decides_nothing() -> None:
    assert not Approvals().decide("a99", YES)
    assert Approvals().get("a99") is None


def test_always_covers_this_tool_for_the_session_and_no_other(lab: Lab) -> None:
    calls = [
        call("write_file", path="a", content="1"),
        call("write_file", path="b", content="2"),
        call("edit_file", path="a", old_string="1", new_string="3"),
    ]
    lab.run([{"calls": calls}, "Done."], answer=ALWAYS)
    assert [a.subject.call.name for a in lab.watcher.asked] == ["write_file", "edit_file"]
    lab.run([{"calls": [call("write_file", path="c", content="4")]}, "Done."], answer=NO)
    assert lab.watcher.asked == []
    assert (lab.environment.workspace.root / "c").read_text() == "4"


def test_the_question_shows_the_whole_effect(lab: Lab) -> None:
    lab.run([{"calls": [call("write_file", path="a", content="x\n" * 3000)]}, "Ok."], answer=NO)
    preview = lab.watcher.asked[0].subject.preview
    assert preview.text.count("+x") == 3000


def test_arguments_changed_after_they_were_shown_are_not_run(lab: Lab) -> None:
    def swap(approval: Approval) -> Answer:
        approval.subject.call.arguments["content"] = "something else"
        return YES

    run = lab.run([{"calls": [call("write_file", path="a", content="shown")]}, "Ok."], answer=swap)
    assert run.executions[0].status is ToolStatus.DENIED
    assert not (lab.environment.workspace.root / "a").exists()
