"""What was shown to the user is what runs, once and on that file; and it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Lab, at_once, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentError, PathValidationError
from ipyagent.schema import FileChange, ToolResult, ToolStatus
from ipyagent.tools.base import Tool
from ipyagent.tools.file_change import Checkpoints
from ipyagent.tools.file_tools import FileEditTools
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

    def __init__(self, root: Path) -> None:
        self.path = root / "a.txt"
        self.path.write_text("\n".join(TEXT))
        self.edits = FileEditTools(Workspace(root), allow_delete=True)
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
def test_a_preview_is_used_up_by_one_run(desk: Desk) -> None:
    desk.show("append")
    desk.show("append")
    desk.run("append")
    with pytest.raises(PathValidationError, match="changed since preview"):
        desk.run("append")
    assert desk.path.read_text() == "\n".join(TEXT) + "mine"


@pytest.mark.spec("N20")
def test_a_preview_that_is_used_up_does_not_stop_a_call_that_needs_none(desk: Desk) -> None:
    desk.show("append")
    desk.run("append")
    desk.run("append")
    assert desk.path.read_text() == "\n".join(TEXT) + "mine" * 2


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


Call = Callable[..., list[FileChange]]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "report.txt").write_text("one\n")
    return Workspace(tmp_path)


@pytest.fixture
def act(place: Workspace) -> Call:
    edits = FileEditTools(place, allow_delete=True)

    def made(name: str, **arguments: Any) -> list[FileChange]:
        result: ToolResult = getattr(edits, name)(**arguments)
        return list(result.files)

    return made


def test_edits_of_one_file_are_taken_back_in_their_order(place: Workspace, act: Call):
    changes = act("edit_file", path="report.txt", old_string="one", new_string="two")
    changes += act("write_file", path="report.txt", content="three\n", mode="append")
    undone = Checkpoints(place).undo(changes)
    assert (undone.restored, undone.skipped) == (["report.txt"], {})
    assert place.read_bytes("report.txt") == b"one\n"


def test_a_new_file_goes_and_a_deleted_one_comes_back(place: Workspace, act: Call):
    changes = act("write_file", path="new.txt", content="x")
    (place.root / "report.txt").chmod(0o700)
    changes += act("delete_file", path="report.txt")
    undone = Checkpoints(place).undo(changes)
    assert undone.restored == ["new.txt", "report.txt"]
    assert place.stat("new.txt") is None
    assert place.read_bytes("report.txt") == b"one\n"
    Checkpoints(place).undo(Checkpoints(place).undo(undone.changes).changes)
    assert (place.root / "report.txt").stat().st_mode & 0o777 == 0o700, "private, and a program"


def test_folders_that_were_made_for_new_files_go_with_them(place: Workspace, act: Call):
    (place.root / "kept").mkdir()
    changes = act("write_file", path="new/deep/a.txt", content="x")
    changes += act("write_file", path="new/b.txt", content="x")
    changes += act("write_file", path="kept/c.txt", content="x")
    undone = Checkpoints(place).undo(changes)
    assert not (place.root / "new").exists()
    assert (place.root / "kept").is_dir(), "it was there before"
    again = Checkpoints(place).undo(undone.changes)
    assert (place.root / "new" / "deep" / "a.txt").read_text() == "x"
    (place.root / "new" / "mine.txt").write_text("mine")
    Checkpoints(place).undo(again.changes)
    assert [each.name for each in (place.root / "new").iterdir()] == ["mine.txt"]


def test_a_file_that_was_changed_since_is_left_and_the_others_are_not(place: Workspace, act: Call):
    changes = act("write_file", path="report.txt", content="two")
    changes += act("write_file", path="report.txt", content="three")
    changes += act("write_file", path="other.txt", content="x")
    (place.root / "report.txt").write_text("the person's")
    undone = Checkpoints(place).undo(changes)
    assert undone.restored == ["other.txt"]
    assert undone.skipped == {"report.txt": "report.txt has changed since, so it is left as it is"}
    assert (place.root / "report.txt").read_text() == "the person's"


def test_undoing_twice_changes_nothing_more(place: Workspace, act: Call):
    changes = act("write_file", path="report.txt", content="two")
    changes += act("write_file", path="report.txt", content="three")
    assert Checkpoints(place).undo(changes) == Checkpoints(place).undo(changes)
    assert place.read_bytes("report.txt") == b"one\n"


def test_what_somebody_did_between_two_edits_stays(place: Workspace, act: Call):
    changes = act("write_file", path="report.txt", content="two")
    (place.root / "report.txt").write_text("the person's")
    changes += act("write_file", path="report.txt", content="three")
    assert Checkpoints(place).undo(changes).restored == ["report.txt"]
    assert (place.root / "report.txt").read_text() == "the person's"


def test_what_cannot_be_kept_is_not_changed(place: Workspace, act: Call):
    (place.root / ".ipyagent").mkdir()
    (place.root / ".ipyagent" / "checkpoints").write_text("in the way")
    with pytest.raises(AgentError):
        act("write_file", path="report.txt", content="two")
    assert (place.root / "report.txt").read_text() == "one\n"


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_a_content_that_is_no_longer_kept_is_not_made_up(place: Workspace, act: Call, damage: str):
    changes = act("write_file", path="report.txt", content="two")
    kept = place.root / ".ipyagent" / "checkpoints" / str(changes[0].before)
    kept.unlink() if damage == "gone" else kept.write_text("something else")
    undone = Checkpoints(place).undo(changes)
    assert undone.skipped == {"report.txt": "what report.txt held before is no longer kept"}
    assert (place.root / "report.txt").read_text() == "two"
