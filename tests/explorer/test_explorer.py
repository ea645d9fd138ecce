"""The explorer as a client and as a partner in the conversation: its one step, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest
from explorer_runner import TOOLS, call_of, result

from ipyagent import explorer
from ipyagent.errors import ModelRefusedError
from ipyagent.explorer import ExplorerClient, ExplorerReply, chunks_of
from ipyagent.explorer.steps import suggest_for
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import Message, Role, StreamChunk, TokenUsage, ToolCall, ToolDefinition
from ipyagent.schema.tables import ColumnFacts, TableFacts, WorkspaceFacts
from repository import ROOT

COLUMNS = (ColumnFacts("a", "int64", "number"), ColumnFacts("kind", "str", "text", ("x", "red")))
FACTS = WorkspaceFacts((TableFacts("t", columns=COLUMNS),), {"t": "DataFrame"})
LIST_FILES = ToolDefinition(name="list_files", description="List files.", input_schema={})


def reply(*messages: Message, tools: list[str] = TOOLS) -> ExplorerReply:
    return explorer.reply(messages, FACTS, tools)


def asked(prompt: str) -> Message:
    return Message.of(Role.USER, prompt)


def after(prompt: str, output: str, *, is_error: bool = False) -> ExplorerReply:
    """What is said once the call returned this."""
    said = reply(asked(prompt))
    return reply(asked(prompt), *result(call_of(said), output, is_error=is_error))


def test_it_imports_neither_pandas_nor_litellm() -> None:
    code = (
        "import sys; from ipyagent import explorer; from ipyagent.schema.tables import *;"
        "explorer.reply([], WorkspaceFacts(), []);"
        "print({'pandas', 'polars', 'litellm', 'IPython'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_files_that_it_cannot_load_stop_no_question() -> None:
    of_files = tuple(TableFacts(path=path) for path in ("shop.db", "t.dta", "t.csv"))
    paths = tuple(each.path for each in of_files)
    facts = replace(FACTS, tables=(*FACTS.tables, *of_files), files=paths)
    said = explorer.reply([asked("mean of a in t")], facts, TOOLS)
    assert said.calls[0][0] == "run_python"
    assert "no table that I can load" in explorer.reply([asked("load shop.db")], facts, TOOLS).text
    assert "read_csv" in str(explorer.reply([asked("load t.csv as u")], facts, TOOLS).calls)


def test_the_rule_that_fired_is_its_thinking() -> None:
    said = reply(asked("mean of a"))
    assert said.thinking == "Rule: a statistic of a (t)."
    assert said.text == ""
    assert said.calls[0][0] == "run_python"


def test_texts_that_the_agent_adds_are_no_prompts() -> None:
    context = Message.of(
        Role.USER, "<context>\nVariables:\n- u: int = 1\n</context>", synthetic=True
    )
    assert reply(asked("mean of a"), context) == reply(asked("mean of a"))


def test_only_the_newest_prompt_is_answered() -> None:
    first = reply(asked("mean of a"))
    done = [asked("mean of a"), *result(call_of(first), '{"columns":["mean"],"data":[[2.0]]}')]
    said = reply(*done, Message.of(Role.ASSISTANT, "It is 2."), asked("median of a"))
    assert '"median"' in said.calls[0][1]["code"]


def test_an_empty_conversation_gets_help() -> None:
    assert "not a language model" in explorer.reply([], FACTS, []).text


def test_a_failure_ends_it_and_leaves_the_reason_to_the_result() -> None:
    for output in ("KeyError: 'a'", "The user denied this call. Do not repeat it."):
        said = after("mean of a", output, is_error=True)
        assert said.calls == ()
        assert said.text == (
            "**`run_python` was not run, or failed, so I stopped:** its result says why."
        )


def test_a_missing_library_is_named_with_how_to_get_it() -> None:
    said = after("mean of a", "ModuleNotFoundError: No module named 'openpyxl'", is_error=True)
    assert "`%pip install openpyxl`" in said.text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lacking = ["No module named '{}.x'", "{} is required for plotting when the default backend"]
    for requirement in project["optional-dependencies"]["data"]:
        name = requirement.partition(">")[0]
        for text in lacking[: 1 + (name == "matplotlib")]:
            said = after("mean of a", text.format(name), is_error=True)
            assert "`%pip install 'ipyagent[data]'`" in said.text


@pytest.mark.parametrize(
    "output",
    ["", "(no output)", "mean 2", "dry run: not run", '{"columns":["mean"],', '{"columns":[1]}'],
)
def test_nothing_is_concluded_from_output_that_it_cannot_read(output: str) -> None:
    said = after("mean of a", output)
    assert said.calls == ()
    assert "I draw no conclusion" in said.text


def test_output_is_found_between_warnings_and_notes() -> None:
    rows = '{"columns":["mean","count"],"data":[[2.5,3]]}'
    output = f"FutureWarning: x\n[deprecated]\n{rows}\nnew: x: int = 1\n[image 7×4 not shown]"
    assert "**2.5** (3 values in `t`)" in after("mean of a", output).text


def test_a_tool_that_is_not_on_offer_is_named() -> None:
    said = reply(asked("mean of a"), tools=["list_files"])
    assert said.calls == ()
    assert "I would need `run_python`" in said.text


def test_a_call_that_it_did_not_make_is_not_taken_for_an_answer() -> None:
    strange = ToolCall(id="c1", name="run_python", arguments={"code": "print(9)"})
    said = reply(asked("mean of a"), *result(strange, '{"columns":["mean"],"data":[[9.0]]}'))
    assert "9" not in said.text


def test_a_table_whose_columns_nobody_saw_is_loaded_first() -> None:
    facts = WorkspaceFacts((TableFacts(path="big.csv"),), {}, ("big.csv",))
    said = explorer.reply([asked("mean of a in big.csv")], facts, TOOLS)
    assert not said.calls
    assert "`a`" in said.text or "load it first" in said.text
    ((_, arguments),) = explorer.reply([asked("Load big.csv")], facts, TOOLS).calls
    assert 'big = pd.read_csv("big.csv")' in arguments["code"]


def test_the_call_of_a_file_is_used_as_the_facts_give_it() -> None:
    call = "pd.read_csv('t.csv', sep=';')"
    facts = WorkspaceFacts((TableFacts(path="t.csv", call=call, columns=COLUMNS),), {}, ("t.csv",))
    for prompt in ("Load t.csv", "mean of a"):
        ((_, arguments),) = explorer.reply([asked(prompt)], facts, TOOLS).calls
        assert f"t = {call}\n" in arguments["code"]


def test_the_page_gets_tasks_only_where_there_is_something_to_ask_about() -> None:
    assert suggest_for(FACTS)[0] == "Profile `t`"
    assert suggest_for(WorkspaceFacts(files=("a.ipynb",))) == []
    assert suggest_for(WorkspaceFacts(files=("a.txt",)))[0] == "List files"


# The client


def asking(prompt: str, *later: Message) -> ModelRequest:
    messages = (Message.of(Role.SYSTEM, "Be brief."), Message.of(Role.USER, prompt), *later)
    return ModelRequest(messages, (LIST_FILES,))


async def answer_of(request: ModelRequest) -> ReplyBuilder:
    builder = ReplyBuilder()
    async for chunk in ExplorerClient().stream(request):
        builder.add(chunk)
    return builder


def test_thinking_text_and_calls_are_split_into_words() -> None:
    calls = (("list_files", {}), ("run_python", {"code": "ü"}))
    answer = ExplorerReply("because of a rule", "Two  steps:\n- a", calls)
    chunks = list(chunks_of(answer, 1))
    assert [c.data for c in chunks if c.type == "thinking"] == ["because ", "of ", "a ", "rule"]
    assert [c.data for c in chunks if c.type == "content"] == ["Two  ", "steps:\n", "- ", "a"]
    builder = ReplyBuilder()
    for chunk in chunks:
        builder.add(chunk)
    assert builder.message().tool_calls == (
        ToolCall(id="call_1_1", name="list_files"),
        ToolCall(id="call_1_2", name="run_python", arguments={"code": "ü"}),
    )
    assert builder.finish_reason == "tool_calls"
    assert (builder.usage, builder.cost_usd) == (TokenUsage(), None)


def test_an_empty_reply_only_finishes() -> None:
    assert list(chunks_of(ExplorerReply(""), 1)) == [StreamChunk(type="finish", data="stop")]


async def test_the_explorer_answers_as_a_model_does() -> None:
    explorer: Client = ExplorerClient()
    chunks = [chunk async for chunk in explorer.stream(asking("Hello"))]
    assert [c.type for c in chunks].count("finish") == 1
    assert chunks[-1].type == "finish"
    assert {c.type for c in chunks} & {"content", "tool_call"}
    assert any(c.type == "thinking" for c in chunks)


async def test_ids_of_calls_differ_from_turn_to_turn() -> None:
    prompt = "List files"
    (first,) = (await answer_of(asking(prompt))).message().tool_calls
    answered = Message.of(Role.ASSISTANT, "There is a.csv.")
    later = (*result(first, "a.csv"), answered, Message.of(Role.USER, prompt))
    (second,) = (await answer_of(asking(prompt, *later))).message().tool_calls
    assert (first.id, second.id) == ("call_1_1", "call_3_1")


async def test_where_no_calls_are_allowed_it_answers_in_words() -> None:
    request = asking("List files")
    assert (await answer_of(request)).message().tool_calls
    in_words = (await answer_of(replace(request, may_call=False))).message()
    assert not in_words.tool_calls
    assert in_words.text


async def test_a_bug_in_the_explorer_is_final_and_not_taken_for_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> ExplorerReply:
        raise KeyError("column")

    monkeypatch.setattr(explorer, "reply", fail)
    with pytest.raises(ModelRefusedError, match="the explorer failed: KeyError: 'column'"):
        await answer_of(asking("Hello"))
