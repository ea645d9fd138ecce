from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ipyagent.json_types import parse_arguments
from ipyagent.llm.wire import CUT, ReplyBuilder, to_openai, tools_to_openai
from ipyagent.schema import (
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
    ToolDefinition,
    ToolResultContent,
)

PICTURE = ImageContent(data="QUJD", width=640, height=480)


def result(call_id: str, *content: TextContent | ImageContent, is_error: bool = False) -> Message:
    block = ToolResultContent(tool_use_id=call_id, content=content, is_error=is_error)
    return Message(role=Role.USER, content=(block,))


def built(*chunks: StreamChunk) -> Message:
    builder = ReplyBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.message()


def call(text: str = "", *, index: int = 0, ref: str = "", name: str = "") -> StreamChunk:
    return StreamChunk(type="tool_call", data=text, index=index, id=ref, name=name)


@pytest.mark.spec("M11", "M12", "A25", "A26")
def test_a_conversation_becomes_openai_messages_in_order() -> None:
    asked = ToolCall(id="c1", name="run_python", arguments={"code": "1", "a": "ü"})
    conversation = [
        Message.of(Role.SYSTEM, "sys"),
        Message.of(Role.USER, "hi"),
        Message(role=Role.ASSISTANT, content=(TextContent(text="ok"), asked)),
        result("c1", TextContent(text="2")),
        Message(role=Role.ASSISTANT, content=(asked.model_copy(update={"id": "c2"}),)),
        result("c2", TextContent(text="boom"), is_error=True),
    ]
    function = {"name": "run_python", "arguments": '{"a":"ü","code":"1"}'}
    assert to_openai(conversation, vision=False) == [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c2", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "Error: boom"},
    ]


def test_equal_arguments_give_equal_bytes_whatever_their_order() -> None:
    def wired(arguments: dict[str, int]) -> str:
        block = ToolCall(id="c", name="f", arguments=arguments)
        return json.dumps(to_openai([Message(role=Role.ASSISTANT, content=(block,))], vision=True))

    assert json.dumps({"a": 1, "b": 2}) != json.dumps({"b": 2, "a": 1})
    assert wired({"a": 1, "b": 2}) == wired({"b": 2, "a": 1})


@pytest.mark.spec("M14")
def test_several_results_come_before_what_the_person_says_next() -> None:
    blocks = tuple(
        ToolResultContent(tool_use_id=i, content=(TextContent(text=i),)) for i in ("a", "b")
    )
    message = Message(role=Role.USER, content=(TextContent(text="go on"), *blocks))
    wired = to_openai([message], vision=False)
    assert [w["role"] for w in wired] == ["tool", "tool", "user"]
    assert [w.get("tool_call_id") for w in wired] == ["a", "b", None]


def test_a_results_image_follows_as_a_user_message_for_a_model_that_sees() -> None:
    wired = to_openai([result("c", TextContent(text="plot"), PICTURE)], vision=True)
    assert wired[0]["content"] == "plot\n[image 640×480, shown below]"
    assert wired[1]["role"] == "user"
    assert wired[1]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    ]


def test_base64_never_reaches_a_model_that_cannot_see() -> None:
    said = Message(role=Role.USER, content=(TextContent(text="look"), PICTURE))
    wired = to_openai([result("c", PICTURE), said], vision=False)
    assert "QUJD" not in json.dumps(wired)
    note = "[image 640×480 not shown: this model cannot see images]"
    assert [w["content"] for w in wired] == [note, f"look\n{note}"]


@pytest.mark.spec("N04", "M13")
def test_only_signed_thinking_is_sent_back() -> None:
    signed = ThinkingContent(thinking="hm", signature="SIG")
    bare = ThinkingContent(thinking="secret thoughts")
    message = Message(role=Role.ASSISTANT, content=(signed, bare, TextContent(text="ok")))
    (wired,) = to_openai([message], vision=False)
    assert wired["thinking_blocks"] == [{"type": "thinking", "thinking": "hm", "signature": "SIG"}]
    assert "secret" not in json.dumps(wired)


def test_an_empty_reply_is_not_sent_back() -> None:
    thought = Message(role=Role.ASSISTANT, content=(ThinkingContent(thinking="hm"),))
    assert to_openai([thought], vision=False) == []


@pytest.mark.spec("M12")
def test_what_the_user_says_in_a_row_becomes_one_message() -> None:
    results = [result(i, TextContent(text=i), PICTURE) for i in ("a", "b")]
    context = Message.of(Role.USER, "variables", synthetic=True)
    look = Message(role=Role.USER, content=(TextContent(text="look"), PICTURE))
    wired = to_openai([*results, context, Message.of(Role.USER, "go on")], vision=False)
    assert [w["role"] for w in wired] == ["tool", "tool", "user"]
    assert wired[-1]["content"] == "variables\ngo on"
    *_, seen = to_openai([*results, context, look], vision=True)
    kinds = [part["type"] for part in seen["content"]]
    assert kinds == ["image_url", "image_url", "text", "text", "image_url"]


def test_a_reply_that_was_not_sent_back_does_not_part_what_the_user_says() -> None:
    thought = Message(role=Role.ASSISTANT, content=(ThinkingContent(thinking="hm"),))
    asked = Message.of(Role.USER, "hi")
    assert to_openai([asked, thought, asked], vision=False) == [
        {"role": "user", "content": "hi\nhi"}
    ]


def test_a_block_of_an_unknown_kind_is_never_sent() -> None:
    opaque = OpaqueContent.model_validate({"type": "hologram", "data": "QUJD"})
    for role in Role:
        alone = Message(role=role, content=(opaque, TextContent(text="ok")))
        (wired,) = to_openai([alone], vision=True)
        assert wired == {"role": str(role), "content": "ok"}


@pytest.mark.spec("M13")
def test_signatures_go_back_where_they_came_from() -> None:
    call = ToolCall(id="c", name="f", thought_signature="SIG", item_id="item")
    thought = ThinkingContent(encrypted_content="ENC", summary=({"text": "short"},))
    others = ThinkingContent(encrypted_content="OPENAI", id="t")  # nobody else can read that
    (wired,) = to_openai(
        [Message(role=Role.ASSISTANT, content=(thought, others, call))], vision=False
    )
    assert wired["thinking_blocks"] == [{"type": "redacted_thinking", "data": "ENC"}]
    assert wired["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": "SIG"}
    for unsent in ("item", "short", "OPENAI"):
        assert unsent not in json.dumps(wired)


@pytest.mark.spec("M20")
def test_tools_become_functions() -> None:
    schema = {"type": "object", "properties": {}}
    definition = ToolDefinition(name="f", description="Does f.", input_schema=schema)
    function = {"name": "f", "description": "Does f.", "parameters": schema}
    assert tools_to_openai([definition]) == [{"type": "function", "function": function}]


def test_lone_surrogates_do_not_break_the_encoding() -> None:
    naive = json.dumps({"text": "a\ud800"}, ensure_ascii=False)
    with pytest.raises(UnicodeEncodeError):
        naive.encode()
    message = built(
        StreamChunk(type="content", data="a\ud83d"),
        StreamChunk(type="content", data="\ude00\ud800"),
        call('{"x\\ud800": ["\\udfff"]}', name="f"),
    )
    assert message.text == "a😀\ufffd"
    assert message.tool_calls[0].arguments == {"x\ufffd": ["\ufffd"]}
    wired = to_openai([message, Message.of(Role.USER, "\udcff")], vision=False)
    json.dumps(wired, ensure_ascii=False).encode()
    message.model_dump_json().encode()


@pytest.mark.spec("A30", "M13", "N14")
def test_chunks_fold_into_blocks_in_their_order() -> None:
    builder = ReplyBuilder()
    for chunk in (
        StreamChunk(type="content", data="Hel"),
        StreamChunk(type="thinking", data="h"),
        StreamChunk(type="thinking", data="m"),
        StreamChunk(type="signature", data="SIG"),
        StreamChunk(type="thinking", data="more"),
        call('{"a"', ref="x", name="f"),
        call(": 1}"),
        StreamChunk(type="content", data="lo"),
        StreamChunk(type="finish", data="tool_calls"),
        StreamChunk(type="usage", usage=TokenUsage(prompt_tokens=3), cost_usd=0.5),
    ):
        builder.add(chunk)
    assert builder.message().content == (
        TextContent(text="Hel"),
        ThinkingContent(thinking="hm", signature="SIG"),
        ThinkingContent(thinking="more"),
        ToolCall(id="x", name="f", arguments={"a": 1}),
        TextContent(text="lo"),
    )
    assert builder.finish_reason == "tool_calls"
    assert builder.usage.total_tokens == 3
    assert builder.cost_usd == 0.5


@pytest.mark.spec("A26", "M17")
def test_a_reply_has_its_count_and_its_end() -> None:
    builder = ReplyBuilder()
    assert builder.message() is None
    usage = TokenUsage(prompt_tokens=3, completion_tokens=4)
    for chunk in (
        call('{"a": 1}', ref="x", name="f"),
        StreamChunk(type="finish", data="stop"),
        StreamChunk(type="usage", usage=usage, cost_usd=0.5),
    ):
        builder.add(chunk)
    response = LLMResponse(
        message=builder.message(),
        finish_reason=builder.finish_reason,
        usage=builder.usage,
        cost_usd=builder.cost_usd,
    )
    assert (response.content, response.text) == (None, "")
    assert response.tool_calls == (ToolCall(id="x", name="f", arguments={"a": 1}),)
    assert (response.finish_reason, response.usage, response.cost_usd) == ("stop", usage, 0.5)
    assert LLMResponse.from_dict(response.to_dict()) == response


@pytest.mark.spec("N04")
def test_signatures_stay_with_what_they_sign() -> None:
    message = built(
        StreamChunk(type="thinking", data="hm"),
        StreamChunk(type="signature", data="ENC", name="encrypted"),
        StreamChunk(type="thinking", data="so"),
        StreamChunk(type="signature", data="S"),
        StreamChunk(type="signature", data="2"),
        call("{}", index=1, ref="x", name="f"),
        StreamChunk(type="signature", data="SIG", index=1, name="call"),
        StreamChunk(type="signature", data="lost", index=9, name="call"),
    )
    assert message.content == (
        ThinkingContent(thinking="hm"),
        ThinkingContent(encrypted_content="ENC"),
        ThinkingContent(thinking="so", signature="S2"),
        ToolCall(id="x", name="f", thought_signature="SIG"),
    )


def test_no_part_of_a_reply_breaks_what_is_saved() -> None:
    """Half a character may be anywhere in a service's JSON."""
    half = "\ud800"
    message = built(
        StreamChunk(type="thinking", data=half),
        StreamChunk(type="signature", data=half),
        StreamChunk(type="signature", data=half, name="encrypted", id=half),
        StreamChunk(type="content", data=half),
        call("{}", ref=half, name=half),
        StreamChunk(type="signature", data=half, name="call"),
    )
    assert "\ufffd" in message.model_dump_json()


def test_an_interrupted_reply_can_be_kept_at_any_moment() -> None:
    chunks = [
        StreamChunk(type="thinking", data="hm"),
        StreamChunk(type="content", data="Hi"),
        call('{"a": ', name="f"),
    ]
    assert built() is None
    for end in range(1, len(chunks) + 1):
        Message.from_dict(built(*chunks[:end]).to_dict())
    (cut,) = built(*chunks).tool_calls
    assert cut.arguments == {}
    assert cut.parse_error


def test_no_arguments_at_all_are_an_empty_object() -> None:
    (only,) = built(call(ref="x", name="f")).tool_calls
    assert (only.arguments, only.parse_error) == ({}, None)


NOT_OBJECTS = [
    "{bad", "[1,2]", "null", "1", '"text"', " ", "{'a': 1}", '{"a": 1,}', '{"a": 1} x', "{a: 1}",
    '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 01}', '{"a": "\t"}', "\ufeff{}",
    '{"a": ' + "9" * 5000 + "}", '{"a": ' + "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300,
]  # fmt: skip


@pytest.mark.spec("D13", "P14")
@pytest.mark.parametrize("text", NOT_OBJECTS, ids=lambda text: text[:12])
def test_arguments_that_are_not_a_json_object_are_an_error_and_never_repaired(text: str) -> None:
    (only,) = built(call(text, ref="x", name="delete_everything")).tool_calls
    assert only.arguments == {}
    assert only.parse_error
    assert "JSON" in only.parse_error
    assert len(only.parse_error) < 300
    only.model_dump_json()


def test_a_parse_error_says_where_and_shows_an_excerpt() -> None:
    _, problem = parse_arguments('{"path": "a.txt", "content": oops}')
    assert problem
    assert "at character 29" in problem
    assert "oops" in problem


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["", ""], ["call_1_1", "call_1_2"]),
        (["a", "a"], ["a", "call_1_2"]),
        (["call_1_2", ""], ["call_1_2", "call_1_2_"]),
    ],
)
def test_ids_are_unique_and_the_providers_where_they_can_be(
    ids: list[str], expected: list[str]
) -> None:
    chunks = [call(f'{{"n": {i}}}', index=i, ref=given, name="f") for i, given in enumerate(ids)]
    assert [c.id for c in built(*chunks).tool_calls] == expected


def test_calls_that_share_an_index_stay_apart() -> None:
    chunks = [call('{"n": 1}', ref="a", name="f"), call('{"n": 2}', ref="b", name="g")]
    unnamed = [call('{"n": 1}', name="f"), call('{"n": 2}', name="f")]
    assert [c.arguments for c in built(*chunks).tool_calls] == [{"n": 1}, {"n": 2}]
    assert [c.arguments for c in built(*unnamed).tool_calls] == [{"n": 1}, {"n": 2}]
    broken = [call('{"n"', ref="a", name="f"), call('{"n": 2}', ref="b", name="f")]
    assert [c.arguments for c in built(*broken).tool_calls] == [{}, {"n": 2}]


def test_a_call_without_a_name_is_not_executed() -> None:
    (only,) = built(call("{}", ref="x")).tool_calls
    assert only.name == "unknown"
    assert only.parse_error


@pytest.mark.spec("A29")
def test_calls_of_a_reply_cut_at_its_length_limit_are_not_executed() -> None:
    whole = call('{"code": "1"}', ref="x", name="run_python")
    assert (
        built(whole, StreamChunk(type="finish", data="tool_calls")).tool_calls[0].parse_error
        is None
    )
    assert built(whole, StreamChunk(type="finish", data="length")).tool_calls[0].parse_error == CUT


@pytest.mark.spec("D14")
def test_text_that_looks_like_a_call_stays_text() -> None:
    assert (
        built(StreamChunk(type="content", data='{"name":"Alice","args":"student"}')).tool_calls
        == ()
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(arguments=st.dictionaries(st.text(), JSON), cuts=st.lists(st.integers(0, 200)))
def test_arguments_arrive_whole_however_they_are_cut(
    arguments: dict[str, object], cuts: list[int]
) -> None:
    text = json.dumps(arguments)
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(ends)]
    (only,) = built(call(ref="x", name="f"), *(call(piece) for piece in pieces)).tool_calls
    assert only.arguments == arguments


def turn() -> st.SearchStrategy[Message]:
    texts = st.text(min_size=1, max_size=8).map(lambda text: f"<{text}>")
    blocks = st.builds(TextContent, text=texts) | st.just(PICTURE)
    results = st.builds(
        ToolResultContent,
        tool_use_id=st.just("c"),
        content=st.lists(blocks, max_size=2).map(tuple),
        is_error=st.booleans(),
    )
    user = st.lists(blocks | results, min_size=1, max_size=3)
    arguments = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3))
    calls = st.builds(ToolCall, id=st.just("c"), name=st.just("f"), arguments=arguments)
    thoughts = st.builds(ThinkingContent, thinking=texts, signature=st.sampled_from(["", "SIG"]))
    assistant = st.tuples(thoughts, st.builds(TextContent, text=texts) | calls)
    return st.one_of(
        user.map(lambda content: Message(role=Role.USER, content=tuple(content))),
        assistant.map(lambda content: Message(role=Role.ASSISTANT, content=content)),
    )


@pytest.mark.spec("M12")
@given(st.lists(turn(), min_size=1, max_size=6), st.lists(turn(), max_size=3), st.booleans())
def test_a_longer_conversation_only_appends_bytes(
    before: list[Message], after: list[Message], vision: bool
) -> None:
    def wire(messages: list[Message]) -> str:
        return json.dumps(to_openai(messages, vision=vision), ensure_ascii=False)

    shorter, longer = wire(before), wire([*before, *after])
    reread = [Message.from_dict(message.to_dict()) for message in before]
    assert wire(reread) == shorter
    if not after or before[-1].role is not after[0].role or before[-1].role is Role.ASSISTANT:
        assert longer.startswith(shorter.removesuffix("]"))
    else:  # the same turn goes on: what came before it stays
        earlier = next(i for i, m in enumerate(reversed(before)) if m.role is Role.USER)
        while earlier < len(before) and before[-1 - earlier].role is Role.USER:
            earlier += 1
        assert longer.startswith(wire(before[: len(before) - earlier]).removesuffix("]"))
