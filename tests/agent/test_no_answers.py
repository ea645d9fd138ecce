"""Replies that are no answers: calls as text, thoughts alone, pauses, calls that are malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import Lab
from ipyagent.agent.loop import CALLS_AS_TEXT, MOST_MALFORMED, STILL_PAUSED
from ipyagent.agent.prompts import CALL_PROPERLY, GO_ON
from ipyagent.agent.signs import writes_calls
from ipyagent.config import LLMConfig
from ipyagent.schema import Outcome, RunStatus, StepStarted, StopReason
from ipyagent.wiring.environment import service_client
from servers.model_server import ModelServer, Reply, answer, delta, failure, sse, stream

TOOLS = {"list_files", "read_file", "run_python"}
CALL = '{"name": "list_files", "arguments": {"path": "."}}'
TAGGED = f"<tool_call>{CALL}</tool_call>"
DEEPSEEK = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>list_files\n```json\n"
    '{"path": "."}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
BARS = ["｜DSML｜", "｜｜DSML｜｜", "‖DSML‖", "||DSML||", " | DSML | "]
INVOKED = (
    '<BARinvoke name="list_files">\n<BARparameter name="path" string="true">.</BARparameter>\n'
    "</BARinvoke>"
)
WRITTEN = [
    TAGGED,
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"I look at the files.\n\n{TAGGED}\n",
    f"{TAGGED}\n{TAGGED}",
    f"<tool_call>\n{CALL}",
    f"{TAGGED}\n<tool_response>a.txt</tool_response>\nThere is one file, a.txt.",
    "<tool_call>list_files\n<arg_key>path</arg_key>\n<arg_value>.</arg_value>\n</tool_call>",
    "<tool_call>\n<function=list_files>\n<parameter=path>\n.\n</parameter>\n</function>\n</tool_call>",
    '<function=list_files>{"path": "."}</function>',
    '<function_calls>\n<invoke name="list_files">\n<parameter name="path">.</parameter>\n'
    "</invoke>\n</function_calls>",
    '<minimax:tool_call>\n<invoke name="list_files">\n</invoke>\n</minimax:tool_call>',
    f"[TOOL_CALLS] [{CALL}]",
    '[TOOL_CALLS]list_files[ARGS]{"path": "."}',
    f"[TOOL_REQUEST]\n{CALL}\n[END_TOOL_REQUEST]",
    f"<|python_tag|>{CALL}",
    '<|python_tag|>list_files.call(path=".")',
    "<|python_tag|>" + CALL.replace("arguments", "parameters") + "<|eom_id|>",
    DEEPSEEK,
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.list_files:0<|tool_call_argument_begin"
    '|>{"path": "."}<|tool_call_end|><|tool_calls_section_end|>',
    f"<|tool_call|>[{CALL}]",
    '<|START_ACTION|>[{"tool_name": "list_files", "parameters": {}}]<|END_ACTION|>',
    '<|channel|>commentary to=functions.list_files <|constrain|>json<|message|>{"path": "."}',
    CALL,
    f"[{CALL}, {CALL}]",
    f"{CALL}; {CALL}",
    f"```json\n{CALL}\n```",
    f"```\n{CALL}\n```",
    f"Let me list the files.\n```json\n{CALL}\n```",
    f'{{"tool_calls": [{{"type": "function", "function": {CALL}}}]}}',
    '{"action": "list_files", "action_input": "."}',
    '[list_files(path=".")]',
    'list_files(path=".")',
    '```tool_code\nlist_files(path=".")\n```',
    "<list_files>\n<path>.</path>\n</list_files>",
    f"<tools>\n{CALL}\n</tools>",
    "<longcat_tool_call>list_files\n<longcat_arg_key>path</longcat_arg_key>\n"
    "<longcat_arg_value>.</longcat_arg_value>\n</longcat_tool_call>",
    'Thought: I look.\nAction: list_files\nAction Input: {"path": "."}',
    'Thought: I look.\nAction:\n```json\n{"action": "list_files", "action_input": {}}\n```',
    f"I look at the files. {TAGGED}",
    f"{CALL}\n</tool_call>",
    "<tool_call>list_files</tool_call>",
    f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    f"<tool_use>\n{CALL}\n</tool_use>",
    f"&lt;tool_call&gt;{CALL}&lt;/tool_call&gt;",
    f"functools[{CALL}]",
    f"<|action_start|><|plugin|>{CALL}<|action_end|>",
    '<|tools_prefix|>[{"list_files": {"path": "."}}]<|tools_suffix|>',
    '{"list_files": {"path": "."}}',
    '<function_calls>\nlist_files(path=".")\n</function_calls>',
    '<function(list_files){"path": "."}</function>',
    'I do it. <function=list_files{"path": "."}</function>',
    '>>>list_files\n{"path": "."}',
    'functions.list_files:0{"path": "."}',
    'I look.\nfunctions.list_files:0<|tool_call_argument_begin|>{"path": "."}<|tool_call_end|>',
    'list_files[ARGS]{"path": "."}',
    'to=functions.list_files {"path": "."}',
    "call:default_api:list_files{path:.}",
    '[Calling tool: list_files({"path": "."})]',
    '[Tool call: list_files]\n{"path": "."}',
    '<|start|>assistant<|channel|>commentary to=functions.list_files json<|message|>{"path": "."}',
    '<|start|>assistant to=functions.list_files<|channel|>commentary json<|message|>{"path": "."}',
    'analysisI look.assistantcommentary to=functions.list_files json{"path": "."}',
    '```tool_code\nprint(default_api.list_files(path="."))\n```',
    'print(default_api.list_files(path="."))',
    "I look at the files.\n\n<list_files>\n<path>.</path>\n</list_files>",
    '```python\nlist_files(path=".")\n```',
    'function<｜tool▁sep｜>list_files\n```json\n{"path": "."}\n```',
    "analysis I look.<|end|><|start|>assistant<|channel|>commentary to=functions.list_files"
    '<|message|>{"path": "."}<|call|>',
    'Thought: I look.\nAction: list_files\nAction Input: {"path": "."}\nObservation: a.txt\n'
    "Final Answer: there is one file.",
    '{"recipient_name": "functions.list_files", "tool_input": {"path": "."}}',
    '{"tool_uses": [{"recipient_name": "functions.list_files", "parameters": {"path": "."}}]}',
    f'{{"tool_call": {CALL}}}',
    "<|tool_call:begin|>a<|tool_call:name|>list_files<|tool_call:args|>{}<|tool_call:end|>",
    '<tool_use><name>list_files</name><arguments>{"path": "."}</arguments></tool_use>',
    f"[unused11][{CALL}][unused12]",
    'I look.\n<tool name="list_files">\n<param name="path">.</param>\n</tool>',
    "<tool name='list_files'>{}</tool>",
    f"<tool>{CALL}</tool>",
    '<tool_call name="list_files">{"path": "."}</tool_call>',
    f"<|python_start|>{CALL}<|python_end|>",
    '<|python_start|>[list_files(path=".")]<|python_end|>',
    "declaration:default_api:list_files{path:.}",
    f'{{"function_call": {CALL}}}',
    '<|channel|>analysis to=functions.list_files code<|message|>{"path": "."}<|call|>',
    *(f"<{bar}tool_calls>\n{INVOKED.replace('BAR', bar)}\n</{bar}tool_calls>" for bar in BARS),
    INVOKED.replace("BAR", BARS[0]),
    f"I look at the files.\n\n<{BARS[0]}tool_calls>\n{INVOKED.replace('BAR', BARS[0])}",
    f"I look at the files.\n\n<{BARS[0]}tool_calls",
]
ANSWERS = [
    "Forty-two.",
    f"Qwen writes its calls between tags:\n```\n{TAGGED}\n```\nThe server reads them.",
    f"```xml\n{TAGGED}\n```",
    "A `<tool_call>` holds JSON.",
    "<tool_call> is the tag of Qwen, [TOOL_CALLS] that of Mistral.",
    "[TOOL_CALLS] is the token of Mistral.",
    "<|python_tag|> is a token of Llama.",
    f"Models write this:\n{TAGGED}\nThe server then reads it.",
    "The model thinks. " * 400 + f"\n{TAGGED}",
    f"Each call is an object such as this one:\n```json\n{CALL}\n```\nIt names a tool.",
    "An example:\n```json\n" + CALL.replace("list_files", "get_weather") + "\n```",
    '{"name": "Alice", "arguments": "many"}',
    '{"name": "list_files", "description": "Lists files."}',
    '[{"name": "Oslo", "parameters": 3}]',
    "sum(x)",
    "[1, 2, 3]",
    "{}",
    "[]",
    "{broken",
    "Use <function=name> in the template.",
    "Tools are named so: list_files {path}, or read_file {path}, and both return text.",
    "functions.list_files:0 is the id of the call.",
    'The settings:\nlist_files {\n  "path": "."\n}\nare read at the start.',
    '{"list": {"path": "."}}',
    "<list>\n<item>list_files</item>\n</list>",
    "Between <tool_call> and </tool_call> stands an object.",
    "to=functions.list_files is how gpt-oss addresses a tool.",
    "Action: less cost.\nAction Input: to be found.\nMore follows.",
    "<table>\n<tr><td>1</td></tr>\n</table>",
    "```tool_code\nprint(1)\n```",
    "```python\nprint(1)\n```",
    '```python\nfiles = list_files(".")\nprint(files)\n```',
    '{"tool_call": {"city": "Oslo"}}',
    "[unused11] is a token of Pangu.",
    '<tool name="hammer">\n<weight>3</weight>\n</tool>',
    "",
    f"DeepSeek marks its calls so: <{BARS[0]}tool_calls>, and servers take that away.",
    "<tool>hammer</tool>",
    "<tool>list_files</tool> names it.",
    "declaration: of independence {1776}",
    "<|python_start|> is a token of Llama.",
]


@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: ascii(text)[:40])
def test_a_call_in_the_words_of_a_template_is_seen(text: str) -> None:
    assert writes_calls(text, TOOLS)
    assert not writes_calls(text, set())


@pytest.mark.parametrize("text", ANSWERS, ids=lambda text: ascii(text)[:40])
def test_text_about_calls_and_other_data_are_answers(text: str) -> None:
    assert not writes_calls(text, TOOLS)


@pytest.mark.parametrize(
    "text", ["<|" + "end" * 10**5, "}" + " " * 10**6, "{" * 10**6, "a\n" + "\n" * 10**6,
             "```json\n" + " " * 10**6, "<tool_call>" + "x" * 10**6, "f(" + "x" * 10**6],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_a_long_text_is_soon_looked_through(text: str) -> None:
    """Time that grew with the square would be hours."""
    assert not writes_calls(f"Here.\n{text}\nThere.", TOOLS)
    assert not writes_calls(text + " x", TOOLS)


# -- in a run, with a service


def asked(lab: Lab, server: ModelServer, *replies: Reply, **agent: Any) -> Any:
    server.replies = list(replies)
    base = {"openai/x": server.url, "anthropic/claude-x": server.origin}
    name = agent.pop("name", "openai/x")
    config = LLMConfig.model_validate({"api_base": base[name], "timeout": 20})
    keys = {"OPENAI_API_KEY": "sk-canary-0123", "ANTHROPIC_API_KEY": "sk-canary-0123"}
    client = service_client(name, config, environ=keys, start={})
    return lab.run([], model=client, **agent)


def nudges(lab: Lab) -> list[str]:
    return [e.nudge for e in lab.watcher.events if isinstance(e, StepStarted) and e.nudge]


LIST = answer(calls=[("list_files", {})])


@pytest.mark.spec("P29")
@pytest.mark.parametrize("text", [TAGGED, DEEPSEEK, f"```json\n{CALL}\n```"])
def test_a_call_as_text_is_answered_once_and_the_call_that_follows_runs(
    text: str, lab: Lab, server: ModelServer
) -> None:
    run = asked(lab, server, answer(text), LIST, answer("None there."))
    assert nudges(lab) == [CALL_PROPERLY]
    assert [e.call.name for e in run.executions] == ["list_files"]
    assert (run.output, run.outcome, run.notes) == ("None there.", Outcome.SUCCESS, ())


def test_a_call_in_a_thought_is_asked_for_again(lab: Lab, server: ModelServer) -> None:
    """Servers that read Qwen's thoughts and not its calls take all before `</think>` for one."""
    thought = answer(thinking=f"{'I look. ' * 1_000}\n{TAGGED}\n")
    run = asked(lab, server, thought, LIST, answer("None there."))
    assert nudges(lab) == [CALL_PROPERLY]
    assert (run.output, run.outcome) == ("None there.", Outcome.SUCCESS)
    run = asked(lab, server, answer("None there.", thinking=f"I could call:\n{TAGGED}"))
    assert (run.output, len(server.requests)) == ("None there.", 4)


@pytest.mark.parametrize("text", [TAGGED, DEEPSEEK, f"```json\n{CALL}\n```"])
def test_a_call_that_stays_text_is_no_success_and_never_runs(
    text: str, lab: Lab, server: ModelServer
) -> None:
    run = asked(lab, server, answer(text), answer(text), answer("never asked"))
    assert (run.executions, len(server.requests)) == ((), 2)
    assert run.outcome is Outcome.PARTIAL
    assert run.notes == (CALLS_AS_TEXT,)
    assert run.error
    assert asked(lab, server, answer("And on.")).output == "And on."


def test_an_end_that_speaks_of_calls_without_one_is_no_answer_at_first(
    lab: Lab, server: ModelServer
) -> None:
    without = answer("I look at the files.", finish_reason="tool_calls")
    run = asked(lab, server, without, LIST, answer("None there."))
    assert (nudges(lab), run.output) == ([CALL_PROPERLY], "None there.")
    run = asked(lab, server, without, answer("None.", finish_reason="tool_calls"))
    assert (run.output, run.outcome) == ("None.", Outcome.SUCCESS)


@pytest.mark.parametrize("lone", ["I add.</think>", "</think>", "I add.\n</think>\n\n"])
def test_a_thought_alone_is_no_answer(lone: str, lab: Lab, server: ModelServer) -> None:
    run = asked(lab, server, answer(lone))
    assert (run.output, run.outcome) == ("", Outcome.PARTIAL)
    assert run.stop_reason is StopReason.EMPTY


def test_a_thought_stays_out_of_the_answer_and_of_the_history(
    lab: Lab, server: ModelServer
) -> None:
    run = asked(lab, server, answer("First I add.</think>\n\nThe answer is 42."))
    assert (run.output, run.outcome) == ("The answer is 42.", Outcome.SUCCESS)
    asked(lab, server, answer("Yes."))
    assert "First I add" not in json.dumps(server.requests[1].body)
    assert "The answer is 42." in json.dumps(server.requests[1].body)


def paused(text: str, reason: str = "pause_turn") -> Reply:
    block = {"type": "content_block_delta", "index": 0}
    events = (
        [block | {"delta": {"type": "text_delta", "text": text}}] if text else [],
        [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}],
    )
    frames = tuple(sse(event) for some in events for event in some)
    return Reply(frames, headers={"Content-Type": "text/event-stream"})


@pytest.mark.parametrize("pauses", [1, 2, 5])
@pytest.mark.parametrize("format_", ["chat", "messages"])
def test_a_paused_reply_goes_on(format_: str, pauses: int, lab: Lab, server: ModelServer) -> None:
    if format_ == "chat":
        replies = [answer(f"{n} ", finish_reason="pause_turn") for n in range(pauses)]
        run = asked(lab, server, *replies, answer("end."))
    else:
        replies = [paused(f"{n} ") for n in range(pauses)]
        last = paused("end.", "end_turn")
        run = asked(lab, server, *replies, last, name="anthropic/claude-x")
    assert run.output == "".join(f"{n} " for n in range(pauses)) + "end."
    assert (run.outcome, nudges(lab)) == (Outcome.SUCCESS, [GO_ON] * pauses)


def test_pauses_without_an_end_are_no_success(lab: Lab, server: ModelServer) -> None:
    run = asked(lab, server, *[answer("on ", finish_reason="pause_turn")] * 20)
    assert (run.outcome, run.error) == (Outcome.PARTIAL, STILL_PAUSED)
    assert len(server.requests) == 6


def test_a_pause_does_not_exceed_a_budget(lab: Lab, server: ModelServer) -> None:
    run = asked(lab, server, *[answer("on ", finish_reason="pause_turn")] * 3, max_steps=1)
    assert (len(server.requests), run.outcome) == (1, Outcome.PARTIAL)


FAILED = failure(
    400,
    "Failed to call a function. See 'failed_generation' for more details.",
    code="tool_use_failed",
    failed_generation="<function=list_files{path}</function>",
)
MALFORMED = {
    "Groq": FAILED,
    "Gemini": stream(delta(finish_reason="MALFORMED_FUNCTION_CALL"), "[DONE]"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_call_that_the_service_could_not_read_goes_back_to_the_model(
    name: str, lab: Lab, server: ModelServer
) -> None:
    run = asked(lab, server, MALFORMED[name], LIST, answer("None there."))
    assert (run.output, run.outcome) == ("None there.", Outcome.SUCCESS)
    (nudge,) = nudges(lab)
    assert "could not be read" in nudge
    assert name == "Gemini" or "path" in nudge
    assert nudge in json.dumps(server.requests[1].body["messages"][-1]["content"]).replace(
        "\\n", "\n"
    ).replace('\\"', '"')


def test_malformed_calls_without_end_end_the_run_with_the_reason(
    lab: Lab, server: ModelServer
) -> None:
    run = asked(lab, server, *[FAILED] * 9)
    assert (run.status, run.outcome) == (RunStatus.ERROR, Outcome.FAILED)
    assert "Failed to call a function" in str(run.error)
    assert len(server.requests) == MOST_MALFORMED + 1
    assert asked(lab, server, answer("And on.")).output == "And on."


def test_an_overflow_within_a_stream_is_met_by_compaction(lab: Lab, server: ModelServer) -> None:
    """As any other: the error stands in a field of its own, with status 200."""
    for _ in range(3):
        asked(lab, server, answer("word " * 2_000))
    fault = {"code": 400, "message": "the request exceeds the available context size"}
    frame = f"error: {json.dumps(fault)}\n\n".encode()
    overflow = Reply((frame, sse("[DONE]")), headers={"Content-Type": "text/event-stream"})
    before = len(server.requests)
    run = asked(lab, server, overflow, answer("A summary."), answer("Done."))
    assert (run.output, run.outcome) == ("Done.", Outcome.SUCCESS)
    assert len(server.requests) == before + 3


def test_a_reason_is_given_once_and_asked_for_once(lab: Lab, server: ModelServer) -> None:
    poor = {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no balance left"}}
    run = asked(lab, server, *[stream(poor, "[DONE]")] * 3)
    assert "no balance left" in str(run.error)
    assert len(server.requests) == 1
