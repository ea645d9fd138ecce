from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipyagent.llm.client import StreamChunk
from ipyagent.llm.wire import CUT, ReplyBuilder, parse_arguments, to_openai, tools_to_openai
from ipyagent.schema import (
    ImageContent,
    Message,
    Role,
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
    return StreamChunk("tool_call", text, index=index, id=ref, name=name)


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


@pytest.mark.spec("M20")
def test_tools_become_functions() -> None:
    schema = {"type": "object", "properties": {}}
    definition = ToolDefinition(name="f", description="Does f.", parameters=schema)
    function = {"name": "f", "description": "Does f.", "parameters": schema}
    assert tools_to_openai([definition]) == [{"type": "function", "function": function}]


def test_lone_surrogates_do_not_break_the_encoding() -> None:
    naive = json.dumps({"text": "a\ud800"}, ensure_ascii=False)
    with pytest.raises(UnicodeEncodeError):
        naive.encode()
    message = built(
        StreamChunk("text", "a\ud83d"),
        StreamChunk("text", "\ude00\ud800"),
        call('{"x\\ud800": ["\\udfff"]}', name="f"),
    )
    assert message.text == "a😀\ufffd"
    assert message.tool_calls[0].arguments == {"x\ufffd": ["\ufffd"]}
    wired = to_openai([message, Message.of(Role.USER, "\udcff")], vision=False)
    json.dumps(wired, ensure_ascii=False).encode()
    message.model_dump_json().encode()


@pytest.mark.spec("A30", "M13", "N14")
def test_chunks_fold_into_thinking_text_and_calls() -> None:
    builder = ReplyBuilder()
    for chunk in (
        StreamChunk("text", "Hel"),
        StreamChunk("thinking", "h"),
        StreamChunk("thinking", "m"),
        StreamChunk("signature", "SIG"),
        StreamChunk("thinking", "more"),
        call('{"a"', ref="x", name="f"),
        call(": 1}"),
        StreamChunk("text", "lo"),
        StreamChunk("finish", "tool_calls"),
        StreamChunk("usage", usage=TokenUsage(prompt_tokens=3), cost_usd=0.5),
    ):
        builder.add(chunk)
    assert builder.message().content == (
        ThinkingContent(thinking="hm", signature="SIG"),
        ThinkingContent(thinking="more"),
        TextContent(text="Hello"),
        ToolCall(id="x", name="f", arguments={"a": 1}),
    )
    assert builder.finish_reason == "tool_calls"
    assert builder.usage.total_tokens == 3
    assert builder.cost_usd == 0.5


def test_an_interrupted_reply_can_be_kept_at_any_moment() -> None:
    chunks = [StreamChunk("thinking", "hm"), StreamChunk("text", "Hi"), call('{"a": ', name="f")]
    for end in range(len(chunks) + 1):
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
        (["a", "a"], ["call_1_1", "call_1_2"]),
        (["call_1_2", ""], ["call_1_2", "call_1_2_"]),
    ],
)
def test_ids_are_unique_and_the_providers_where_they_can_be(
    ids: list[str], expected: list[str]
) -> None:
    chunks = [call("{}", index=i, ref=given, name="f") for i, given in enumerate(ids)]
    assert [c.id for c in built(*chunks).tool_calls] == expected


def test_calls_that_share_an_index_stay_apart() -> None:
    chunks = [call('{"n": 1}', ref="a", name="f"), call('{"n": 2}', ref="b", name="g")]
    unnamed = [call('{"n": 1}', name="f"), call('{"n": 2}', name="f")]
    assert [c.arguments for c in built(*chunks).tool_calls] == [{"n": 1}, {"n": 2}]
    assert [c.arguments for c in built(*unnamed).tool_calls] == [{"n": 1}, {"n": 2}]


def test_a_call_without_a_name_is_not_executed() -> None:
    (only,) = built(call("{}", ref="x")).tool_calls
    assert only.name == "unknown"
    assert only.parse_error


@pytest.mark.spec("A29")
def test_calls_of_a_reply_cut_at_its_length_limit_are_not_executed() -> None:
    whole = call('{"code": "1"}', ref="x", name="run_python")
    assert built(whole, StreamChunk("finish", "tool_calls")).tool_calls[0].parse_error is None
    assert built(whole, StreamChunk("finish", "length")).tool_calls[0].parse_error == CUT


@pytest.mark.spec("D14")
def test_text_that_looks_like_a_call_stays_text() -> None:
    assert built(StreamChunk("text", '{"name":"Alice","args":"student"}')).tool_calls == ()


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
