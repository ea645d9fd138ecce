"""All views of a run say the same words: those of its transcript.

`labextension/src/__tests__/view.test.ts` proves the same of the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from pictures import render, run_html
from sample import sample_run

from ipyagent.schema import Run
from ipyagent.ui import plain_text as words
from ipyagent.ui.transcribe.run import transcribe
from ipyagent.ui.transcript import Call, Transcript

sys.path.insert(0, str(Path(__file__).parents[1] / "labextension"))
from rich_run import saved_run

RUNS = {
    "a sample": sample_run().model_copy(update={"verbose": 3}),
    "a story": Run.from_dict(saved_run("run.json") | {"verbose": 3}),
    "a plan": Run.from_dict(saved_run("plan.json") | {"verbose": 3}),
}
BESIDE_TEXT = {"remarks", "badge", "answer"}
"""Text shows how it was decided above a call, and below it no more than came of it."""


def text_of(html: str) -> str:
    return flat(BeautifulSoup(html, "html.parser").get_text())


def flat(text: str) -> str:
    return " ".join(re.sub(r"[│┆]", " ", text).split())


VIEWS = {
    "HTML": lambda run: text_of(run_html(run)),
    "text": lambda run: flat(render(run)),
}


def words_of(transcript: Transcript) -> Iterator[tuple[str, str]]:
    """The words that were decided for a run, each with where they are from."""
    header, footer = transcript.header, transcript.footer
    for part in (*words.header_parts(header), *words.usage_parts(footer)):
        yield "line", part
    for note in transcript.notes:
        yield "note", note
    if transcript.ending:
        yield "ending", transcript.ending.title
    if plan := transcript.plan:
        yield from [("plan", plan.goal), ("plan", plan.title), ("plan", plan.hash)]
        yield from (("plan step", line) for step in plan.steps for line in step.notes)
    for todo in transcript.todos:
        yield "todo", f"{todo.glyph} {todo.text}"
    for step in transcript.steps:
        yield from [*(("note", note) for note in step.notes), ("facts", step.facts)]
        yield "thinking", step.thinking.title if step.thinking else ""
        for call in step.calls:
            yield from words_of_call(call)


def words_of_call(call: Call) -> Iterator[tuple[str, str]]:
    yield from [("name", call.name), ("summary", words.summary_line(call))]
    yield from [("time", call.duration), ("badge", call.badge)]
    yield ("answer" if call.question else "verdict"), call.verdict
    yield from (("remarks", remark) for remark in call.remarks)
    yield from (("facts", fact) for fact in call.facts)
    if call.question is None:
        yield from (("argument", argument.value) for argument in call.request.shown)
    yield from (("result", text) for text in words.texts_beside_line(call))
    yield "for model", call.result.for_model.title if call.result and call.result.for_model else ""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", RUNS)
def test_every_view_says_all_that_was_decided(name: str, view: str) -> None:
    drawn = VIEWS[view](RUNS[name])
    said = [*words_of(transcribe(RUNS[name]))]
    assert len(said) > 15
    left_out = BESIDE_TEXT if view == "text" else set()
    missing = [
        (kind, text) for kind, text in said if kind not in left_out and flat(text)[:60] not in drawn
    ]
    assert missing == []
