"""Notes: kept for later sessions, never lost, whoever writes and whatever breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.tools import workspace as workspace_module
from ipyagent.tools.notes import note_tools, todo_tool
from ipyagent.tools.result_conversion import as_result
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE


class Pad:
    """The two tools, with arguments checked as those of a model are."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".ipyagent"
        self.file = self.folder / "notes.json"
        self.tools = {tool.name: tool for tool in note_tools(Workspace(root))}

    def record(self, content: str, **more: Any) -> str:
        tool = self.tools["record_note"]
        return str(tool.function(**tool.check_arguments({"content": content, **more})))

    def recall(self, **arguments: Any) -> str:
        tool = self.tools["recall_notes"]
        return as_result(tool.function(**tool.check_arguments(arguments))).output

    def contents(self) -> list[Any]:
        return [each["content"] for each in json.loads(self.file.read_bytes())]


@pytest.fixture
def pad(tmp_path: Path) -> Pad:
    return Pad(tmp_path)


@pytest.mark.spec("M25")
def test_notes_outlast_the_session_and_are_found_by_category(tmp_path: Path, pad: Pad) -> None:
    assert pad.recall() == "No notes recorded yet."
    assert not pad.folder.exists(), "looking makes nothing"
    assert pad.record("Prices are net.") == "Recorded note: Prices are net."
    said = pad.record("The client is Zoë 🙂.", category="people")
    assert said == "Recorded note: The client is Zoë 🙂. (category: people)"

    later = Pad(tmp_path)
    lines = later.recall().split("\n")
    assert lines[0] == "1. Prices are net."
    assert lines[1].startswith("   (recorded 20")
    assert lines[2] == "2. [people] The client is Zoë 🙂."
    assert later.recall(category="people").startswith("1. [people] The client is Zoë")
    assert "net" not in later.recall(category="people")
    assert later.recall(category="nope") == "No notes found in category: nope"
    first, second = json.loads(pad.file.read_text("utf-8"))
    assert first["category"] is None
    assert datetime.fromisoformat(first["created_at"]).tzinfo is not None
    assert (second["content"], second["category"]) == ("The client is Zoë 🙂.", "people")


@pytest.mark.spec("M25")
def test_the_layout_that_others_use_is_read_and_kept(pad: Pad) -> None:
    pad.folder.mkdir()
    theirs = {"timestamp": "2025-03-01T12:00:00.5", "category": "general", "content": "old"}
    odd: list[Any] = [5, {"content": ""}, {"x": 1}, {"content": "y", "timestamp": "soon"}]
    odd += [{"content": "z", "timestamp": "0001-01-01T00:00:00"}, {"content": "\ud800", "a": [[]]}]
    pad.file.write_text(json.dumps([theirs, *odd]))
    assert pad.recall().startswith("1. [general] old\n   (recorded 2025-03-01 ")
    assert "of the entries in .ipyagent/notes.json are not notes" in pad.recall()
    pad.record("new")
    kept = json.loads(pad.file.read_bytes())
    assert kept[:-1] == [theirs, *odd], "what is not understood stays"
    assert "2. new" in pad.recall() or "3. new" in pad.recall()


DAMAGED: list[bytes] = [
    b'[{"content": "precious"',
    b"precious",
    b'{"content": "precious"}',
    b"\xff\xfeprecious",
    b"[" * 100_000 + b"precious",
    b"null",
    b"1" * 5_000,
]


@pytest.mark.spec("M25", "D16")
@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("first", ["record", "recall"])
def test_a_damaged_file_is_kept_and_a_new_one_begun(pad: Pad, data: bytes, first: str) -> None:
    pad.folder.mkdir()
    for number, name in enumerate(("notes.json.corrupt", "notes.json.corrupt.1"), 1):
        pad.file.write_bytes(data + b" " * number)
        said = pad.record("new") if first == "record" else pad.recall()
        assert f"(.ipyagent/notes.json was damaged; it is kept as {name})" in said
        assert first == "record" or said.startswith("No notes recorded yet.")
        assert (pad.folder / name).read_bytes() == data + b" " * number
        assert "damaged" not in pad.recall(), "it is told once"
    pad.record("last")
    assert pad.contents() == (["new", "last"] if first == "record" else ["last"])


@pytest.mark.spec("M25")
def test_an_empty_file_holds_nothing_to_keep(pad: Pad) -> None:
    pad.folder.mkdir()
    pad.file.write_bytes(b"\n")
    assert pad.recall() == "No notes recorded yet."
    pad.record("new")
    assert pad.contents() == ["new"]
    assert not list(pad.folder.glob("*.corrupt*"))


WRITER = """
import sys
from pathlib import Path
from ipyagent.tools.notes import note_tools
from ipyagent.tools.result_conversion import as_result
from ipyagent.tools.workspace import Workspace

record = note_tools(Workspace(Path(sys.argv[1])))[0].function
print("ready", flush=True)
sys.stdin.readline()
for number in range(15):
    record(f"{sys.argv[2]} {number}")
"""


@pytest.mark.spec("M25", "D16")
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path, pad: Pad) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0
    found = pad.contents()
    assert sorted(found) == sorted(f"{name} {number}" for name in "abc" for number in range(15))
    for name in "abc":
        assert [each for each in found if each[0] == name] == [f"{name} {n}" for n in range(15)]
    left = {"notes.json", "notes.json.lock", ".gitignore"}
    assert {each.name for each in pad.folder.iterdir()} == left


@pytest.mark.spec("M25")
def test_a_writer_that_waits_too_long_says_so(
    tmp_path: Path, pad: Pad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "_LOCK_SECONDS", 0.05)
    with (
        Workspace(tmp_path).state_folder().lock("notes.json.lock"),
        pytest.raises(PathValidationError, match="held by another program; try again"),
    ):
        pad.record("x")
    pad.record("x")
    assert pad.contents() == ["x"]


@pytest.mark.spec("M25")
def test_sizes_are_bounded(pad: Pad) -> None:
    pad.record("x" * 10_000, category="y" * 100)
    wrong: list[Callable[[], str]] = [
        lambda: pad.record(""),
        lambda: pad.record("x" * 10_001),
        lambda: pad.record("x", category=""),
        lambda: pad.record("x", category="y" * 101),
    ]
    for call in wrong:
        with pytest.raises(InvalidArgumentsError, match="record_note"):
            call()
    pad.file.write_text(json.dumps([{"content": "x" * 999_000}]))
    before = pad.file.read_bytes()
    with pytest.raises(PathValidationError, match=r"larger than 1\.0 MB"):
        pad.record("y" * 2_000)
    assert pad.file.read_bytes() == before
    with pad.file.open("ab") as file:
        file.truncate(1 << 35)
    with pytest.raises(PathValidationError, match="larger than"):
        pad.record("y")
    assert pad.file.stat().st_size == 1 << 35, "what cannot be read is not set aside either"


@pytest.mark.spec("M25")
@pytest.mark.parametrize("name", ["notes.json", "notes.json.lock"])
def test_a_link_in_their_place_is_not_followed(tmp_path: Path, pad: Pad, name: str) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("[]")
    pad.folder.mkdir()
    (pad.folder / name).symlink_to(outside)
    if name == "notes.json.lock":
        pad.file.write_text("[]")
    for call in (lambda: pad.record("x"), pad.recall):
        with pytest.raises(PathValidationError, match="symbolic link"):
            call()
    assert outside.read_text() == "[]"


def test_a_note_is_asked_about_after_others_words_were_read(pad: Pad) -> None:
    record, recall = pad.tools["record_note"], pad.tools["recall_notes"]
    assert (record.sensitive, record.can_reach_out()) == (False, True)
    assert not recall.sensitive
    assert recall.source(category=None) == ".ipyagent/notes.json"


# The checklist


TODO = todo_tool()


def write(*todos: Any) -> str:
    """What the tool says to a checklist as a model sends it."""
    return str(TODO.function(**TODO.check_arguments({"todos": list(todos)})))


@pytest.mark.spec("N16")
def test_the_checklist_is_told_back_with_its_count() -> None:
    assert not TODO.sensitive
    said = write(
        {"content": "Load\nthe data", "status": "completed", "activeForm": "Loading"},
        {"content": "Clean it", "status": "in_progress", "active_form": "Cleaning it"},
        {"content": "Plot it", "status": "pending"},
        {"content": "Tell"},
    )
    assert said == "1 of 4 done\n[x] Load the data\n[~] Cleaning it\n[ ] Plot it\n[ ] Tell"
    assert write() == "The checklist is empty."
    assert write({"content": "Go", "status": "in_progress"}) == "0 of 1 done\n[~] Go"


@pytest.mark.spec("N16")
@pytest.mark.parametrize(("busy", "warns"), [(0, False), (1, False), (2, True), (3, True)])
def test_more_than_one_task_at_a_time_is_warned_about(busy: int, warns: bool) -> None:
    said = write({"content": "a"}, *[{"content": "b", "status": "in_progress"}] * busy)
    assert (f"Warning: {busy} tasks are in_progress" in said) == warns


@pytest.mark.spec("N16")
@pytest.mark.parametrize(
    "wrong",
    [
        {"content": ""},
        {"content": "x", "status": "done"},
        {"content": "x", "priority": "high"},
        {"status": "pending"},
        "x",
        None,
    ],
)
def test_what_is_no_task_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"todo_write: todos\.0"):
        write(wrong)


@pytest.mark.spec("N16")
def test_a_hundred_tasks_are_the_most() -> None:
    assert write(*[{"content": "x"}] * 100).startswith("0 of 100 done")
    with pytest.raises(InvalidArgumentsError, match="at most 100"):
        write(*[{"content": "x"}] * 101)
    for wrong in ({}, {"todos": "x"}, {"todos": None}):
        with pytest.raises(InvalidArgumentsError):
            TODO.check_arguments(wrong)


@pytest.mark.spec("N16")
def test_the_model_is_told_the_names_and_the_states() -> None:
    said = str(TODO.definition().input_schema)
    for word in ("content", "status", "active_form", "pending", "in_progress", "completed"):
        assert f"'{word}'" in said
