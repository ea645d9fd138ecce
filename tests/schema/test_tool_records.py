"""The small records, and what the room exports."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest
from pydantic import ValidationError

from ipyagent import schema
from ipyagent.schema import Endpoint, Note, PendingEdit, PythonScript, Skill, Todo, TodoStatus

# Every class of the data model that is not a setting or an error.
NAMED = """
    TextContent ImageContent ThinkingContent ToolCall ToolResultContent Role Message TokenUsage
    LLMResponse StreamChunk StopReason ToolDefinition ToolResult ToolExecution ToolStatus Decision
    TruncationConfig TruncatedOutput RunStatus PlanStep Run Step Session SessionState Outcome
    Node SystemPrompt ToolDefinitions Stop PendingEdit PythonScript Todo TodoStatus Note Skill
    Endpoint
"""


def test_the_room_exports_its_data_model() -> None:
    assert [name for name in NAMED.split() if not hasattr(schema, name)] == []


@pytest.mark.spec("N16")
def test_a_task_is_accepted_in_both_spellings() -> None:
    for key in ("active_form", "activeForm"):
        todo = Todo.from_dict({"content": "Run tests", "status": "in_progress", key: "Running"})
        assert todo.status is TodoStatus.IN_PROGRESS
        assert todo.to_dict() == {
            "content": "Run tests",
            "status": "in_progress",
            "active_form": "Running",
        }
    assert Todo(content="x").status is TodoStatus.PENDING
    assert {str(each) for each in TodoStatus} == {"pending", "in_progress", "completed"}
    for wrong in ({"content": ""}, {"content": "x", "status": "done"}, {"status": "pending"}):
        with pytest.raises(ValidationError):
            Todo.from_dict(wrong)


def test_a_skill_names_its_tools_in_a_list_or_in_a_text() -> None:
    shape = {"name": "pdf", "description": "Reads PDF.", "content": "Use it."}
    for names in (["read", "run"], "read, run", "read run", "read,run", "\nread\n run\n"):
        for key in ("allowed_tools", "allowed-tools"):
            assert Skill.from_dict({**shape, key: names}).allowed_tools == ("read", "run")
    assert Skill.from_dict({**shape, "allowed-tools": None}).allowed_tools is None
    assert Skill.from_dict({**shape, "allowed-tools": ""}).allowed_tools == ()
    skill = Skill.from_dict({**shape, "metadata": None, "skill_path": Path("skills/pdf")})
    assert (skill.metadata, skill.skill_path) == ({}, str(PurePosixPath("skills/pdf")))
    assert skill.to_prompt().strip() == "# Skill: pdf\n\nReads PDF.\n\n---\n\nUse it."
    for wrong in ({"name": ""}, {"allowed-tools": 5}, {"allowed_tools": [5]}):
        with pytest.raises(ValidationError):
            Skill.from_dict(shape | wrong)


def test_a_note_has_a_time() -> None:
    note = Note.from_dict({"content": "x", "category": None, "timestamp": 1.5})
    assert note.created_at == datetime.fromtimestamp(1.5, UTC)
    with pytest.raises(ValidationError):
        Note(content="")


@pytest.mark.spec("N18")
def test_the_records_that_tools_keep_between_calls() -> None:
    edit = PendingEdit.from_dict(
        {
            "file_path": "a.py",
            "old_string": "x",
            "new_string": "",
            "match_line": 1,
            "context_before": [],
            "context_after": ["y"],
            "created_at": 1.5,
        }
    )
    assert (edit.replace_all, edit.match_count, edit.context_after) == (False, 1, ("y",))
    for wrong in ({"old_string": ""}, {"match_line": 0}, {"match_count": 0}, {"replace_all": 1}):
        with pytest.raises(ValidationError):
            PendingEdit.from_dict(edit.to_dict() | wrong)
    script = PythonScript.from_dict(
        {"file_id": "py_1", "file_path": "/x/a.py", "content": "1", "created_at": 1.5}
    )
    assert (script.last_run_at, script.run_count) == (None, 0)
    for wrong in ({"file_id": ""}, {"run_count": -1}, {"last_run_at": "soon"}):
        with pytest.raises(ValidationError):
            PythonScript.from_dict(script.to_dict() | wrong)
    assert Endpoint(method="GET", path="/x") == Endpoint.from_dict({"method": "GET", "path": "/x"})
