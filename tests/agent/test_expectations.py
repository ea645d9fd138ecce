"""Expectations of a cell: what they see, what a failed one says, and that they only look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipyagent import Agent, Scripted, tool
from ipyagent.agent.answers import check_all, parse_expectation, suggest
from ipyagent.errors import ConfigError, RunFailedError
from ipyagent.kernel.namespace import Namespace
from ipyagent.redaction import Redactor
from ipyagent.schema import Expectation, Run, RunFinished
from ipyagent.ui.plain_text import render
from ipyagent.ui.transcribe import transcribe

ANSWER = "The north sold most: 1,204 of 3.5 thousand, about 34.4 %, in March 2026 (Q3)."


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@tool
def load(path: str, limit: int = 10) -> str:
    """Load a file."""
    return f"{limit} of {path}"


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def namespace() -> Namespace:
    return Namespace({"rows": [3, 1, 2], "numbers": "the user's"})


@pytest.fixture
def run(namespace: Namespace) -> Run:
    replies = [
        call("load", path="data/a.csv"),
        call("load", path="data/b.csv", limit=3),
        call("write_file", path="out.txt", content="1"),
        call("run_python", code="total = sum(rows)"),
        ANSWER,
    ]

    class OwnAgent(Agent):
        def _namespace(self) -> Namespace:
            return namespace

    agent = OwnAgent(Scripted(replies), tools=[load], confirm_mode="yolo", persist=False)
    made = agent.ask("Which region sold most?")
    assert made.output == ANSWER, made
    return made


HOLD = """\
'north' in answer
answer.count('sold') == 1
near(1204)
near(3500)
near(3.5)
near(34, 0.5)
near(0.344)
numbers == [1204, 3.5, 34.4]
calls == ['load', 'load', 'write_file', 'run_python']
called('load') == 2
called('load', path='data/*.csv') == 2
called('load', path='data/a.csv', limit=10) == 0
called('load', limit=3)
called('run_python', code='*sum(*')
not called('delete_file')
'total' in variables
'out.txt' in files
steps == 5
tokens < 1_000_000
cost < 0.01
value is None
len(rows) == 3
sorted(rows) == [1, 2, 3]
namespace['numbers'] == "the user's"
run.outcome == 'success'
any(each > 1000 for each in numbers)
"""


@pytest.mark.spec("H27")
def test_expressions_see_the_answer_the_calls_the_variables_and_the_files(
    run: Run, namespace: Namespace
) -> None:
    found = check_all(HOLD.splitlines(), run, namespace)
    assert [str(each) for each in found if each.found] == []


FAIL = {
    "'south' in answer": f"answer = {ANSWER!r}",
    "near(12.4, 0.1)": "numbers = [1204.0, 3.5, 34.4]",
    "near(34, 0.3)": "numbers = [1204.0, 3.5, 34.4]",
    "near(3) and 'south' in answer": f"numbers = [1204.0, 3.5, 34.4]; answer = {ANSWER!r}",
    "not called('load')": "calls = ['load', 'load', 'write_file', 'run_python']",
    "called('load', path='*.txt')": "calls = ['load', 'load', 'write_file', 'run_python']",
    "called('load') == 1": "called('load') = 2",
    "len(rows) > 3": "len(rows) = 3",
    "steps <= 3": "steps = 5",
    "isinstance(value, int)": "value = None",
    "any(each > 5000 for each in numbers)": "numbers = [1204.0, 3.5, 34.4]",
    "[]": "it is []",
    "rows[7] == 1": "IndexError: list index out of range",
    "unknown == 1": "NameError: name 'unknown' is not defined",
}


@pytest.mark.spec("H27")
def test_a_failed_expectation_says_what_was_found(run: Run, namespace: Namespace) -> None:
    assert {each.text: each.found for each in check_all(FAIL, run, namespace)} == FAIL


CHANGES = ["rows.sort() is None", "rows.pop() == 2", "rows.clear() or True"]


@pytest.mark.parametrize("text", CHANGES)
def test_an_expectation_that_changes_a_variable_fails_and_the_variable_goes_back(
    text: str, run: Run, namespace: Namespace
) -> None:
    rows = namespace.variables()["rows"]
    (found,) = check_all([text], run, namespace)
    assert found.found == "it changes rows, and an expectation may only look"
    assert namespace.variables()["rows"] is rows
    assert rows == [3, 1, 2]


def test_what_an_expectation_assigns_stays_its_own(run: Run, namespace: Namespace) -> None:
    (found,) = check_all(["(rows := 1) == 1 and (more := 2)"], run, namespace)
    assert not found.found
    assert namespace.variables()["rows"] == [3, 1, 2]
    assert "more" not in namespace.variables()


def test_without_a_known_price_no_limit_of_costs_holds(run: Run, namespace: Namespace) -> None:
    used = run.usage.model_copy(update={"prompt_tokens": 5, "total_tokens": 5})
    steps = (run.steps[0].model_copy(update={"usage": used}), *run.steps[1:])
    (found,) = check_all(["cost < 1"], run.model_copy(update={"steps": steps}), namespace)
    assert found.found == "cost = nan"


@pytest.mark.parametrize("text", ["rows = 1", "near(", "", "import os"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is not a Python expression"):
        parse_expectation(text)


@pytest.mark.spec("H27")
def test_a_finished_run_becomes_expectations_that_hold(run: Run, namespace: Namespace) -> None:
    suggested = suggest(run, namespace)
    assert suggested == [
        "near(1204)",
        "near(3.5, 0.05)",
        "near(34.4, 0.05)",
        "called('load')",
        "called('write_file')",
        "called('run_python')",
        "'total' in variables",
        "'out.txt' in files",
    ]
    assert not any(each.found for each in check_all(suggested, run, namespace))


def test_a_secret_that_was_found_is_redacted() -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 4
    found = Expectation(text="answer == ''", found=f"answer = {secret!r}")
    end = RunFinished(status="done", stop_reason="finished", duration=1, expected=(found,))
    assert secret not in str(Redactor().record(end))


def test_a_failed_expectation_is_a_note_of_the_run_and_raises_where_that_is_asked_for(
    run: Run,
) -> None:
    failed = Expectation(text="near(3)", found="numbers = [4.0]")
    seen = run.model_copy(update={"expected": (failed, Expectation(text="True"))})
    note = "Not as expected: near(3): numbers = [4.0]"
    assert transcribe(seen).notes[-1] == note
    assert note in render(transcribe(seen))
    assert seen.outcome == "success"
    with pytest.raises(RunFailedError, match=r"Not as expected: near\(3\)"):
        seen.raise_for_outcome()
    assert seen.to_output_dict()["expected"][1] == {"text": "True", "found": ""}
    assert Run.model_validate(seen.to_dict()).expected == seen.expected
