"""The front end's types and its fold are those of the schema."""

from __future__ import annotations

import json
import re
import types
import typing
from enum import EnumMeta
from pathlib import Path

import pytest
from pydantic import BaseModel
from rich_run import FIXTURES, STORIES, fixture

from ipyagent import schema

PROTOCOL = Path(__file__).parents[2] / "labextension/src/protocol.ts"
# Python alone: what no event holds, and blocks of kinds that only a newer version can draw.
NOT_SENT = {"Model", "Outcome", "TruncationConfig", "StreamChunk", "LLMResponse", "OpaqueContent"}
NOT_SENT |= {"Node", "SystemPrompt", "ToolDefinitions", "Stop", "OpaqueData"}
NOT_SENT |= {"Session", "SessionState", "Todo", "TodoStatus", "Note", "Skill", "Endpoint"}
NOT_SENT |= {"PendingEdit", "PythonScript"}
# TypeScript alone: what travels between kernel and widget around the events.
ENVELOPE = {"OpenMessage", "SnapshotMessage", "EventsMessage", "LateMessage", "EditedStep"}

Fields = dict[str, str]


def interfaces() -> dict[str, Fields]:
    found = re.findall(r"export interface (\w+) \{\n(.*?)\n\}", PROTOCOL.read_text(), re.S)
    fields = {name: dict(re.findall(r"^  (\w+)\??: (.+);$", body, re.M)) for name, body in found}
    return {name: those for name, those in fields.items() if name not in ENVELOPE}


def unions() -> dict[str, set[str]]:
    found = re.findall(r"export type (\w+) =(.*?);", PROTOCOL.read_text(), re.S)
    return {name: {part.strip(" '\n") for part in body.split("|")} - {""} for name, body in found}


def classes() -> dict[str, type[BaseModel]]:
    named = {name: getattr(schema, name) for name in schema.__all__ if name not in NOT_SENT}
    return {n: c for n, c in named.items() if isinstance(c, type) and issubclass(c, BaseModel)}


def enums() -> dict[str, set[str]]:
    named = {name: getattr(schema, name) for name in schema.__all__ if name not in NOT_SENT}
    return {n: {str(m) for m in e} for n, e in named.items() if isinstance(e, EnumMeta)}


def accepts_none(annotation: object) -> bool:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return is_union and type(None) in typing.get_args(annotation)


def test_every_class_that_is_sent_has_an_interface_and_no_other():
    assert set(interfaces()) == set(classes())


@pytest.mark.parametrize("name", sorted(classes()))
def test_an_interface_has_the_fields_of_its_class(name: str):
    sent = {key: field for key, field in classes()[name].model_fields.items() if not field.exclude}
    assert set(interfaces()[name]) == set(sent)
    for key, field in sent.items():
        assert ("| null" in interfaces()[name][key]) == accepts_none(field.annotation), key


@pytest.mark.parametrize("name", sorted(set(enums()) - {"Role"}))
def test_a_union_of_words_has_the_words_of_its_enum(name: str):
    assert unions()[name] == enums()[name]


def test_roles_and_kinds_are_those_of_the_schema():
    assert set(re.findall(r"\w+", interfaces()["Message"]["role"])) == enums()["Role"]
    for owner, field in (("Preview", "kind"), ("MessageDelta", "kind")):
        words = typing.get_args(classes()[owner].model_fields[field].annotation)
        assert set(re.findall(r"\w+", interfaces()[owner][field])) == set(words)


def test_the_union_of_events_is_closed_on_both_sides():
    members = typing.get_args(typing.get_args(schema.Event)[0])
    assert unions()["Event"] == {member.__name__ for member in members}
    for member in members:
        assert interfaces()[member.__name__]["type"] == f"'{member.model_fields['type'].default}'"


def test_the_stories_have_every_kind_of_event():
    members = typing.get_args(typing.get_args(schema.Event)[0])
    assert {type(event) for story in STORIES.values() for event in story()} == set(members)


@pytest.mark.parametrize("name", STORIES)
def test_a_shared_fixture_is_what_the_schema_folds(name: str):
    """`labextension/src/__tests__/model.test.ts` folds the same events and compares as well."""
    assert json.loads((FIXTURES / name).read_text()) == fixture(name), (
        "run `python tests/labextension/rich_run.py`"
    )
