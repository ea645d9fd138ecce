"""Answers as instances of a type: what models are asked for, what is taken, and what is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from ipyagent import Agent, Scripted, tool
from ipyagent.agent.answers import AnswerType
from ipyagent.config import Layer
from ipyagent.errors import ConfigError
from ipyagent.schema import Run
from ipyagent.ui.plain_text import render
from ipyagent.ui.static_html import run_html
from ipyagent.ui.transcribe import transcribe
from page_blocks import words_of
from servers.model_server import ModelServer, answer, failure


class Kind(Enum):
    GOOD = "good"
    BAD = "bad"


class Label(BaseModel):
    kind: Kind
    score: float = Field(default=0.5, ge=0, le=1)
    about: str | None = None

    @field_validator("about")
    @classmethod
    def name_something(cls, about: str | None) -> str | None:
        if about == "":
            raise ValueError("say what it is about")
        return None if about is None else {"delivery": "delivery"}[about]


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str
    born: date


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ask(*replies: Any, result: object = Label, **agent: Any) -> tuple[Run, Scripted]:
    model = Scripted(replies)
    return Agent(model, persist=False, **agent).ask("Go.", result=result), model


GOOD = '{"kind": "good", "score": 1, "about": null}'


def wrap(value: object) -> str:
    return json.dumps({"value": value})


TYPES: list[tuple[Any, str, Any]] = [
    (Label, GOOD, Label(kind=Kind.GOOD, score=1)),
    (Label, f"```json\n{GOOD}\n```", Label(kind=Kind.GOOD, score=1)),
    (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    (Row, '{"name": "Ada", "born": "1815-12-10"}', {"name": "Ada", "born": date(1815, 12, 10)}),
    (Tree, wrap({"name": "a", "children": [{"name": "b", "children": []}]}),
     Tree(name="a", children=[Tree(name="b")])),
    (int, wrap(3), 3),
    (bool, wrap(False), False),
    (float, wrap(0.5), 0.5),
    (str, wrap("ö"), "ö"),
    (Kind, wrap("bad"), Kind.BAD),
    (Literal["a", 2], wrap(2), 2),
    (list[Point], wrap([{"x": 1, "y": 2}]), [Point(1, 2)]),
    (list[str], wrap([]), []),
    (int | None, wrap(None), None),
    (Point | str, wrap("none"), "none"),
    (dict[str, int], wrap({"a": 1}), {"a": 1}),
    (tuple[int, str], wrap([1, "b"]), (1, "b")),
    (Annotated[int, Field(gt=0)], wrap(1), 1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value"), TYPES)
def test_an_answer_is_an_instance_of_its_type(kind: Any, text: str, value: Any) -> None:
    run, model = ask(text, result=kind)
    assert (run.outcome, run.value, type(run.value)) == ("success", value, type(value))
    assert run.value_text == repr(value)
    assert len(model.requests) == 1


def test_each_schema_is_one_object_and_closed_ones_are_strict() -> None:
    loose = (dict[str, int], Tree)
    for kind, *_ in TYPES:
        form = AnswerType(kind).format
        assert form.schema["type"] == "object"
        assert form.schema["required"] == [*form.schema["properties"]]
        assert form.strict == (kind not in loose), kind
        assert "default" not in json.dumps(form.schema)


@pytest.mark.parametrize("given", ["Label", 5, object(), lambda x: x, Iterator])
def test_what_is_not_a_type_that_json_can_hold_is_refused_before_anything_is_sent(
    given: object,
) -> None:
    run, model = ask(GOOD, result=given)
    assert run.outcome == "failed"
    assert "an answer cannot be" in str(run.error)
    assert model.requests == []


def test_a_cell_names_a_type_of_the_user_or_a_built_in_one() -> None:
    assert AnswerType.find("Label", {"Label": Label}).name == "Label"
    assert AnswerType.find("int", {}).name == "int"
    with pytest.raises(ConfigError, match="there is no 'Lable'"):
        AnswerType.find("Lable", {"Label": Label})


def test_a_wrong_answer_is_asked_for_again_with_the_reason_and_the_schema() -> None:
    run, model = ask('{"kind": "so-so"}', '{"kind": "good", "about": ""}', GOOD)
    assert (run.outcome, run.value.kind) == ("success", Kind.GOOD)
    first, second = (request.messages[-1].text for request in model.requests[1:])
    assert "kind: Input should be 'good' or 'bad'" in first
    assert '"enum": ["good", "bad"]' in first
    assert "about: Value error, say what it is about" in second


def test_after_two_more_attempts_the_run_fails_with_the_last_reason() -> None:
    run, model = ask("No.", "No.", '{"kind": "bad", "score": 2}', GOOD)
    assert len(model.requests) == 3
    assert (run.outcome, run.value, run.value_text) == ("failed", None, "")
    assert run.error == "The answer is not Label: score: Input should be less than or equal to 1"


def test_a_validator_that_breaks_is_a_reason_like_any_other() -> None:
    run, model = ask('{"kind": "good", "about": "price"}', GOOD)
    assert run.outcome == "success"
    assert "KeyError: 'price'" in model.requests[1].messages[-1].text


def test_an_answer_that_was_cut_is_asked_for_again_and_is_no_part_of_the_output() -> None:
    cut = {"text": GOOD[:20], "finish_reason": "length"}
    run, model = ask(cut, GOOD)
    assert (run.outcome, run.output) == ("success", GOOD)
    assert "give a shorter one" in model.requests[1].messages[-1].text
    failed, _ = ask(cut, cut, cut)
    assert (failed.outcome, "it was cut" in str(failed.error)) == ("failed", True)


def test_an_answer_that_the_service_paused_is_continued() -> None:
    paused = {"text": GOOD[:20], "finish_reason": "pause_turn"}
    run, _ = ask(paused, GOOD[20:])
    assert (run.outcome, run.value.kind) == ("success", Kind.GOOD)


def test_an_empty_answer_is_asked_for_again() -> None:
    run, model = ask({"thinking": "Hm."}, GOOD)
    assert run.outcome == "success"
    assert "it is empty" in model.requests[1].messages[-1].text


def test_a_refusal_is_not_asked_for_again() -> None:
    run, model = ask({"text": "I will not.", "finish_reason": "content_filter"})
    assert (run.outcome, run.stop_reason) == ("partial", "content_filter")
    assert run.value is None
    assert len(model.requests) == 1


@tool(where="loop")
async def look() -> str:
    """Look."""
    return "It is good."


def final(value: object) -> dict[str, Any]:
    return {"name": "final_answer", "arguments": value}


def test_tools_are_used_before_the_answer_and_an_answer_beside_a_call_does_not_count() -> None:
    early = {"text": "Now.", "calls": [{"name": "look"}, final({"kind": "bad"})]}
    last = {"text": "So:", "calls": [final({"kind": "good"})]}
    run, model = ask(early, last, tools=[look])
    assert (run.value, [each.output for each in run.results]) == (
        Label(kind=Kind.GOOD),
        ["It is good."],
    )
    assert run.output == '{"kind": "good"}'
    assert [each.call.name for each in run.executions] == ["look"]
    sent = [call.name for message in model.requests[1].messages for call in message.tool_calls]
    assert sent == ["look"]


def test_the_last_answer_of_a_run_whose_steps_are_used_up_is_a_value_too() -> None:
    run, _ = ask({"calls": [{"name": "look"}]}, GOOD, tools=[look], max_steps=1)
    assert (run.outcome, run.value.kind) == ("partial", Kind.GOOD)
    silent, _ = ask({"calls": [{"name": "look"}]}, tools=[look], max_steps=1)
    assert (silent.outcome, silent.value, silent.value_text) == ("partial", None, "")
    wrong, _ = ask("No.", max_steps=1)
    assert (wrong.outcome, wrong.value) == ("failed", None)


def test_prompts_with_and_without_a_type_alternate_in_one_conversation() -> None:
    model = Scripted([GOOD, "Because.", wrap(3)])
    agent = Agent(model, persist=False)
    runs = [agent.ask("One.", result=Label), agent.ask("Why?"), agent.ask("How many?", result=int)]
    assert [run.value for run in runs] == [Label(kind=Kind.GOOD, score=1), None, 3]
    assert [request.answer is None for request in model.requests] == [False, True, False]


async def test_an_answer_with_a_type_can_be_awaited() -> None:
    run = await Agent(Scripted([wrap(3)]), persist=False).aask("How many?", result=int)
    assert run.value == 3


def test_a_run_that_is_read_again_has_the_value_as_text_and_its_json() -> None:
    first = Agent(Scripted([GOOD]), session="kept")
    run = first.ask("Go.", result=Label)
    loaded = Run.from_dict(run.to_dict())
    assert (loaded.value, loaded.value_text, loaded.output) == (None, repr(run.value), GOOD)
    again = Agent(Scripted(["Well."]), session="kept")
    assert again.session.runs[0].value_text == repr(run.value)
    assert again.ask("And?").outcome == "success"


def test_the_explorer_says_that_it_cannot() -> None:
    run = Agent("offline/explorer", persist=False).ask("Missing values", result=Label)
    assert run.outcome == "failed"
    assert "choose a language model" in str(run.error)


def test_a_plan_has_no_type() -> None:
    run = Agent(Scripted([]), persist=False).ask("Go.", plan=True, result=Label)
    assert (run.outcome, "leave one of them out" in str(run.error)) == ("failed", True)


class Hostile(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "```\n<script>alert(1)</script> **bold** [x](javascript:y)"


class Broken(BaseModel):
    a: int

    def __repr__(self) -> str:
        raise RuntimeError("no")


def make_hostile(text: str) -> Hostile:
    return Hostile(text)


def test_the_value_is_drawn_as_python_writes_it_and_nothing_in_it_is_markup() -> None:
    from pydantic import AfterValidator

    run, _ = ask(wrap("x"), result=Annotated[str, AfterValidator(make_hostile)])
    html = run_html(transcribe(run))
    assert "<script>" not in html
    assert "<script>alert(1)</script> **bold**" in words_of(html)
    drawn, _ = ask(GOOD)
    assert transcribe(drawn).steps[-1].text == f"```python\n{drawn.value!r}\n```"
    assert "Label(kind=<Kind.GOOD: 'good'>" in render(transcribe(drawn))
    broken, _ = ask('{"a": 1}', result=Broken)
    assert broken.value_text == "<Broken, whose repr raises RuntimeError>"


def test_over_http_a_service_without_formats_is_asked_for_a_call() -> None:
    replies = [
        answer(calls=[("look", {})]),
        answer("Let me see.", calls=[("final_answer", {"kind": "bad", "score": 0, "about": None})]),
    ]
    with ModelServer(replies) as server:
        llm = {"model": "openai/m", "api_base": server.url, "api_key": "sk-test"}
        agent = Agent(persist=False, tools=[look], layers=[Layer("the test", {"llm": llm})])
        run = agent.ask("Go.", result=Label)
    assert run.value == Label(kind=Kind.BAD, score=0)
    names = [each["function"]["name"] for each in server.requests[0].body["tools"]]
    assert (names[-1], "look" in names) == ("final_answer", True)
    assert "tool_choice" not in server.requests[0].body


def test_a_failure_of_the_service_is_the_runs_error() -> None:
    with ModelServer([failure(401, "bad key")]) as server:
        llm = {"model": "openai/m", "api_base": server.url, "api_key": "sk-test"}
        agent = Agent(persist=False, layers=[Layer("the test", {"llm": llm})])
        run = agent.ask("Go.", result=Label)
    assert (run.outcome, "bad key" in str(run.error), run.value) == ("failed", True, None)
