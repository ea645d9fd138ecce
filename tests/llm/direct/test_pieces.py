"""Calls in pieces, and texts that come a second time or only at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asking import EVENTS, ask, client_of

from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import StreamChunk, TextContent, ThinkingContent, ToolCall
from servers.model_server import ModelServer, Reply, delta, sse

CHAT, MESSAGES, RESPONSES = "openai/x", "anthropic/claude-sonnet-4-5", "openai/responses/gpt-x"
HELLO = TextContent(text="Hello world.")
HM = ThinkingContent(thinking="Hm.")


def streamed(*events: Any) -> Reply:
    return Reply(tuple(map(sse, events)), headers=EVENTS)


def piece(arguments: Any = "", name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A piece of a call; index 0 unless another is given, None for no index at all."""
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    made = {"index": 0, "function": function} | fields
    return {k: v for k, v in made.items() if not (k == "index" and v is None)}


def custom(text: str, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A piece of a call that OpenAI calls custom."""
    called = {"input": text} | ({} if name is None else {"name": name})
    made = piece(type="custom", custom=called, **fields)
    return {key: value for key, value in made.items() if key != "function"}


P, Q = '{"path": "notes.txt"}', '{"path": "b.txt"}'
NOTES, B = {"path": "notes.txt"}, {"path": "b.txt"}
READ = [("read_file", NOTES)]
CALLS: dict[str, tuple[list[Any], list[tuple[str, Any]]]] = {
    "{} first": ([piece("{}", "read_file", id="a"), piece(P)], READ),
    "{} first, the second in two": (
        [piece("{}", "read_file", id="a"), piece(P[:5]), piece(P[5:])], READ),
    "{} first, with the name again": (
        [piece("{}", "read_file", id="a"), piece(P, "read_file")], READ),
    "{} first, with name and id again": (
        [piece("{}", "read_file", id="a"), piece(P, "read_file", id="a")], READ),
    "null first": ([piece("null", "read_file", id="a"), piece(P)], READ),
    "an empty text first": ([piece('""', "read_file", id="a"), piece(P)], READ),
    "an empty object first": ([piece({}, "read_file", id="a"), piece(NOTES)], READ),
    "{} and blanks first": ([piece("{}\n", "read_file", id="a"), piece(P)], READ),
    "both at once": ([piece("{}" + P, "read_file", id="a")], READ),
    "{} last": ([piece(P, "read_file", id="a"), piece("{}")], READ),
    "a text in a text": ([piece(json.dumps(P), "read_file", id="a")], READ),
    "an object that grows": (
        [piece(P[:5], "read_file", id="a"), piece(P[:9], "read_file", id="a"), piece(P)], READ),
    "braces in pieces": (
        [piece("{", "run", id="a"), piece('"a":'), piece('"{"}')], [("run", {"a": "{"})]),
    "{} twice": ([piece("{}", "list_files", id="a"), piece("{}")], [("list_files", {})]),
    "the same object twice": ([piece(P, "read_file", id="a"), piece(P)], READ),
    "the whole call twice": (
        [piece(P, "read_file", id="a"), piece(P, "read_file", id="a")], READ),
    "the whole call twice, then without id": (
        [piece(P[:5], "read_file", id="a"), piece(P[5:]), piece(P, "read_file")], READ),
    "a name in pieces": (
        [piece("", "list_", id="a"), piece("", "files"), piece("{}")], [("list_files", {})]),
    "a name in pieces, with the id": (
        [piece("", "list_", id="a"), piece("", "files", id="a"), piece("{}")],
        [("list_files", {})]),
    "a name in pieces, without ids": (
        [piece("", "read"), piece("", "_fi"), piece(P[:4], "le"), piece(P[4:])], READ),
    "a name that grows": (
        [piece("", "list_", id="a"), piece("{}", "list_files")], [("list_files", {})]),
    "a name in pieces, then in full": (
        [piece("", "read_", id="a"), piece("", "file"), piece(P, "read_file")], READ),
    "a name with each piece": (
        [piece(P[:5], "read_file", id="a"), piece(P[5:9], "read_file"),
         piece(P[9:], "read_file")], READ),
    "a name again, amid the arguments": (
        [piece(P[:4], "read_file", id="a"), piece(P[4:], "read_file")], READ),
    "id and name with each piece": (
        [piece(P[:4], "read_file", id="a"), piece(P[4:], "read_file", id="a")], READ),
    "a new id with each piece": (
        [piece("", "read_file", id="a"), piece(P[:4], id="b"), piece(P[4:], id="c")], READ),
    "another name amid the arguments": (
        [piece(P[:4], "read_file", id="a"), piece(P[4:], "tool", id="a")], READ),
    "no index": (
        [piece("", "read_file", id="a", index=None), piece(P[:4], index=None),
         piece(P[4:], index=None)], READ),
    "no index, two calls one after the other": (
        [piece("", "read_file", id="a", index=None), piece(P, index=None),
         piece("", "list_files", id="b", index=None), piece("{}", index=None)],
        [*READ, ("list_files", {})]),
    "no index, two calls at once, then their pieces by id": (
        [[piece("", "read_file", id="a", index=None), piece("", "read_file", id="b", index=None)],
         piece(P, id="a", index=None), piece(Q, id="b", index=None)],
        [*READ, ("read_file", B)]),
    "no index, two calls at once, a piece without an id": (
        [[piece(P, "read_file", id="a", index=None), piece("", "read_file", id="b", index=None)],
         piece(Q, index=None)], [*READ, ("read_file", B)]),
    "one index, mixed pieces": (
        [piece(P[:5], "read_file", id="a"), piece(Q[:5], "read_file", id="b"),
         piece(P[5:], id="a"), piece(Q[5:], id="b")], [*READ, ("read_file", B)]),
    "one index, no ids": (
        [piece(P, "read_file"), piece(Q, "read_file")], [*READ, ("read_file", B)]),
    "one index, no ids, in pieces": (
        [piece(P[:4], "read_file"), piece(P[4:]), piece(Q[:4], "read_file"), piece(Q[4:])],
        [*READ, ("read_file", B)]),
    "one index, one id, two tools": (
        [piece(P, "read_file", id="a"), piece("{}", "list_files", id="a")],
        [*READ, ("list_files", {})]),
    "one id, two tools, one after the other": (
        [piece("{}", "list_files", id="a"), piece(P, "read_file", id="a", index=1)],
        [("list_files", {}), *READ]),
    "one id, two indexes": (
        [piece("", "read_file", id="a"), piece(P, id="a", index=1)], READ),
    "one id, two indexes, arguments in pieces": (
        [piece("", "read_file", id="a"), piece(P[:5], id="a", index=1), piece(P[5:], index=1),
         piece("{}", "list_files", id="b", index=2)], [*READ, ("list_files", {})]),
    "one id, two indexes, with the name again": (
        [piece(P[:5], "read_file", id="a"), piece(P[5:], "read_file", id="a", index=1)], READ),
    "the whole call twice, at two indexes": (
        [piece(P, "read_file", id="a"), piece(P, "read_file", id="a", index=1)], READ),
    "the whole call twice, at two indexes, with other blanks and in pieces": (
        [piece("", "read_file", id="a"), piece(P), piece("", "read_file", id="a", index=1),
         piece(P[:9], index=1), piece(P.replace(" ", "")[8:], index=1)], READ),
    "the whole call three times, without an index": (
        [piece("{}", "list_files", id="a", index=None)] * 3, [("list_files", {})]),
    "one id, two indexes, other arguments": (
        [piece(P, "read_file", id="a"), piece(Q, "read_file", id="a", index=1)],
        [*READ, ("read_file", B)]),
    "a new id and the name with each piece": (
        [piece("", "read_file", id="a"), piece(P[:4], "read_file", id="b"),
         piece(P[4:9], "read_file", id="c"), piece(P[9:], "read_file", id="d")], READ),
    "a new id and the name with each piece, two calls": (
        [piece(P[:4], "read_file", id="a"), piece(P[4:], "read_file", id="b"),
         piece(Q[:4], "read_file", id="c"), piece(Q[4:], "read_file", id="d")],
        [*READ, ("read_file", B)]),
    "a new id and the name, amid an object in the object": (
        [piece('{"a": ', "run", id="a"), piece('{"b": 1}', "run", id="b"), piece("}", id="b")],
        [("run", {"a": {"b": 1}})]),
    "a new id and the name with the arguments": (
        [piece("", "read_file", id="a"), piece(P, "read_file", id="b")], READ),
    "one index, two calls of nothing": (
        [piece("{}", "list_files", id="a"), piece("{}", "list_files", id="b")],
        [("list_files", {})] * 2),
    "one index, two calls without arguments": (
        [piece("", "list_files", id="a"), piece("", "list_files", id="b")],
        [("list_files", {})] * 2),
    "one index, no ids, two tools": (
        [piece(P, "read_file"), piece("{}", "list_files")], [*READ, ("list_files", {})]),
    "one index, no ids, two tools in pieces": (
        [piece("", "list_files"), piece("{}"), piece("", "read_file"), piece(P)],
        [("list_files", {}), *READ]),
    "an index of text": (
        [piece("{}", "list_files", id="a", index="0"), piece(P, "read_file", id="b", index="1")],
        [("list_files", {}), *READ]),
    "an index of null": ([piece(P[:4], "read_file", id="a") | {"index": None},
                          piece(P[4:]) | {"index": None}], READ),
    "arguments as an object": ([piece(NOTES, "read_file", id="a")], READ),
    "a brace, then the whole": ([piece("{", "read_file", id="a"), piece(P)], READ),
    "a part, then the whole": ([piece(P[:5], "read_file", id="a"), piece(P)], READ),
    "the same object with other blanks": (
        [piece(P, "read_file", id="a"), piece(P.replace(" ", ""))], READ),
    "arguments under a number of their own": (
        [piece("", "read_file", id="a"), piece(P, index=1)], READ),
    "arguments under rising numbers": (
        [piece("", "read_file", id="a"), piece(P[:5], index=1), piece(P[5:9], index=2),
         piece(P[9:], index=3), piece("{}", "list_files", id="b", index=4)],
        [*READ, ("list_files", {})]),
    "an empty call at the end": ([piece(P, "read_file", id="a"), {"index": 1, "function": {}}],
                                 READ),
    "name and arguments beside the id": (
        [{"index": 0, "id": "a", "name": "read_file", "arguments": P}], READ),
    "arguments by another name": (
        [{"index": 0, "id": "a", "function": {"name": "read_file", "parameters": NOTES}}], READ),
    "the same as a text, beside an empty one": (
        [{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": ""},
          "parameters": P}], READ),
    "arguments beside the function": (
        [{"index": 0, "id": "a", "function": {"name": "read_file"}, "arguments": P}], READ),
    "the call of other libraries": (
        [{"index": 0, "id": "a", "name": "read_file", "args": NOTES}], READ),
    "the call of Anthropic's": (
        [{"type": "tool_use", "id": "a", "name": "read_file", "input": NOTES}], READ),
    "a text in place of arguments": (
        [custom("", "run_sql", id="a"), custom("SELECT"), custom(" 1")],
        [("run_sql", {"input": "SELECT 1"})]),
    "an object as such a text, without a number": (
        [custom(P[:5], "read_file", id="a", index=None), custom(P[5:], index=None)], READ),
    "two such texts": (
        [custom("x", "f", id="a"), custom("y", "g", id="b", index=1)],
        [("f", {"input": "x"}), ("g", {"input": "y"})]),
}  # fmt: skip


@pytest.mark.spec("A28", "P14")
@pytest.mark.parametrize("name", CALLS)
async def test_calls_in_pieces_are_put_together(name: str, request_: ModelRequest) -> None:
    pieces, expected = CALLS[name]
    events = [delta(tool_calls=p if isinstance(p, list) else [p]) for p in pieces]
    reply = streamed(*events, delta(finish_reason="tool_calls"), "[DONE]")
    with ModelServer([reply]) as server:
        said = await ask(client_of(server), request_)
    calls = said.message().tool_calls
    assert [(call.name, call.arguments) for call in calls] == expected
    assert [call.parse_error for call in calls] == [None] * len(expected)
    assert said.message().tool_calls == calls


@pytest.mark.parametrize(
    "pieces", [[P, Q], ["{}", "{}{}"], [P, "x"], ["{} {", "}"], ["1", "{}"], [P[:12], Q], [["x"]]]
)
async def test_what_is_no_single_object_stays_an_error(
    pieces: list[str], request_: ModelRequest
) -> None:
    first = piece("", "read_file", id="a")
    events = [delta(tool_calls=[p]) for p in (first, *map(piece, pieces))]
    with ModelServer([streamed(*events, delta(finish_reason="tool_calls"))]) as server:
        said = await ask(client_of(server), request_)
    (only,) = said.message().tool_calls
    assert only.parse_error
    assert only.arguments == {}


def message(finish: str = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "message": fields, "finish_reason": finish}]}


CALL = {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": P}}
READ_CALL = ToolCall(id="a", name="read_file", arguments=NOTES)
CHATS: dict[str, tuple[list[Any], tuple[Any, ...]]] = {
    "the whole text at the end": (
        [delta(content="Hello "), delta(content="world."), message(content="Hello world.")],
        (HELLO,)),
    "the whole text at the end only": ([message(content="Hello world.")], (HELLO,)),
    "more at the end": ([delta(content="Hello "), message(content="Hello world.")], (HELLO,)),
    "other text at the end": (
        [delta(content="Hello world."), message(content="HELLO WORLD")], (HELLO,)),
    "a text that grows": (
        [message(None, content="Hello"), message(None, content="Hello wor"),
         message(content="Hello world.")], (HELLO,)),
    "thought, text and call again": (
        [delta(reasoning_content="Hm."), delta(content="Hello world."),
         delta(tool_calls=[CALL | {"index": 0}]),
         message(content="Hello world.", reasoning_content="Hm.", tool_calls=[CALL])],
        (HM, HELLO, READ_CALL)),
    "only the call at the end": (
        [delta(content="Hello world."), message(content="Hello world.", tool_calls=[CALL])],
        (HELLO, READ_CALL)),
    "thinking in the text": (
        [delta(content="<think>Hm.</think>"), delta(content="Hello world."),
         message(content="<think>Hm.</think>Hello world.")], (HM, HELLO)),
    "parts": (
        [delta(content="Hello world."),
         message(content=[{"type": "text", "text": "Hello world."}])], (HELLO,)),
    "parts that are plain texts": ([delta(content=["Hello ", "world."])], (HELLO,)),
    "one part, in no list": ([delta(content={"type": "text", "text": "Hello world."})], (HELLO,)),
    "one call, in no list": ([delta(content="Hello world."), delta(tool_calls=CALL)],
                             (HELLO, READ_CALL)),
    "one call, in the old form too": (
        [delta(content="Hello world."), delta(tool_calls=[CALL], function_call=CALL["function"])],
        (HELLO, READ_CALL)),
    "the call among the parts": (
        [delta(content=[{"type": "text", "text": "Hello world."},
                        {"type": "tool_use", "id": "a", "name": "read_file", "input": NOTES}])],
        (HELLO, READ_CALL)),
    "call in a second choice": (
        [delta(content="Hello world."),
         {"choices": [{"index": 1, "delta": {"tool_calls": [CALL]}}]}], (HELLO, READ_CALL)),
    "calls of one number in two choices": (
        [{"choices": [{"index": n, "delta": {"tool_calls": [
            {"index": 0, "function": {"name": f"f{n}", "arguments": "{}"}}]}} for n in (0, 1)]}],
        (ToolCall(id="call_1_1", name="f0"), ToolCall(id="call_1_2", name="f1"))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHATS)
async def test_what_comes_again_is_taken_once(name: str, request_: ModelRequest) -> None:
    events, content = CHATS[name]
    reply = streamed(*events, delta(finish_reason="stop"), "[DONE]")
    with ModelServer([reply]) as server:
        assert (await ask(client_of(server), request_)).message().content == content


@pytest.mark.parametrize("finish", ["stop", None])
async def test_all_choices_of_a_whole_reply_are_one(
    finish: str | None, request_: ModelRequest
) -> None:
    """Also where nothing says why it ended: it did."""
    choices = [
        {"index": 0, "message": {"content": "Hello world."}, "finish_reason": finish},
        {"index": 1, "message": {"content": None, "tool_calls": [CALL]}, "finish_reason": finish},
    ]
    body = Reply((json.dumps({"choices": choices}).encode(),),
                 headers={"Content-Type": "application/json"})  # fmt: skip
    with ModelServer([body, body]) as server:
        for is_streamed in (True, False):
            said = await ask(client_of(server, stream=is_streamed), request_)
            assert said.message().content == (HELLO, READ_CALL)
            assert said.finish_reason == "stop"


MESSAGE = {"type": "message", "id": "m", "content": [{"type": "output_text",
           "text": "Hello world."}]}  # fmt: skip
REASONING = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]}
FUNCTION = {"type": "function_call", "id": "fc", "call_id": "a", "name": "read_file",
            "arguments": P}  # fmt: skip
ITEMS = [REASONING, MESSAGE, FUNCTION]


def of(kind: str, index: int | None = 1, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields} | ({} if index is None else {
        "output_index": index})  # fmt: skip


def pieces_of(index: bool) -> list[dict[str, Any]]:
    """All pieces of a reply, with the numbers of its items or only with their ids."""
    at = (0, 1, 2) if index else (None, None, None)
    return [
        of("output_item.added", at[0], item={"type": "reasoning", "id": "r"}),
        of("reasoning_summary_text.delta", at[0], item_id="r", summary_index=0, delta="H"),
        of("reasoning_summary_text.delta", at[0], item_id="r", summary_index=0, delta="m."),
        of("output_text.delta", at[1], item_id="m", content_index=0, delta="Hello "),
        of("output_text.delta", at[1], item_id="m", content_index=0, delta="world."),
        of("output_item.added", at[2], item=FUNCTION | {"arguments": ""}),
        of("function_call_arguments.delta", at[2], item_id="fc", delta=P),
    ]


TEXTS = [
    of("reasoning_summary_text.done", 0, summary_index=0, text="Hm."),
    of("output_text.done", 1, content_index=0, text="Hello world."),
    of("output_item.added", 2, item=FUNCTION | {"arguments": ""}),
    of("function_call_arguments.done", 2, arguments=P),
]
PARTS = [TEXTS[0], of("content_part.done", 1, content_index=0, part=MESSAGE["content"][0]),
         *TEXTS[2:]]  # fmt: skip
DONE_ITEMS = [of("output_item.done", n, item=item) for n, item in enumerate(ITEMS)]
END = of("completed", None, response={"output": []})
WHOLE = of("completed", None, response={"output": ITEMS})
THINKING = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "Hm."}]}
RESPONSE: dict[str, list[Any]] = {
    "pieces": [*pieces_of(True), END],
    "pieces and all ends": [*pieces_of(True), *TEXTS, *PARTS, *DONE_ITEMS, WHOLE],
    "pieces without numbers": [*pieces_of(False), *DONE_ITEMS, WHOLE],
    "ends of texts": [*TEXTS, END],
    "ends of parts": [*PARTS, END],
    "ends of items": [*DONE_ITEMS, END],
    "ends of items without numbers": [
        *({k: v for k, v in e.items() if k != "output_index"} for e in DONE_ITEMS), WHOLE],
    "the end only": [WHOLE],
    "another word for the end": [WHOLE | {"type": "response.done"}],
    "half in pieces": [*pieces_of(True)[:4], *DONE_ITEMS, END],
    "half in pieces, the rest at the end": [*pieces_of(True)[:4], WHOLE],
    "all ends": [*TEXTS, *PARTS, *DONE_ITEMS, WHOLE],
    "arguments as an object": [
        *DONE_ITEMS[:2], of("output_item.done", 2, item=FUNCTION | {"arguments": NOTES}), WHOLE],
    "thoughts in full": [of("output_item.done", 0, item=THINKING), *DONE_ITEMS[1:], WHOLE | {
        "response": {"output": [THINKING, *ITEMS[1:]]}}],
}  # fmt: skip


def begun(call_id: str, arguments: str = "") -> dict[str, Any]:
    """A call as llama.cpp begins it: with neither a number nor an id of the item."""
    item = {"type": "function_call", "call_id": call_id, "name": "read_file"}
    return of("output_item.added", None, item=item | {"arguments": arguments})


def arguments(kind: str, text: str, **fields: Any) -> dict[str, Any]:
    return of(f"function_call_arguments.{kind}", None, **fields) | {
        "delta" if kind == "delta" else "arguments": text}  # fmt: skip


UNNUMBERED = {
    "begun together": [
        begun("a"), begun("b"), arguments("delta", P, item_id="a"),
        arguments("delta", Q, item_id="b")],
    "begun together, in pieces": [
        begun("a"), begun("b"), arguments("delta", P[:5], item_id="a"),
        arguments("delta", Q[:5], item_id="b"), arguments("delta", P[5:], item_id="a"),
        arguments("delta", Q[5:], item_id="b")],
    "one after the other": [
        begun("a"), arguments("delta", P, item_id="a"), begun("b"),
        arguments("delta", Q, item_id="b")],
    "ends of arguments without any id": [
        begun("a"), begun("b"), arguments("done", P), arguments("done", Q)],
    "no ids, one after the other": [
        begun("a"), arguments("delta", P), begun("b"), arguments("delta", Q[:5]),
        arguments("delta", Q[5:])],
}  # fmt: skip


@pytest.mark.parametrize("name", UNNUMBERED)
@pytest.mark.parametrize("comes_again", [False, True])
async def test_arguments_without_numbers_belong_to_the_call_of_their_id(
    name: str, comes_again: bool, request_: ModelRequest
) -> None:
    items = [begun("a", P)["item"], begun("b", Q)["item"]] * comes_again
    ends = [of("output_item.done", None, item=item) for item in items]
    end = of("completed", None, response={"status": "completed", "output": items})
    with ModelServer([streamed(*UNNUMBERED[name], *ends, end)]) as server:
        said = await ask(client_of(server, RESPONSES), request_)
    assert [(c.id, c.name, c.arguments, c.parse_error) for c in said.message().tool_calls] == [
        ("a", "read_file", NOTES, None), ("b", "read_file", B, None),
    ]  # fmt: skip


@pytest.mark.parametrize("is_whole", [False, True])
async def test_calls_of_one_number_in_messages_keep_their_arguments(
    is_whole: bool, request_: ModelRequest
) -> None:
    events = []
    for id_, given in (("a", NOTES), ("b", B)):
        block = {"type": "tool_use", "id": id_, "name": "read_file"}
        block["input"] = given if is_whole else {}
        events.append({"type": "content_block_start", "index": 0, "content_block": block})
        rest = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        events += [{"type": "content_block_delta", "index": 0, "delta": rest}] * (not is_whole)
        events.append({"type": "content_block_stop", "index": 0})
    with ModelServer([streamed(START, *events, STOP, LAST)]) as server:
        said = await ask(client_of(server, MESSAGES), request_)
    assert [(c.id, c.arguments) for c in said.message().tool_calls] == [("a", NOTES), ("b", B)]


@pytest.mark.parametrize("name", RESPONSE)
async def test_responses_are_taken_from_where_they_come_first_and_once(
    name: str, request_: ModelRequest
) -> None:
    with ModelServer([streamed(*RESPONSE[name])]) as server:
        said = await ask(client_of(server, RESPONSES), request_)
    assert said.message().content == (HM, HELLO, READ_CALL)
    assert said.finish_reason == "tool_calls"


START = {"type": "message_start", "message": {"role": "assistant", "content": []}}
BLOCKS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "S"},
    {"type": "text", "text": "Hello world."},
    {"type": "tool_use", "id": "a", "name": "read_file", "input": NOTES},
]
EMPTY = [
    {"type": "thinking", "thinking": ""},
    {"type": "text", "text": ""},
    BLOCKS[2] | {"input": {}},
]
DELTAS = [
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "text_delta", "text": "Hello world."},
    {"type": "input_json_delta", "partial_json": P},
]


def blocks(kind: str, each: list[Any], field: str = "content_block") -> list[dict[str, Any]]:
    return [{"type": kind, "index": at, field: block} for at, block in enumerate(each)]


SIGN = {"type": "signature_delta", "signature": "S"}


def in_pieces(*deltas: Any) -> list[dict[str, Any]]:
    """Each block's beginning and its piece; the signature after the thought."""
    starts = blocks("content_block_start", EMPTY)
    pieces = blocks("content_block_delta", list(deltas), "delta")
    sign = {"type": "content_block_delta", "index": 0, "delta": SIGN}
    return [starts[0], pieces[0], sign, starts[1], pieces[1], starts[2], pieces[2]]


PIECES = in_pieces(*DELTAS)
STOP = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
LAST = {"type": "message_stop"}
FULL = {"content": BLOCKS, "stop_reason": "tool_use"}
ANTHROPIC: dict[str, list[Any]] = {
    "pieces": [START, *PIECES, STOP, LAST],
    "whole with the beginning of each": [
        START, *blocks("content_block_start", BLOCKS), STOP, LAST],
    "whole with the beginning, and in pieces": [
        START, *blocks("content_block_start", BLOCKS),
        *blocks("content_block_stop", BLOCKS), STOP, LAST],
    "whole with the end of each": [START, *blocks("content_block_stop", BLOCKS), STOP, LAST],
    "pieces, and whole with the end of each": [
        START, *PIECES, *blocks("content_block_stop", BLOCKS), STOP, LAST],
    "whole at the beginning": [START | {"message": FULL}, LAST],
    "whole at the end": [START, LAST | {"message": FULL}],
    "pieces, and whole at the end": [START, *PIECES, STOP, LAST | {"message": FULL}],
    "arguments as a text": [
        START, *blocks("content_block_start", [*BLOCKS[:2], BLOCKS[2] | {"input": P}]), STOP],
    "arguments as an object": [
        START, *in_pieces(*DELTAS[:2], DELTAS[2] | {"partial_json": NOTES}), STOP],
}  # fmt: skip


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_messages_are_taken_from_where_they_come_first_and_once(
    name: str, request_: ModelRequest
) -> None:
    with ModelServer([streamed(*ANTHROPIC[name])]) as server:
        said = await ask(client_of(server, MESSAGES), request_)
    assert said.message().content == (HM.model_copy(update={"signature": "S"}), HELLO, READ_CALL)
    assert said.finish_reason == "tool_calls"


LONE = {
    "a thought and an answer": ("Hm.</think>\n\nHello world.", (HM, HELLO)),
    "no line between": ("Hm.</think>Hello world.", (HM, HELLO)),
    "on a line of its own": ("Hm.\n</think>\nHello world.", (HM, HELLO)),
    "only a thought": ("Hm.</think>", (HM,)),
    "another tag": ("Hm.</thinking>\n\nHello world.", (HM, HELLO)),
    "a tag in brackets": ("Hm.[/THINK]Hello world.", (HM, HELLO)),
    "both tags": ("<think>Hm.</think>\n\nHello world.", (HM, HELLO)),
    "both of another kind": ("<thinking>Hm.</thinking>\nHello world.", (HM, HELLO)),
    "both in brackets": ("[THINK]Hm.[/THINK]Hello world.", (HM, HELLO)),
    "both of Seed": ("<seed:think>Hm.</seed:think>Hello world.", (HM, HELLO)),
    "both of Kimi": ("◁think▷Hm.◁/think▷Hello world.", (HM, HELLO)),
    "no thought": ("</think>\n\nHello world.", (HELLO,)),
    "both tags later": ("Write <think> and </think>\nyourself.",
                        (TextContent(text="Write <think> and </think>\nyourself."),)),
    "about the tag": ("The tag </think> ends it.",
                      (TextContent(text="The tag </think> ends it."),)),
    "the tag in code": ("Use `</think>`.", (TextContent(text="Use `</think>`."),)),
    "the tag in a block": ("```\nHm.</think>\nx\n```\n",
                           (TextContent(text="```\nHm.</think>\nx\n```\n"),)),
}  # fmt: skip


@pytest.mark.parametrize("name", LONE)
@pytest.mark.parametrize("size", [3, 1000])
async def test_a_thought_whose_beginning_is_in_the_prompt_is_a_thought(
    name: str, size: int, request_: ModelRequest
) -> None:
    text, content = LONE[name]
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    chat = streamed(*(delta(content=part) for part in parts), delta(finish_reason="stop"))
    other = streamed(START, *({"type": "content_block_delta", "index": 0, "delta": {
        "type": "text_delta", "text": part}} for part in parts), STOP, LAST)  # fmt: skip
    with ModelServer([chat, other]) as server:
        assert (await ask(client_of(server), request_)).message().content == content
        assert (await ask(client_of(server, MESSAGES), request_)).message().content == content


CHANNELS = [
    "<thought>Hm.</thought>\n\nHello world.",
    "<|channel>thought\nHm.<channel|>Hello world.",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
    "Hello world.",
    "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
    "<|message|>Hello world.<|return|>",
    "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hello world.<|END_RESPONSE|>",
    "<reasoning>Hm.</reasoning>\nHello world.",
    "<mm:think>Hm.</mm:think>Hello world.",
    "<longcat_think>Hm.</longcat_think>Hello world.",
]


@pytest.mark.parametrize("text", CHANNELS)
async def test_a_thought_between_the_marks_of_a_template_is_a_thought(
    text: str, request_: ModelRequest
) -> None:
    parts = [text[at : at + 3] for at in range(0, len(text), 3)]
    chat = streamed(*(delta(content=part) for part in parts), delta(finish_reason="stop"))
    with ModelServer([chat]) as server:
        assert (await ask(client_of(server), request_)).message().content == (HM, HELLO)


END = "Hello world."
MARKED = {
    **{END + mark: END for mark in ("<|im_end|>", "<|eot_id|>", "<|endoftext|>\n", "</s>")},
    **{END + mark: END for mark in ("<end_of_turn>", "<｜end▁of▁sentence｜>", "</s>\n")},
    f"<|channel|>final<|message|>{END}": END,
    f"<|start|>assistant<|channel|>final<|message|>{END}": END,
    **{text: text for text in (
        "A turn ends in `<|im_end|>`", "Write <s>wrong</s>", "The mark <|im_end|> ends it.",
        "It begins with <|channel|>final<|message|>.", "```\n<|im_end|>\n```",
    )},
}  # fmt: skip


@pytest.mark.parametrize("text", MARKED)
def test_marks_of_a_template_around_an_answer_are_no_part_of_it(text: str) -> None:
    builder = ReplyBuilder()
    for at in range(0, len(text), 3):
        builder.add(StreamChunk(data=text[at : at + 3]))
    assert builder.message().text == MARKED[text]


def test_an_answer_of_nothing_but_marks_is_empty() -> None:
    builder = ReplyBuilder()
    builder.add(StreamChunk(data="<|im_end|>"))
    assert builder.message() is None


async def test_arguments_that_came_before_their_pieces_are_taken_once(
    request_: ModelRequest,
) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": BLOCKS[2]}
    rest = {"type": "content_block_delta", "index": 0, "delta": DELTAS[2]}
    with ModelServer([streamed(START, start, rest, STOP, LAST)]) as server:
        said = await ask(client_of(server, MESSAGES), request_)
    assert said.message().content == (READ_CALL,)


async def test_a_call_of_the_services_own_tool_is_none_of_ours(request_: ModelRequest) -> None:
    own = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": own},
        {"type": "content_block_delta", "index": 0, "delta": DELTAS[2]},
        {"type": "content_block_delta", "index": 1, "delta": DELTAS[1]},
    ]
    with ModelServer([streamed(START, *events, STOP, LAST)]) as server:
        said = await ask(client_of(server, MESSAGES), request_)
    assert said.message().content == (HELLO,)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_ollamas_own_format_is_read(is_streamed: bool, request_: ModelRequest) -> None:
    call = {"function": {"name": "read_file", "arguments": NOTES}}
    said = [
        {"message": {"role": "assistant", "thinking": "Hm."}, "done": False},
        {"message": {"role": "assistant", "content": "Hello "}, "done": False},
        {"message": {"role": "assistant", "content": "world."}, "done": False},
        {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
    ]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 3}
    lines = [*said, {"message": {"role": "assistant", "content": ""}} | end]
    whole = {"role": "assistant", "thinking": "Hm.", "content": "Hello world."}
    bodies = lines if is_streamed else [{"message": whole | {"tool_calls": [call]}} | end]
    kind = "application/x-ndjson" if is_streamed else "application/json"
    frames = tuple(json.dumps(each).encode() + b"\n" for each in bodies)
    with ModelServer([Reply(frames, headers={"Content-Type": kind})]) as server:
        reply = await ask(client_of(server), request_)
    thought, text, made = reply.message().content
    assert (thought, text) == (HM, HELLO)
    assert (made.name, made.arguments) == ("read_file", NOTES)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (11, 3)


async def test_content_that_is_a_plain_text_is_the_answer(request_: ModelRequest) -> None:
    claude = {"role": "assistant", "content": "Hello world.", "stop_reason": "end_turn"}
    item = {"type": "message", "role": "assistant", "content": "Hello world."}
    bodies = {MESSAGES: claude, RESPONSES: {"status": "completed", "output": [item]}}
    for model, body in bodies.items():
        whole = Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})
        with ModelServer([whole]) as server:
            said = await ask(client_of(server, model), request_)
        assert said.message().content == (HELLO,)
