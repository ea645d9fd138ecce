"""Small records that tools and services keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter, ValidationError

from ipyagent.schema.base import Count, Flag, JsonObject, LazyModel, Moment, Positive, Text, now


def _names(value: object) -> Any:
    """Split names in one text at commas and spaces."""
    return re.findall(r"[^\s,]+", value) if isinstance(value, str) else value


def _or_empty(value: object) -> Any:
    return {} if value is None else value


def _as_text(path: object) -> Any:
    return str(path) if isinstance(path, PurePath) else path


class TodoStatus(StrEnum):
    """The state of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Todo(LazyModel):
    """One task of a checklist; `active_form` describes it in progress: "Running tests"."""

    content: Text = Field(min_length=1)
    status: TodoStatus = TodoStatus.PENDING
    active_form: str = Field(default="", validation_alias=AliasChoices("active_form", "activeForm"))


TODOS = "todo_write"
"""The tool whose newest call holds the checklist."""


def todos_in(arguments: Mapping[str, object]) -> tuple[Todo, ...]:
    """Return the checklist in a call's arguments; empty if there is none."""
    try:
        return TypeAdapter(tuple[Todo, ...]).validate_python(arguments.get("todos", ()))
    except ValidationError:
        return ()


class Note(LazyModel):
    """A note for later sessions.

    `origin` names the sources that had been read when it was written, beside the user.
    """

    content: Text = Field(min_length=1)
    category: str | None = None
    origin: tuple[Text, ...] = ()
    created_at: Moment = Field(
        default_factory=now, validation_alias=AliasChoices("created_at", "timestamp")
    )


class Skill(LazyModel):
    """Instructions for one kind of task; `content` is read when the task comes up."""

    name: str = Field(min_length=1)
    description: Text
    content: Text
    license: str | None = None
    allowed_tools: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = Field(
        default=None, validation_alias=AliasChoices("allowed_tools", "allowed-tools")
    )
    metadata: Annotated[JsonObject, BeforeValidator(_or_empty)] = Field(default_factory=dict)
    skill_path: Annotated[str | None, BeforeValidator(_as_text)] = None

    def to_prompt(self) -> str:
        """Return the skill as the model reads it."""
        return f"# Skill: {self.name}\n\n{self.description}\n\n---\n\n{self.content}\n"


class Endpoint(LazyModel):
    """One operation that a service's description allows."""

    method: str
    path: str


class PendingEdit(LazyModel):
    """An edit that waits for the user; lines are counted from 1."""

    file_path: str
    old_string: Text = Field(min_length=1)
    new_string: Text
    match_line: Positive
    context_before: tuple[Text, ...] = ()
    context_after: tuple[Text, ...] = ()
    created_at: Moment = Field(default_factory=now)
    replace_all: Flag = False
    match_count: Positive = 1


class PythonScript(LazyModel):
    """A script that the agent saved; times are those of its last run."""

    file_id: str = Field(min_length=1)
    file_path: str
    content: Text
    created_at: Moment = Field(default_factory=now)
    last_run_at: Moment | None = None
    run_count: Count = 0
