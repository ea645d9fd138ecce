"""The transcript in a saved notebook, without what the run beside it has already."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ipyagent.json_types import JsonDict
from ipyagent.ui.transcript import Transcript

TRANSCRIPT_MIME = "application/vnd.ipyagent.transcript+json"

_LONG = 200
"""Texts with more characters than this are not repeated."""

_ARGUMENTS = "arguments"
"""The arguments of a call are kept whole: they may look like a reference."""

Path = tuple[str | int, ...]


def dump_transcript(transcript: Transcript, run: JsonDict) -> JsonDict:
    """Return the transcript as JSON in which {"at": path} refers to a value in `run`.

    These are long texts, images among them, and the arguments of calls.
    """
    places = dict(_index(run, ()))
    return {name: _refer(each, name, places) for name, each in transcript.to_dict().items()}


def _index(value: object, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield values that need not be repeated, each with its path."""
    if path and path[-1] == _ARGUMENTS:
        yield _key(value), path
    elif isinstance(value, str):
        if len(value) > _LONG:
            yield value, path
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _index(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _index(each, (*path, index))


def _refer(value: object, name: str, places: dict[str, Path]) -> object:
    if name == _ARGUMENTS:
        return {"at": list(places[_key(value)])}
    if isinstance(value, str):
        return {"at": list(places[value])} if value in places else value
    if isinstance(value, dict):
        return {name: _refer(each, name, places) for name, each in value.items()}
    if isinstance(value, list):
        return [_refer(each, "", places) for each in value]
    return value


def _key(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True)
