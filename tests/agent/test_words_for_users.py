"""What is said to the model about how to go on is said to nobody else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.schema import DecidedBy, Decision, Run
from ipyagent.ui.static_html import saved_bundle

FOR_MODEL = re.compile(
    r"do not repeat|ask or find|go on as well|look before you|list_files shows|read_notebook shows"
    r"|the person denied",
    re.IGNORECASE,
)
WRITE = call("write_file", path="a.txt", content="x")
QUESTION = call("ask_user", question="Which year?")


def denied(by: DecidedBy, reason: str | None) -> Answer:
    return Answer(Decision.DENIED, by, reason)


CASES = {
    "denied": (WRITE, denied(DecidedBy.BUTTON, None), "denied by you", "Do not repeat it"),
    "denied with a reason": (
        WRITE,
        denied(DecidedBy.BUTTON, "only the top one"),
        "denied by you: only the top one",
        "Their reason: only the top one. Do not repeat it",
    ),
    "a question": (
        QUESTION,
        denied(DecidedBy.PROMPT, "look at the file"),
        "declined by you: look at the file",
        "Nobody answered: look at the file. Go on as well as you can without it.",
    ),
    "no such file": (
        call("read_file", path="nope.txt"),
        None,
        "nope.txt: no such file or folder",
        "no such file or folder (list_files shows them.)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_user_reads_what_happened_and_the_model_what_to_do(lab: Lab, name: str) -> None:
    asked, answer, words, advice = CASES[name]
    replies: list[Any] = [{"calls": [asked]}, "Well."]
    run = lab.run(replies, answer=answer) if answer else lab.run(replies)
    assert lab.client
    told = lab.client.requests[1].messages[-1].tool_results[0].content[0].text
    assert advice in told
    for kind in ("text/html", "text/plain"):
        text = str(saved_bundle(run)[kind])
        assert words in text.replace("\\", "")
        assert not FOR_MODEL.search(text.replace("\\", "")), kind
    assert Run.from_dict(run.to_dict()).results[0].content == run.results[0].content
