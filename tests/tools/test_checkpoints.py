"""What the agent changed in files can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipyagent.errors import AgentError
from ipyagent.schema import FileChange, ToolResult
from ipyagent.tools.file_change import Checkpoints
from ipyagent.tools.file_tools import FileEditTools
from ipyagent.tools.workspace import Workspace

Call = Callable[..., list[FileChange]]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "report.txt").write_text("one\n")
    return Workspace(tmp_path)


@pytest.fixture
def call(place: Workspace) -> Call:
    edits = FileEditTools(place, allow_delete=True)

    def made(name: str, **arguments: Any) -> list[FileChange]:
        result: ToolResult = getattr(edits, name)(**arguments)
        return list(result.files)

    return made


def test_edits_of_one_file_are_taken_back_in_their_order(place: Workspace, call: Call):
    changes = call("edit_file", path="report.txt", old_string="one", new_string="two")
    changes += call("write_file", path="report.txt", content="three\n", mode="append")
    undone = Checkpoints(place).undo(changes)
    assert (undone.restored, undone.skipped) == (["report.txt"], {})
    assert place.read_bytes("report.txt") == b"one\n"


def test_a_new_file_goes_and_a_deleted_one_comes_back(place: Workspace, call: Call):
    changes = call("write_file", path="new.txt", content="x")
    (place.root / "report.txt").chmod(0o700)
    changes += call("delete_file", path="report.txt")
    undone = Checkpoints(place).undo(changes)
    assert undone.restored == ["new.txt", "report.txt"]
    assert place.stat("new.txt") is None
    assert place.read_bytes("report.txt") == b"one\n"
    Checkpoints(place).undo(Checkpoints(place).undo(undone.changes).changes)
    assert (place.root / "report.txt").stat().st_mode & 0o777 == 0o700, "private, and a program"


def test_folders_that_were_made_for_new_files_go_with_them(place: Workspace, call: Call):
    (place.root / "kept").mkdir()
    changes = call("write_file", path="new/deep/a.txt", content="x")
    changes += call("write_file", path="new/b.txt", content="x")
    changes += call("write_file", path="kept/c.txt", content="x")
    undone = Checkpoints(place).undo(changes)
    assert not (place.root / "new").exists()
    assert (place.root / "kept").is_dir(), "it was there before"
    again = Checkpoints(place).undo(undone.changes)
    assert (place.root / "new" / "deep" / "a.txt").read_text() == "x"
    (place.root / "new" / "mine.txt").write_text("mine")
    Checkpoints(place).undo(again.changes)
    assert [each.name for each in (place.root / "new").iterdir()] == ["mine.txt"]


def test_a_file_that_was_changed_since_is_left_and_the_others_are_not(place: Workspace, call: Call):
    changes = call("write_file", path="report.txt", content="two")
    changes += call("write_file", path="report.txt", content="three")
    changes += call("write_file", path="other.txt", content="x")
    (place.root / "report.txt").write_text("the person's")
    undone = Checkpoints(place).undo(changes)
    assert undone.restored == ["other.txt"]
    assert undone.skipped == {"report.txt": "report.txt has changed since, so it is left as it is"}
    assert (place.root / "report.txt").read_text() == "the person's"


def test_undoing_twice_changes_nothing_more(place: Workspace, call: Call):
    changes = call("write_file", path="report.txt", content="two")
    changes += call("write_file", path="report.txt", content="three")
    assert Checkpoints(place).undo(changes) == Checkpoints(place).undo(changes)
    assert place.read_bytes("report.txt") == b"one\n"


def test_what_somebody_did_between_two_edits_stays(place: Workspace, call: Call):
    changes = call("write_file", path="report.txt", content="two")
    (place.root / "report.txt").write_text("the person's")
    changes += call("write_file", path="report.txt", content="three")
    assert Checkpoints(place).undo(changes).restored == ["report.txt"]
    assert (place.root / "report.txt").read_text() == "the person's"


def test_what_cannot_be_kept_is_not_changed(place: Workspace, call: Call):
    (place.root / ".ipyagent").mkdir()
    (place.root / ".ipyagent" / "checkpoints").write_text("in the way")
    with pytest.raises(AgentError):
        call("write_file", path="report.txt", content="two")
    assert (place.root / "report.txt").read_text() == "one\n"


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_a_content_that_is_no_longer_kept_is_not_made_up(place: Workspace, call: Call, damage: str):
    changes = call("write_file", path="report.txt", content="two")
    kept = place.root / ".ipyagent" / "checkpoints" / str(changes[0].before)
    kept.unlink() if damage == "gone" else kept.write_text("something else")
    undone = Checkpoints(place).undo(changes)
    assert undone.skipped == {"report.txt": "what report.txt held before is no longer kept"}
    assert (place.root / "report.txt").read_text() == "two"
