"""Messages and their blocks, in other formats and in ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import ValidationError
from strategies import calls, messages

from ipyagent.schema import (
    MAX_TYPED,
    Block,
    ContentBlock,
    ImageContent,
    LLMResponse,
    Message,
    OpaqueContent,
    Role,
    StreamChunk,
    TextContent,
    ThinkingContent,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolResultContent,
)

PIXEL = "iVBORw0KGgo="


def message(**data: Any) -> Message:
    return Message.from_dict(data)


# Calls


@pytest.mark.spec("A25", "M11", "N05", "P14")
@pytest.mark.parametrize(
    "shape",
    [
        {"id": "c", "name": "f", "arguments": {"a": 1}},
        {"id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}, "item_id": None},
        {"id": "c", "tool_name": "f", "args": {"a": 1}},
        {"id": "c", "tool_name": "f", "parameters": {"a": 1}},
        {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}},
    ],
)
def test_a_call_is_accepted_in_every_format(shape: dict[str, Any]) -> None:
    assert ToolCall.from_dict(shape) == ToolCall(id="c", name="f", arguments={"a": 1})
    assert ToolCall.from_dict(shape).to_dict()["type"] == "tool_call"


@pytest.mark.spec("A25", "M11", "N05")
def test_a_call_is_emitted_in_every_format() -> None:
    call = ToolCall(id="c", name="f", arguments={"ä": [1]})
    function = {"name": "f", "arguments": '{"ä": [1]}'}
    assert call.to_openai() == {"id": "c", "type": "function", "function": function}
    used = {"type": "tool_use", "id": "c", "name": "f", "input": {"ä": [1]}}
    assert call.to_anthropic() == used


@pytest.mark.spec("A25")
@given(calls)
def test_a_call_survives_every_format(call: ToolCall) -> None:
    bare = ToolCall(id=call.id, name=call.name, arguments=call.arguments)
    for shape in (call.to_openai(), call.to_anthropic()):
        assert ToolCall.from_dict(json.loads(json.dumps(shape))) == bare


@pytest.mark.spec("P14", "D13")
@pytest.mark.parametrize(
    "text", ["{bad", "[1,2]", "null", '"x"', '{"a": NaN}', '{"a": 1e999}', '{"a": 1} extra', " "]
)
def test_arguments_that_are_not_an_object_are_a_parse_error(text: str) -> None:
    for shape in ({"name": "f", "arguments": text}, {"function": {"name": "f", "arguments": text}}):
        call = ToolCall.from_dict({"id": "c", **shape})
        assert call.arguments == {}
        assert "not" in (call.parse_error or "")


@pytest.mark.spec("N05")
def test_arguments_are_optional_but_id_and_name_are_required() -> None:
    for nothing in (None, "", {}):
        call = ToolCall.from_dict({"type": "tool_use", "id": "c", "name": "f", "input": nothing})
        assert (call.arguments, call.parse_error) == ({}, None)
    for wrong in (
        {"id": "", "name": "f"},
        {"id": "c", "name": ""},
        {"name": "f"},
        {"id": "c"},
        {"id": "c", "name": "f", "input": [1]},
        {"id": "c", "name": "f", "input": {}, "arguments": {}},
        {"type": "text", "id": "c", "name": "f"},
    ):
        with pytest.raises(ValidationError):
            ToolCall.from_dict(wrong)


# Blocks


@pytest.mark.spec("N03", "N04")
def test_the_type_of_a_block_is_set_automatically() -> None:
    assert TextContent(text="x").to_dict() == {"type": "text", "text": "x"}
    thought = ThinkingContent(thinking="hm")
    assert thought.type == "thinking"
    assert (thought.signature, thought.id, thought.encrypted_content) == ("", "", "")
    assert thought.summary == ()
    for cls in (TextContent, ThinkingContent):
        with pytest.raises(ValidationError):
            cls.from_dict({"type": "image", "text": "x"})


@pytest.mark.spec("N04", "M13")
def test_reasoning_of_every_provider_becomes_thinking() -> None:
    openai = {
        "type": "reasoning",
        "id": "rs",
        "encrypted_content": None,
        "summary": [{"text": "t"}],
    }
    thought = ThinkingContent.from_dict(openai)
    assert (thought.type, thought.id, thought.summary) == ("thinking", "rs", ({"text": "t"},))
    hidden = {"type": "redacted_thinking", "data": "EwA="}
    (block,) = message(role="assistant", content=[hidden]).content
    assert isinstance(block, ThinkingContent)
    assert block.encrypted_content == "EwA="
    assert block.to_anthropic() == hidden


@pytest.mark.spec("N04")
def test_fields_for_the_provider_only_are_not_in_a_repr() -> None:
    thought = ThinkingContent(thinking="hm", signature="SIGNED", encrypted_content="HIDDEN")
    assert "SIGNED" not in repr(thought)
    assert "HIDDEN" not in repr(thought)


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "image", "media_type": "image/jpeg", "data": PIXEL},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/jpeg", "data": PIXEL},
        },
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": f"data:image/jpeg;base64,{PIXEL}"},
    ],
)
def test_an_image_is_accepted_in_every_format(shape: dict[str, Any]) -> None:
    image = ImageContent(media_type="image/jpeg", data=PIXEL)
    assert message(role="user", content=[shape]).content == (image,)
    assert ImageContent.from_dict(shape) == image
    for again in (image.to_openai(), image.to_anthropic()):
        assert ImageContent.from_dict(again) == image


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}},
    ],
)
def test_an_image_at_a_url_is_kept_and_not_fetched(shape: dict[str, Any]) -> None:
    parsed = message(role="user", content=["look", shape])
    assert isinstance(parsed.content[1], OpaqueContent)
    assert parsed.to_dict()["content"][1] == shape
    assert parsed.to_openai() == [{"role": "user", "content": "look"}]


@pytest.mark.spec("N06", "A37")
def test_a_tool_result_is_text_or_blocks() -> None:
    wanted = ToolResultContent(tool_use_id="c", content=(TextContent(text="ok"),))
    for content in ("ok", ["ok"], [{"type": "text", "text": "ok"}], [TextContent(text="ok")]):
        shape = {"type": "tool_result", "tool_use_id": "c", "content": content}
        assert ToolResultContent.from_dict(shape) == wanted
    assert wanted.is_error is False
    assert ToolResultContent(tool_use_id="c", content="").content == ()
    assert ToolResultContent(tool_use_id="c", content=None).text == ""
    for wrong in ({"tool_use_id": ""}, {"tool_use_id": "c", "is_error": "yes"}, {"content": "x"}):
        with pytest.raises(ValidationError):
            ToolResultContent.from_dict(wrong)


@pytest.mark.spec("D24")
def test_blocks_of_a_newer_version_are_kept_unchanged() -> None:
    new = {"type": "hologram", "layers": [{"z": 1.5}], "text": None}
    block = {"type": "tool_result", "tool_use_id": "c", "content": [new], "is_error": False}
    parsed = message(role="user", content=[new, block, "x"])
    assert parsed.to_dict()["content"][0] == new
    assert parsed.to_dict()["content"][1] == block
    assert Message.from_dict(parsed.to_dict()) == parsed
    assert parsed.text == "x"
    assert "hologram" not in json.dumps(parsed.to_openai())


@pytest.mark.spec("N02", "N17")
def test_blocks_can_be_matched() -> None:
    def block_type(block: Block) -> str:
        match block:
            case TextContent(text=text):
                return text
            case ThinkingContent(thinking=text, signature=signature):
                return f"{text}/{signature}"
            case ToolCall(name=name, arguments={"a": a}):
                return f"{name}({a})"
            case ToolResultContent(content=(TextContent(text=text), *_), is_error=False):
                return f"-> {text}"
            case ImageContent(media_type=media_type):
                return media_type
            case OpaqueContent(type=kind):
                return f"{kind}?"
        return "else"

    blocks = [
        {"type": "text", "text": "hi"},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "image", "data": PIXEL},
        {"type": "hologram"},
    ]
    asked = message(role="assistant", content=blocks)
    assert [block_type(block) for block in asked.content] == [
        "hi",
        "hm/s",
        "f(1)",
        "image/png",
        "hologram?",
    ]
    (result,) = message(role="tool", tool_call_id="c", content="42").content
    assert block_type(result) == "-> 42"
    assert isinstance(result, ContentBlock)
    assert not isinstance(asked, ContentBlock)


# Messages


@pytest.mark.spec("N07", "M12")
def test_a_text_becomes_one_block() -> None:
    for content in ("Hello", ["Hello"], [{"type": "text", "text": "Hello"}]):
        parsed = message(role="user", content=content)
        assert parsed.content == (TextContent(text="Hello"),)
        assert parsed.to_dict()["content"] == [{"type": "text", "text": "Hello"}]


@pytest.mark.spec("M12")
def test_a_message_of_role_tool_becomes_a_tool_result() -> None:
    parsed = message(role="tool", content="42", tool_call_id="c", name="f")
    result = ToolResultContent(tool_use_id="c", content=(TextContent(text="42"),))
    assert (parsed.role, parsed.content) == (Role.USER, (result,))
    for wrong in ({}, {"tool_call_id": None}, {"tool_call_id": ""}):
        with pytest.raises(ValidationError, match="tool_use_id"):
            message(role="tool", content="42", **wrong)


@pytest.mark.spec("M12", "M11", "M13")
def test_thinking_and_calls_beside_the_content_become_blocks() -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    parsed = message(
        role="assistant",
        content="Let me look.",
        thinking="hm",
        tool_calls=[{"id": "c", "type": "function", "function": function}],
        tool_call_id=None,
        name=None,
    )
    assert parsed.content == (
        ThinkingContent(thinking="hm"),
        TextContent(text="Let me look."),
        ToolCall(id="c", name="f", arguments={"a": 1}),
    )
    assert (parsed.text, parsed.thinking) == ("Let me look.", "hm")
    bare = message(role="assistant", content="x", thinking=None, tool_calls=None)
    assert bare.content == (TextContent(text="x"),)


def test_fields_beside_the_content_are_validated() -> None:
    for wrong in (
        {"tool_calls": 5},
        {"tool_calls": ["f"]},
        {"thinking": 5},
        {"thinking_blocks": "x"},
        {"name": "Ada"},
        {"tool_call_id": "c"},
        {"content": 5},
        {"content": {"type": "text"}},
        {"content": 5, "tool_calls": [{"id": "c", "name": "f"}]},
        {"colour": "red"},
    ):
        with pytest.raises(ValidationError):
            message(**({"role": "assistant", "content": "x"} | wrong))


@pytest.mark.spec("D3", "M12")
def test_a_message_of_calls_alone_is_valid() -> None:
    for content in ({}, {"content": None}, {"content": ""}, {"content": []}):
        parsed = message(role="assistant", tool_calls=[{"id": "c", "name": "f"}], **content)
        assert [call.id for call in parsed.tool_calls] == ["c"]
        assert parsed.text == ""


@pytest.mark.spec("H10")
@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_makes_tool_calls(role: str) -> None:
    called = {"tool_calls": [{"tool_name": "f", "parameters": {}}]}
    assert message(role="assistant", content="x", **called).tool_calls
    extra = {"tool_call_id": "c"} if role == "tool" else {}
    with pytest.raises(ValidationError, match="only the assistant"):
        message(role=role, content="x", **called, **extra)
    assert message(role=role, content="x", tool_calls=[], **extra)


@pytest.mark.spec("H10", "H13", "H22")
def test_executed_calls_are_accepted_as_calls() -> None:
    carried = {"tool_name": "f", "parameters": {"a": 1}, "result": "x", "status": "success"}
    execution = ToolExecution(call=ToolCall(id="c9", name="g"))
    parsed = message(role="assistant", content="x", tool_calls=[carried, carried, execution])
    assert [(c.id, c.name, c.arguments) for c in parsed.tool_calls] == [
        ("call_1", "f", {"a": 1}),
        ("call_2", "f", {"a": 1}),
        ("c9", "g", {}),
    ]
    again = message(role="assistant", content="x", tool_calls=[execution.to_dict()])
    assert again.tool_calls == (execution.call,)


@pytest.mark.spec("M14")
def test_results_belong_in_user_messages() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    assert message(role="user", content=[result]).tool_results
    for role in ("assistant", "system"):
        with pytest.raises(ValidationError, match="user message"):
            message(role=role, content=[result])


@pytest.mark.spec("H07")
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("content", ["", "   ", " \n\t ", None, [], [" "], ["", "\n"]])
def test_an_empty_message_is_refused(role: str, content: Any) -> None:
    with pytest.raises(ValidationError, match=r"must not be empty|at least one block"):
        message(role=role, content=content)


@pytest.mark.spec("H08", "D6")
def test_a_user_can_type_at_most_10_000_characters() -> None:
    assert MAX_TYPED == 10_000
    assert len(message(role="user", content="x" * 10_000).text) == 10_000
    padded = message(role="user", content=" " + "x" * 10_000 + "\n")
    assert padded.text == "x" * 10_000
    for content in ("x" * 10_001, ["x" * 5_000, "x" * 5_001], [" " * 9, "x" * 10_001]):
        with pytest.raises(ValidationError, match="10,001 characters; at most 10,000"):
            message(role="user", content=content)


@pytest.mark.spec("H08")
def test_messages_that_were_not_typed_may_be_longer() -> None:
    long = "x" * 10_001
    for content in (
        {"role": "assistant", "content": long},
        {"role": "system", "content": long},
        {"role": "user", "content": long, "synthetic": True},
        {"role": "tool", "tool_call_id": "c", "content": long},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": long}]},
    ):
        assert message(**content)


@pytest.mark.spec("H08")
def test_only_typed_text_is_stripped() -> None:
    assert message(role="user", content=" a \n").text == "a"
    assert message(role="user", content=" a \n", synthetic=True).text == " a \n"
    assert message(role="user", content=[" a \n"]).text == " a \n"
    assert message(role="assistant", content="  indented\n").text == "  indented\n"


@pytest.mark.spec("H09", "M12", "N08")
def test_a_role_is_one_of_three_or_tool() -> None:
    assert [str(role) for role in Role] == ["system", "user", "assistant"]
    for role in Role:
        assert message(role=str(role), content="x").role is role
    for wrong in ("function", "User", "", None, 1):
        with pytest.raises(ValidationError):
            message(role=wrong, content="x")


@pytest.mark.spec("H11")
def test_a_moment_is_a_number_or_an_aware_time() -> None:
    when = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    for key in ("timestamp", "ts"):
        for moment in (when, when.timestamp(), "2024-01-02T03:04:05Z", "2024-01-02T04:04:05+01:00"):
            assert message(role="user", content="x", **{key: moment}).timestamp == when
    for wrong in (datetime(2024, 1, 2), "2024-01-02T03:04:05", "soon", None):
        with pytest.raises(ValidationError):
            message(role="user", content="x", timestamp=wrong)


@pytest.mark.spec("H12", "H22")
def test_a_message_has_one_count_of_tokens_or_none() -> None:
    counted = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    for key in ("usage", "tokens_used"):
        parsed = message(role="assistant", content="x", **{key: counted})
        assert parsed.usage == TokenUsage(prompt_tokens=1, completion_tokens=2)
    assert message(role="assistant", content="x", tokens_used=None).usage is None


def test_flags_are_not_guessed() -> None:
    for wrong in (1, "true", None):
        with pytest.raises(ValidationError):
            message(role="user", content="x", synthetic=wrong)


# Exporters


@pytest.mark.spec("M11", "M12")
def test_a_conversation_in_openais_format() -> None:
    asked = message(role="assistant", content="x", tool_calls=[{"id": "c", "name": "f"}])
    function = {"name": "f", "arguments": "{}"}
    assert asked.to_openai() == [
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        }
    ]
    image = ImageContent(data=PIXEL)
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": ["1", image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "2"},
    ]
    assert message(role="user", content=[*results, "and?"]).to_openai() == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}, image.to_openai()]},
    ]
    assert message(role="user", content=results[1:]).to_openai() == [
        {"role": "tool", "tool_call_id": "b", "content": "2"}
    ]


@pytest.mark.spec("M11", "M12", "N07")
@settings(max_examples=60, deadline=None)
@given(messages)
def test_a_message_comes_back_from_anthropics_format(said: Message) -> None:
    again = Message.from_dict(said.to_anthropic() | {"synthetic": said.synthetic})
    assert again.to_anthropic() == said.to_anthropic()
    assert (again.role, again.text, again.thinking) == (said.role, said.text, said.thinking)


# Tokens


@pytest.mark.spec("M15", "H18")
def test_counts_are_whole_and_not_negative() -> None:
    assert TokenUsage().total_tokens == 0
    assert TokenUsage(prompt_tokens=0, completion_tokens=0) == TokenUsage()
    for key in (
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cache_read_tokens",
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ):
        for wrong in (-1, 1.5, "1", True):
            with pytest.raises(ValidationError):
                TokenUsage.from_dict({key: wrong})
    with pytest.raises(ValidationError):  # though the sum is positive
        TokenUsage.from_dict({"input_tokens": -1, "cache_read_input_tokens": 9})


@pytest.mark.spec("H19", "D4")
def test_a_total_is_the_sum_of_its_parts() -> None:
    assert TokenUsage(prompt_tokens=10, completion_tokens=5).total_tokens == 15
    same = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert TokenUsage.from_dict(same) == TokenUsage(prompt_tokens=10, completion_tokens=5)
    for wrong in (14, 16, 115, 0):
        with pytest.raises(ValidationError) as caught:
            TokenUsage.from_dict(same | {"total_tokens": wrong})
        assert f"total_tokens ({wrong})" in str(caught.value)
        assert "15" in str(caught.value)
    with pytest.raises(ValidationError, match="total_tokens"):
        TokenUsage.from_dict({"total_tokens": 1})


@pytest.mark.spec("N15", "M15", "H19", "D4")
@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        # The cached 100 stand beside Anthropic's input …
        (
            {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100},
            (110, 5, 100, 0),
        ),
        ({"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 7}, (17, 5, 0, 7)),
        ({"output_tokens": 5, "cache_read_input_tokens": None}, (0, 5, 0, 0)),
        # … and are a part of OpenAI's prompt.
        (
            {
                "prompt_tokens": 110,
                "completion_tokens": 5,
                "total_tokens": 115,
                "prompt_tokens_details": {"cached_tokens": 100, "audio_tokens": 0},
                "completion_tokens_details": None,
            },
            (110, 5, 100, 0),
        ),
        (
            {
                "input_tokens": 110,
                "input_tokens_details": {"cached_tokens": 100},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 3},
                "total_tokens": 115,
            },
            (110, 5, 100, 0),
        ),
        # LiteLLM says it both ways.
        (
            {
                "prompt_tokens": 110,
                "completion_tokens": 5,
                "total_tokens": 115,
                "prompt_tokens_details": {"cached_tokens": 100},
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 4,
            },
            (110, 5, 100, 4),
        ),
        # A saved graph of nano-agent's has every key, of whichever provider.
        (
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 100,
                "reasoning_tokens": 0,
                "cached_tokens": 0,
                "total_tokens": 0,
            },
            (110, 5, 100, 0),
        ),
        (
            {
                "input_tokens": 110,
                "output_tokens": 5,
                "reasoning_tokens": 2,
                "cached_tokens": 100,
                "total_tokens": 115,
            },
            (110, 5, 100, 0),
        ),
    ],
)
def test_the_token_counts_of_every_provider_are_accepted(
    shape: dict[str, Any], counts: tuple[int, ...]
) -> None:
    usage = TokenUsage.from_dict(shape)
    assert tuple(usage.to_dict().values()) == (*counts, counts[0] + counts[1])


def test_token_counts_of_two_formats_cannot_be_mixed() -> None:
    with pytest.raises(ValidationError):
        TokenUsage.from_dict({"prompt_tokens": 1, "input_tokens": 1})


@pytest.mark.spec("N15")
def test_a_token_count_survives_every_format() -> None:
    usage = TokenUsage(
        prompt_tokens=110, completion_tokens=5, cache_read_tokens=90, cache_creation_tokens=10
    )
    assert usage.to_anthropic() == {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 90,
    }
    assert TokenUsage.from_dict(usage.to_anthropic()) == usage
    written = TokenUsage.from_dict(usage.to_openai())
    assert written == usage.model_copy(update={"cache_creation_tokens": 0})
    assert usage + usage == TokenUsage(
        prompt_tokens=220, completion_tokens=10, cache_read_tokens=180, cache_creation_tokens=20
    )


# Replies

CALL = {"id": "c", "name": "f", "arguments": {"a": 1}}


@pytest.mark.spec("A26", "M17", "N14", "A28")
@pytest.mark.parametrize(
    "shape",
    [
        {"content": None, "tool_calls": [CALL], "finish_reason": "stop", "usage": {}},
        {
            "content": "",
            "thinking": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
            ],
            "finish_reason": "stop",
            "usage": None,
        },
        {
            "id": "m",
            "model": "x",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}],
            "stop_reason": "stop",
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
        {
            "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
            "finish_reason": "stop",
        },
    ],
)
def test_a_reply_of_calls_is_accepted_in_every_format(shape: dict[str, Any]) -> None:
    reply = LLMResponse.from_dict(shape)
    assert reply.tool_calls == (ToolCall.from_dict(CALL),)  # whatever the finish reason says
    assert (reply.content, reply.text, reply.finish_reason) == (None, "", "stop")
    assert reply.usage == TokenUsage()


@pytest.mark.spec("A26", "A27", "M17")
@pytest.mark.parametrize("calls", [{}, {"tool_calls": []}, {"tool_calls": None}])
def test_a_reply_without_calls_is_the_answer(calls: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    reply = LLMResponse.from_dict(
        {"content": "42", "thinking": "hm", "finish_reason": "stop", "usage": usage, **calls}
    )
    assert (reply.content, reply.thinking, reply.tool_calls) == ("42", "hm", ())
    assert reply.usage.total_tokens == 7


@pytest.mark.spec("A26")
@pytest.mark.parametrize("content", [None, "", "  \n", [], [{"type": "text", "text": ""}]])
def test_a_reply_may_say_nothing(content: Any) -> None:
    reply = LLMResponse.from_dict({"content": content, "tool_calls": [], "finish_reason": "stop"})
    assert reply.message is None
    assert (reply.content, reply.text, reply.thinking, reply.tool_calls) == (None, "", "", ())


@pytest.mark.spec("N14")
def test_the_text_of_a_reply_is_all_its_text() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": " two"},
    ]
    reply = LLMResponse.from_dict(
        {
            "id": "msg",
            "type": "message",
            "model": "m",
            "role": "assistant",
            "content": blocks,
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2},
        }
    )
    assert reply.text == "one two"
    assert (reply.id, reply.model, reply.finish_reason) == ("msg", "m", "end_turn")
    assert reply.usage.prompt_tokens == 12
    with pytest.raises(ValidationError, match="must have the role assistant, not user"):
        LLMResponse.from_dict({"role": "user", "content": "x"})


@pytest.mark.spec("A30")
def test_a_chunk_is_text_by_default() -> None:
    assert StreamChunk(data="x") == StreamChunk.from_dict({"type": "content", "data": "x"})
    for kind in ("content", "thinking", "signature", "tool_call", "usage", "finish"):
        assert StreamChunk(type=kind).type == kind
    with pytest.raises(ValidationError):
        StreamChunk(type="hologram")
