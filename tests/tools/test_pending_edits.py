"""What was shown to the person is what runs: once, for a while, and only on that file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Lab, at_once, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentError, ApprovalExpiredError, PathValidationError
from ipyagent.schema import ToolStatus
from ipyagent.tools.base import Tool
from ipyagent.tools.file_change import Previews
from ipyagent.tools.file_tools import FileEditTools, file_tools
from ipyagent.tools.workspace import Workspace

TEXT = [f"line {number}" for number in range(1, 41)]
EDIT = {"old_string": "line 20\n", "new_string": "line twenty\n", "replace_all": False}
CALLS: dict[str, dict[str, Any]] = {
    "write_file": {"content": "mine", "mode": "overwrite"},
    "edit_file": EDIT,
    "delete_file": {},
}
every_tool = pytest.mark.parametrize("name", [*CALLS, "append"])


class Desk:
    """The tools that change files, and a file that they are about."""

    def __init__(self, root: Path, *, seconds: float = 300.0) -> None:
        self.path = root / "a.txt"
        self.path.write_text("\n".join(TEXT))
        self.edits = FileEditTools(Workspace(root), allow_delete=True, edit_seconds=seconds)
        self.tools = {tool.name: tool for tool in self.edits.tools()}

    def show(self, name: str, **changed: Any) -> str:
        """What the card shows."""
        tool, arguments = self._call(name, changed)
        return tool.preview(**arguments).text

    def run(self, name: str, **changed: Any) -> Any:
        """Run, as after an approval."""
        tool, arguments = self._call(name, changed)
        return tool.function(**arguments)

    def _call(self, name: str, changed: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
        if name == "append":
            name, changed = "write_file", {"mode": "append", **changed}
        return self.tools[name], {"path": "a.txt", **CALLS[name], **changed}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.spec("N20")
@every_tool
@pytest.mark.parametrize("to", ["far away", "gone"])
def test_a_file_that_changed_since_the_preview_is_left_alone(
    desk: Desk, name: str, to: str
) -> None:
    desk.show(name)
    changed = "\n".join(["one line, far from the edit", *TEXT])
    desk.path.write_text(changed) if to == "far away" else desk.path.unlink()
    with pytest.raises(PathValidationError, match=r"a\.txt: changed since preview"):
        desk.run(name)
    assert (desk.path.read_text() if desk.path.exists() else None) == (
        changed if to == "far away" else None
    )
    # Shown again, it runs.
    desk.path.write_text(changed)
    desk.show(name)
    desk.run(name)


@pytest.mark.spec("N20")
def test_a_file_that_appeared_since_the_preview_is_left_alone(desk: Desk) -> None:
    desk.path.unlink()
    desk.show("write_file", content="")
    desk.path.write_text("")  # even an empty file is not what the card said: a new one
    with pytest.raises(PathValidationError, match="changed since preview"):
        desk.run("write_file", content="")


@pytest.mark.spec("N20")
@every_tool
def test_a_preview_is_good_for_its_time_to_live_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clock = [1_000.0]
    monkeypatch.setattr("ipyagent.tools.file_change.monotonic", lambda: clock[0])
    desk = Desk(tmp_path, seconds=60)
    desk.show(name)
    clock[0] += 60.1
    with pytest.raises(ApprovalExpiredError, match=r"a\.txt: the preview is too old \(60 s\)"):
        desk.run(name)
    assert desk.path.read_text() == "\n".join(TEXT)

    desk.show(name)
    clock[0] += 60
    desk.run(name)


@pytest.mark.spec("N20")
def test_three_hundred_seconds_unless_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("ipyagent.tools.file_change.monotonic", lambda: clock[0])
    workspace = Workspace(tmp_path)
    for settings, seconds in (({}, 300.0), ({"previews": Previews(5.0)}, 5.0)):
        tools = {each.name: each for each in file_tools(workspace, allow_delete=False, **settings)}
        write = tools["write_file"]
        assert write.preview is not None
        for late in (0.0, 0.1):
            arguments = {"path": "new.txt", "content": str(seconds + late), "mode": "overwrite"}
            write.preview(**arguments)
            clock[0] += seconds + late
            if late:
                with pytest.raises(ApprovalExpiredError, match=f"too old \\({seconds:g} s\\)"):
                    write.function(**arguments)
            else:
                write.function(**arguments)


@pytest.mark.spec("N20")
def test_a_preview_is_used_up_by_one_run(desk: Desk) -> None:
    desk.show("append")
    desk.show("append")
    desk.run("append")
    with pytest.raises(PathValidationError, match="changed since preview"):
        desk.run("append")
    assert desk.path.read_text() == "\n".join(TEXT) + "mine"


@pytest.mark.spec("N20")
def test_an_older_preview_of_an_unchanged_file_is_good_for_one_run_of_its_own(desk: Desk) -> None:
    desk.show("edit_file")
    desk.show("edit_file")
    desk.run("edit_file")
    with pytest.raises(PathValidationError, match="changed since preview"):
        desk.run("edit_file")
    desk.path.write_text("\n".join(TEXT))
    desk.run("edit_file")


@pytest.mark.spec("N20")
def test_a_preview_that_failed_is_used_up_as_well(desk: Desk) -> None:
    desk.show("write_file")
    desk.path.write_text("other")
    for _ in range(2):
        with pytest.raises(PathValidationError, match="changed since preview"):
            desk.run("write_file")
        desk.path.write_text("\n".join(TEXT))
        desk.show("write_file")
        desk.path.write_text("other")


@pytest.mark.spec("N20")
def test_a_preview_of_one_call_does_not_stand_for_another(desk: Desk) -> None:
    desk.show("write_file", content="harmless")
    desk.path.write_text("changed")
    desk.show("write_file", content="other")
    desk.run("write_file", content="other")
    with pytest.raises(PathValidationError, match="changed since preview"):
        desk.run("write_file", content="harmless")


def test_a_card_that_was_denied_does_not_stand_in_the_way_of_the_next(desk: Desk) -> None:
    desk.show("write_file")
    desk.path.write_text("second")
    desk.show("write_file")
    desk.run("write_file")
    assert desk.path.read_text() == "mine"


@pytest.mark.spec("N20")
def test_many_approved_calls_at_once_run_once_each(desk: Desk) -> None:
    for _ in range(8):
        desk.show("write_file")
    outcomes: list[bool] = []

    def run() -> None:
        try:
            desk.run("write_file")
            outcomes.append(True)
        except AgentError:
            outcomes.append(False)

    at_once([run] * 8)
    assert sorted(outcomes) == [False] * 7 + [True]


@pytest.mark.spec("N19", "N20")
def test_only_the_person_confirms_an_edit(tmp_path: Path) -> None:
    """The model repeats a call that was denied, and calls what other products confirm with."""
    lab = Lab(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    edit = call("edit_file", path="a.txt", old_string="one", new_string="two")
    replies = [
        {"calls": [edit]},
        {"calls": [edit, call("edit_confirm", path="a.txt"), call("confirm")]},
        "Done.",
    ]
    run = lab.run(replies, answer=NO)
    assert [each.status for each in run.executions] == [
        ToolStatus.DENIED,
        ToolStatus.DENIED,
        ToolStatus.FAILED,
        ToolStatus.FAILED,
    ]
    assert len(lab.watcher.asked) == 2, "the second call is asked about like the first"
    previews = [each.subject.preview for each in lab.watcher.asked]
    assert all("-one\n+two\n" in preview.text for preview in previews)
    assert path.read_text() == "one\n"


@pytest.mark.spec("N20")
def test_what_changes_while_the_person_thinks_is_not_overwritten(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("one\n")

    def think(_approval: Approval) -> Answer:
        path.write_text("the person's\n")
        return YES

    edit = call("write_file", path="a.txt", content="ours")
    run = lab.run([{"calls": [edit]}, "Done."], answer=think)
    (execution,) = run.executions
    assert execution.status is ToolStatus.FAILED
    assert "changed since preview" in (execution.result.error or "")
    assert path.read_text() == "the person's\n"
