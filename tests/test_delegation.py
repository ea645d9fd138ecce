"""A run that delegates tasks to others: their rights, their part of its budget, their end with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import Outcome, Run


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


class Cast:
    """Plays several agents by the prompts that they were given: each has replies of its own."""

    def __init__(self, **parts: list[Any]) -> None:
        self.parts = {name.replace("_", " "): [*replies] for name, replies in parts.items()}
        self.requests: dict[str, list[ModelRequest]] = {name: [] for name in self.parts}

    def play(self, request: ModelRequest) -> Any:
        texts = [each.text for each in request.messages if each.is_from_user]
        part = next(name for name in self.parts if any(name in text for text in texts))
        self.requests[part].append(request)
        replies = self.parts[part]
        said = replies.pop(0) if len(replies) > 1 else replies[0]
        return said(request) if callable(said) else said

    @property
    def model(self) -> Scripted:
        return Scripted([self.play] * 200)


def delegate(*tasks: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [call("delegate", task=task, **arguments) for task in tasks]}


ALLOWED = {"tools": {"offer": "all"}}


def run_cast(lab: Lab, cast: Cast, prompt: str = "The boss", **options: Any) -> Run:
    settings = {**ALLOWED, **options.pop("settings", {})}
    return lab.run(cast.model, prompt, settings=settings, **options)


def test_the_answer_of_a_child_is_the_result_of_the_call(lab: Lab) -> None:
    lab.variables["sales"] = [1, 2, 3]
    cast = Cast(
        The_boss=[delegate("Count the sales"), "There are three."],
        Count_the_sales=[{"calls": [call("inspect_variable", name="sales")]}, "Three sales."],
    )
    run = run_cast(lab, cast)
    assert run.outcome is Outcome.SUCCESS, run.error
    (execution,) = run.executions
    assert execution.result.text_for_model == "Three sales."
    assert "inspect" in execution.result.output
    child = execution.result.value
    assert child.parent_id == run.id
    assert child.session_id != run.session_id
    assert lab.session.journal.run(child.id).output == "Three sales."
    assert "There are three" not in json.dumps([str(r) for r in cast.requests["Count the sales"]])
