"""What a page puts together from changes is what it would be told as a whole."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter

from ipyagent.agent.approvals import Approvals
from ipyagent.schema import Event, Run, advance
from ipyagent.schema.state import fill_from_html
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.messages import Protocol
from ipyagent.ui.static_html import TRANSCRIPT_MIME
from ipyagent.ui.transcribe.call_texts import mask_run
from ipyagent.ui.transcribe.run import Live, Transcriber, transcribe
from ipyagent.ui.transcript import find_changes
from page_transcript import PageTranscript
from replayed import events_from_run

sys.path.insert(0, str(Path(__file__).parents[1] / "schema"))
sys.path.insert(0, str(Path(__file__).parents[1] / "labextension"))

from rich_run import STORIES
from strategies import runs

FROM_RUN = TypeAdapter(Protocol.model_fields["from_run"].annotation)


async def follow(events: list[Event]) -> tuple[PageTranscript, Feed, list[Any]]:
    """A page that was told of every event, and what was sent."""
    sent: list[Any] = []
    feed, page, state = Feed(Approvals(), lambda: None), PageTranscript(), None
    feed.followers.append(lambda message: sent.append(json.loads(json.dumps(message))))
    for event in events:
        state = advance(state, event)
        feed(event, state)
        feed.flush()
    for message in json.loads(json.dumps(sent)):
        page.receive(message)
    return page, feed, sent


@pytest.mark.parametrize("name", STORIES)
async def test_changes_lead_to_the_whole(name: str) -> None:
    page, feed, sent = await follow(list(STORIES[name]()))
    assert page.now == feed.transcript.to_dict()
    for message in sent:
        FROM_RUN.validate_python(message)


@given(run=runs)
@settings(deadline=None)
def test_changes_of_any_run_lead_to_the_whole(run: Run) -> None:
    page, feed, _ = asyncio.run(follow(events_from_run(run)))
    assert page.now == feed.transcript.to_dict()


@given(one=runs, other=runs)
@settings(deadline=None)
def test_changes_lead_from_any_run_to_any_other(one: Run, other: Run) -> None:
    page, before, after = PageTranscript(), transcribe(one), transcribe(other, Live())
    page.now = before.to_dict()
    changes = json.loads(json.dumps(find_changes(before, after)))
    page.receive({"type": "changes", "seq": 1, "changes": changes})
    assert page.now == after.to_dict()


@pytest.mark.parametrize("name", STORIES)
async def test_a_text_that_goes_on_is_sent_once(name: str) -> None:
    events = list(STORIES[name]())
    _, feed, sent = await follow(events)
    whole = len(json.dumps(feed.transcript.to_dict()))
    assert len(json.dumps(sent)) < 3 * whole


@given(run=runs)
@settings(deadline=None)
def test_a_transcriber_that_followed_says_what_one_that_begins_says(run: Run) -> None:
    transcriber, state = Transcriber(), None
    for event in events_from_run(run):
        state = advance(state, event)
        live = Live(state.open_message)
        assert transcriber.transcribe(state.run, live) == transcribe(state.run, live)


@given(run=runs)
@settings(deadline=None)
def test_a_saved_transcript_is_whole_again_with_its_run(run: Run) -> None:
    bundle: dict[str, Any] = json.loads(json.dumps(static_html.saved_bundle(run)))
    saved, data = json.loads(bundle[TRANSCRIPT_MIME]), bundle[static_html.RUN_MIME]
    fill_from_html(data, bundle["text/html"])
    assert filled(resolved(saved, data), SCHEMA) == transcribe(run).to_dict()


def test_a_text_that_looks_like_arguments_stays_a_text() -> None:
    steps = [{"call": {"id": "c", "name": "n", "arguments": each}} for each in ({}, {"a": {}})]
    run = Run.from_dict({"id": "r", "model": "m", "status": "draft", "plan": steps})
    saved = json.loads(static_html.saved_bundle(run)[TRANSCRIPT_MIME])
    assert "{}" in json.dumps(saved["plan"]["steps"][1]["summary"])


@given(run=runs)
@settings(deadline=None)
def test_a_saved_run_is_the_run_again(run: Run) -> None:
    bundle = json.loads(json.dumps(static_html.saved_bundle(run)))
    saved = bundle[static_html.RUN_MIME]
    fill_from_html(saved, bundle["text/html"])
    assert Run.from_dict(saved) == Run.from_dict(mask_run(run).to_dict())


def resolved(value: Any, run: Any, name: str = "") -> Any:
    """As `labextension/src/saved.ts` does it."""
    if isinstance(value, dict):
        if value.keys() == {"at"} and isinstance(value["at"], list):
            for key in value["at"]:
                run = run[key]
            return run
        assert name != "arguments"
        return {each: resolved(value[each], run, each) for each in value}
    return [resolved(each, run) for each in value] if isinstance(value, list) else value


SCHEMA = json.loads(
    (Path(__file__).parents[2] / "labextension/src/transcript.schema.json").read_text()
)
NOTHING: dict[str, Any] = {"string": "", "boolean": False, "array": []}


def filled(value: Any, place: dict[str, Any]) -> Any:
    """The value with the fields that were left out, as `labextension/src/saved.ts` does it."""
    forms = [form for form in forms_of(place) if form.get("type") != "null"]
    kind = value.get("type") if isinstance(value, dict) else None
    kinds = (f for f in forms if f.get("properties", {}).get("type", {}).get("const") == kind)
    form = next(kinds, forms[0])
    if isinstance(value, list):
        return [filled(each, form["items"]) for each in value]
    if not isinstance(value, dict) or "properties" not in form:
        return value
    fields = form["properties"].items()
    return {n: filled(value[n], f) if n in value else nothing_of(f) for n, f in fields}


def nothing_of(place: dict[str, Any]) -> Any:
    types = [form.get("type") for form in forms_of(place)]
    return None if "null" in types else NOTHING[types[0]]


def forms_of(place: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in place:
        return forms_of(SCHEMA["$defs"][place["$ref"].rpartition("/")[2]])
    several = place.get("anyOf") or place.get("oneOf")
    return [form for each in several for form in forms_of(each)] if several else [place]
