"""Every record survives JSON, with any content."""

from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import TypeAdapter, ValidationError
from strategies import events, json_objects, records

from ipyagent import schema as s


def through_json(record: s.Model) -> s.Model:
    return type(record).from_dict(json.loads(json.dumps(record.to_dict())))


@pytest.mark.spec("N18", "D24")
@pytest.mark.parametrize("cls", records, ids=lambda cls: cls.__name__)
def test_a_record_survives_json(cls: type[s.Model]) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(records[cls])
    def survives(record: s.Model) -> None:
        assert through_json(record) == record
        # The other way of writing it, which insists on text that can be encoded.
        assert cls.model_validate_json(record.model_dump_json()) == record

    survives()


@pytest.mark.spec("N18")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(*events.values()))
def test_an_event_is_recognized_by_its_type(event: s.Event) -> None:
    adapter: TypeAdapter[s.Event] = TypeAdapter(s.Event)
    assert adapter.validate_python(json.loads(json.dumps(event.to_dict()))) == event


@pytest.mark.spec("N18", "D24")
@given(json_objects)
def test_arguments_with_any_text_survive_json(arguments: dict[str, Any]) -> None:
    call = s.ToolCall(id="c", name="f", arguments=arguments)
    assert through_json(call) == call


def test_a_lone_surrogate_would_not_survive_in_a_key() -> None:
    naive = TypeAdapter(dict[str, Any]).dump_python({"\ud800": 1}, mode="json")
    assert naive != {"\ud800": 1}
    assert s.ToolCall(id="c", name="f", arguments={"\ud800": "\udfff"}).arguments == {"�": "�"}
    assert s.TextContent(text="a\ud83d\ude00\ud800").text == "a😀�"


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, (1,), {1: 2}, {1}, b"x", object()]
)
def test_values_that_json_cannot_express_are_refused(value: Any) -> None:
    for nested in ({"x": value}, {"x": [{"y": value}]}):
        with pytest.raises(ValidationError):
            s.ToolCall(id="c", name="f", arguments=nested)
        with pytest.raises(ValidationError):
            s.Session(metadata=nested)
        with pytest.raises(ValidationError):
            s.Node(data=s.SystemPrompt(content="x"), metadata=nested)
        with pytest.raises(ValidationError):
            s.OpaqueContent(type="new", **nested)
        with pytest.raises(ValidationError):
            s.ToolDefinition(name="f", input_schema=nested)


def test_nesting_too_deep_to_be_written_is_refused() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValueError, match="depth"):
        TypeAdapter(dict[str, Any]).dump_python({"x": deep}, mode="json")
    with pytest.raises(ValidationError, match="nested too deeply"):
        s.ToolCall(id="c", name="f", arguments={"x": deep})


def test_numbers_that_are_not_finite_are_refused_everywhere() -> None:
    for wrong in (math.nan, math.inf, -1.0, True, "1"):
        with pytest.raises(ValidationError):
            s.Step(number=1, cost_usd=wrong)
        with pytest.raises(ValidationError):
            s.StreamChunk(cost_usd=wrong)
        with pytest.raises(ValidationError):
            s.RunFinished(
                status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=wrong
            )


@pytest.mark.spec("H11", "D2")
def test_moments_are_aware_and_in_utc() -> None:
    second_hand = timezone(timedelta(hours=1, minutes=2, seconds=3))
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=second_hand)
    text = TypeAdapter(datetime).dump_python(moment, mode="json")
    assert datetime.fromisoformat(text) != moment  # what JSON makes of such a zone
    note = s.Note(content="x", created_at=moment)
    assert note.created_at == moment
    assert note.created_at.tzinfo is UTC
    assert through_json(note) == note
    assert s.Note(content="x", created_at=1.5).created_at == datetime.fromtimestamp(1.5, UTC)
    for wrong in (datetime(2024, 1, 1), "2024-01-01T00:00:00", True, math.nan):
        with pytest.raises(ValidationError):
            s.Note(content="x", created_at=wrong)
    edge = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(ValidationError, match="years"):
        s.Note(content="x", created_at=edge)


@pytest.mark.spec("N01")
@pytest.mark.parametrize("cls", records, ids=lambda cls: cls.__name__)
def test_a_record_is_frozen_and_its_sequences_are_tuples(cls: type[s.Model]) -> None:
    assert cls.model_config["frozen"] is True
    assert cls.model_config["extra"] == ("allow" if cls.__name__.startswith("Opaque") else "forbid")
    for name, field in cls.model_fields.items():
        assert "list[" not in str(field.annotation), name


@pytest.mark.spec("N01")
def test_nothing_can_be_set_and_unknown_keys_are_refused() -> None:
    block = s.TextContent(text="x")
    with pytest.raises(ValidationError, match="frozen"):
        block.text = "y"
    with pytest.raises(ValidationError, match="Extra inputs"):
        s.TextContent.from_dict({"type": "text", "text": "x", "colour": "red"})
    message = s.Message.from_dict({"role": "user", "content": ["a", "b"]})
    assert isinstance(message.content, tuple)


@pytest.mark.spec("P16")
def test_fields_that_are_none_can_be_omitted() -> None:
    session = s.Session(pending_run_id="r1")
    assert session.to_dict()["active_run_id"] is None
    state = session.to_dict(exclude_none=True)
    assert state["pending_run_id"] == "r1"
    assert not {"active_run_id", "last_run_id", "last_run_status", "last_run_at"} & state.keys()
    assert s.Session.from_dict(state) == session


@pytest.mark.spec("D24")
def test_a_node_can_be_a_key() -> None:
    node = s.Node(id="a", data=s.Message.of(s.Role.USER, "x"), metadata={"k": [1]})
    assert {node: 1}[s.Node.from_dict(node.to_dict())] == 1
    assert pickle.loads(pickle.dumps(node)) == node


@pytest.mark.spec("D24")
def test_fields_of_a_provider_are_kept() -> None:
    call = s.ToolCall(id="c", name="f", item_id="fc_1", thought_signature="sig")
    thought = s.ThinkingContent(
        thinking="hm", signature="s", id="rs_1", encrypted_content="e", summary=({"text": "t"},)
    )
    message = s.Message(role=s.Role.ASSISTANT, content=(thought, call))
    again = through_json(message)
    assert again == message
    assert again.content[1].thought_signature == "sig"
    assert again.content[0].encrypted_content == "e"
