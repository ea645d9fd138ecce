"""The data in a saved notebook: the run, and its transcript without what the run has already.

Nothing is kept that says only that there is nothing: 300 agent cells are a third smaller for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ipyagent.json_types import JsonDict
from ipyagent.schema import Run
from ipyagent.ui.transcript import Transcript

TRANSCRIPT_MIME = "application/vnd.ipyagent.transcript+json"

_LONG = 60
"""Texts with more characters than this are not repeated: a reference has about as many."""

_ARGUMENTS = "arguments"
"""The arguments of a call are kept whole: they may look like a reference."""

_OUTPUT = "data"
"""The formats of an output: a format without text is a format."""

_ALWAYS = {
    *("type", "role", "number", "content", "text", "thinking", "name", "arguments"),
    *("executions", "call", "result", "status", "sensitive", "success", "output"),
    *("error", "images", "truncated"),
}
"""Fields of a run's steps and calls that are kept whatever they hold, for programs that read it."""

Path = tuple[str | int, ...]
Key = tuple[str, str]
"""A value that is kept once: a text, or arguments, which may have the same JSON as a text."""


def dump_run(run: Run) -> JsonDict:
    """Return the run as JSON; below its own fields those that have their default are left out."""
    whole, changed = run.to_dict(), run.model_dump(mode="json", exclude_defaults=True)
    return {name: _without_defaults(each, changed.get(name, each)) for name, each in whole.items()}


def dump_transcript(transcript: Transcript, run: JsonDict) -> str:
    """Return the transcript as JSON in which {"at": path} refers to a value in `run`.

    These are long texts, images among them, and the arguments of calls. Empty texts and lists,
    nulls and falsehoods are left out: `labextension/src/saved.ts` has the schema. It is text, as
    notebooks indent other JSON, which would double it.
    """
    places = dict(_index(run, ()))
    return json.dumps(_refer(transcript.to_dict(), "", places), separators=(",", ":"))


def _without_defaults(whole: object, changed: object) -> object:
    if isinstance(whole, dict) and isinstance(changed, dict):
        return {
            name: _without_defaults(each, changed.get(name, each))
            for name, each in whole.items()
            if name in changed or name in _ALWAYS
        }
    if isinstance(whole, list) and isinstance(changed, list):
        return [_without_defaults(*each) for each in zip(whole, changed, strict=True)]
    return whole


def _index(value: object, path: Path) -> Iterator[tuple[Key, Path]]:
    """Yield values that need not be repeated, each with its path."""
    if path and path[-1] == _ARGUMENTS:
        yield _key(value), path
    elif isinstance(value, str):
        if len(value) > _LONG:
            yield ("", value), path
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _index(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _index(each, (*path, index))


def _refer(value: object, name: str, places: dict[Key, Path]) -> object:
    if name == _ARGUMENTS:
        return {"at": list(places[_key(value)])}
    if isinstance(value, str):
        place = places.get(("", value))
        return value if place is None else {"at": list(place)}
    if isinstance(value, dict):
        return {
            key: _refer(each, key, places)
            for key, each in value.items()
            if name == _OUTPUT or key == _ARGUMENTS or not _is_nothing(each)
        }
    if isinstance(value, list):
        return [_refer(each, "", places) for each in value]
    return value


def _is_nothing(value: object) -> bool:
    return value is None or value is False or value in ("", [])


def _key(arguments: object) -> Key:
    return _ARGUMENTS, json.dumps(arguments, sort_keys=True)
