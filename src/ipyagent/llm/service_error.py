"""The failure that a model's service reports, and the parts of a conversation that it refuses.

A part that is refused once is refused with every later request, so the conversation would be over.
Parts are known by their content, since their places change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from ipyagent.digests import digest_json
from ipyagent.json_types import JsonDict, object_of, parse_json

_PLACES = ("error", "errors", "base_resp", "detail", "details", "choices")
"""Fields that hold an error; `base_resp` is MiniMax's, which also says that all is well."""
_WORDS = ("message", "msg", "status_msg", "error_msg", "error_message", "errormessage", "reason")
_CODES = ("code", "status", "status_code", "http_code", "type")
_FINE = {0, "0", 200, "200", "ok", "success"}

_STATUSES = {
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "exceed_context_size_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error within a stream would have had as an answer, by its type or code."""


def find_error(value: object) -> Any:
    """Return the part of an event or a body that reports an error, whatever its form; else None."""
    match value:
        case str():
            return value.strip() or None
        case list():
            return next(filter(None, map(find_error, value)), None)
        case dict():
            fields = {str(name).lower(): inner for name, inner in value.items()}
            if any(_is_fine(fields.get(name)) for name in _CODES[:3]):
                return None
            inner = next(filter(None, (find_error(fields.get(name)) for name in _PLACES)), None)
            if isinstance(inner, str) or not inner:
                is_error = any(isinstance(fields.get(name), str) for name in _WORDS) or inner
                return value if is_error else fields.get("error") or None
            return inner
    return None


def words_of(error: object) -> str:
    """Return the message of an error; "" if it has none."""
    if not isinstance(error, dict):
        return error if isinstance(error, str) else ""
    fields = {str(name).lower(): inner for name, inner in error.items()}
    texts = (fields.get(name) for name in (*_WORDS, *_PLACES))
    return next((text for text in texts if isinstance(text, str) and text), "")


def reason_behind(body: object) -> str:
    """Return what OpenRouter passes on from the service that it asked; "" for nothing."""
    with suppress(RecursionError):
        raw = object_of(object_of(find_error(body)).get("metadata")).get("raw")
        return words_of(find_error(parse_json(raw) or raw))
    return ""


def _is_fine(code: object) -> bool:
    return isinstance(code, (int, str)) and not isinstance(code, bool) and code in _FINE


def _status_of(error: Any) -> int:
    """Return the HTTP status that an error names, by number or by name; 0 for none."""
    for name in _CODES if isinstance(error, dict) else ():
        code = str(error.get(name)).lower()
        status = int(code) if code.isdecimal() and len(code) == 3 else _STATUSES.get(code, 0)
        if 400 <= status < 600:
            return status
    return 0


class ServiceError(Exception):
    """An error that a service answers instead of a reply, or sends in the midst of one.

    `status_code` is 0 if the service sent none; `body` is the JSON of the error, if it is JSON.
    `is_whole` is true for what was sent in the place of a reply, without being marked as an error.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        is_mid_stream: bool = False,
        is_whole: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status
        self.body = body
        self.headers = headers or {}
        self.is_mid_stream = is_mid_stream
        self.is_whole = is_whole

    @classmethod
    def of_answer(cls, status: int, body: bytes, headers: Mapping[str, str]) -> ServiceError:
        """Return the error that an answer with that status reports."""
        text = body.decode("utf-8", "replace").strip()
        body_json = parse_json(text)
        return cls(text or _phrase(status), status=status, body=body_json, headers=headers)

    @classmethod
    def in_stream(cls, error: object, *, is_whole: bool = False) -> ServiceError:
        """Return the error that an event of a stream reports."""
        found = find_error(error) or error
        return cls(
            words_of(found) or json.dumps(found),
            status=_status_of(found),
            body=found,
            is_mid_stream=True,
            is_whole=is_whole,
        )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no explanation"


class EventTooLargeError(Exception):
    """A service sent more bytes in one piece, or without an answer in them, than it may."""

    def __init__(self, most: int, how: str = "in one piece") -> None:
        super().__init__(f"more than {most // 2**20} MB came {how}")


THOUGHTS = "signed or encrypted thoughts"
"""Stands for all of them: services that refuse one refuse the others, too."""

NOTE = "[left out: the service refused it]"

_PATH = re.compile(r"\b(messages|input)\b((?:(?: ->|[^\w\s]{1,4})\s?\w+)+)")
_THOUGHTS = re.compile(
    r"(?i)signature|encrypted|redacted|\brs_\w|thinking_blocks|reasoning_details"
    r"|(thinking|reasoning)\b.*\b(block|item)|\b(block|item)s?\b.*(thinking|reasoning)"
)
_SETTINGS = re.compile(r"(?i)effort|budget|\binclude\b")
_OF_IMAGES = re.compile(
    r"(?i)(?<![-\w])(images?|image_urls?|input_image|vision|multi-?modal)(?![-\w])"
    r"(?! (model|generation))"
)
_IS_SIGNED = re.compile(
    '"(signature|encrypted_content|thought_signature|redacted_thinking|reasoning_details)"'
)
_IMAGES = {"image", "image_url", "input_image"}
_CALLS = {"tool_use", "function", "function_call"}


def find_refused(message: str, items: list[JsonDict]) -> tuple[str, frozenset[str]]:
    """Return what a service's error names of a conversation, in words, and the parts' digests.

    `items` are the messages as they were sent. The newest words of the user are never left out;
    ("", nothing) if the error names no part.
    """
    is_of_thoughts = _THOUGHTS.search(message) and not _SETTINGS.search(message)
    if is_of_thoughts and _IS_SIGNED.search(json.dumps(items)):
        return THOUGHTS, frozenset({THOUGHTS})
    for path in _PATH.finditer(message):
        part = _part_at(items, re.findall(r"\w+", path[2]))
        if part is not None and not _is_kept(part, items):
            words = "an image" if part.get("type") in _IMAGES else "a part of the conversation"
            return words, frozenset({digest_json(part)})
        if images := frozenset(map(digest_json, _images(part))):
            return "an image", images
    if _OF_IMAGES.search(message):
        images = frozenset(map(digest_json, _images(items)))
        return ("the images so far" if images else ""), images
    return "", frozenset()


def leave_out(items: Iterable[JsonDict], refused: AbstractSet[str]) -> Iterator[JsonDict]:
    """Yield the items with a note in the place of each refused part."""
    parts = refused - {THOUGHTS}
    for item in items:
        yield _without(item, parts) if parts else item


def _without(part: JsonDict, refused: AbstractSet[str]) -> JsonDict:
    if digest_json(part) in refused:
        return _stand_in(part)
    return {
        key: [_without(each, refused) if isinstance(each, dict) else each for each in value]
        if isinstance(value, list)
        else value
        for key, value in part.items()
    }


def _stand_in(part: JsonDict) -> JsonDict:
    """Return a part with the note as its content; what it belongs to stays."""
    match part:
        case {"type": "function_call_output"}:
            return part | {"output": NOTE}
        case {"role": _} | {"type": "tool_result"}:
            return part | {"content": NOTE}
        case {"type": str(kind)} if kind.startswith("input_"):
            return {"type": "input_text", "text": NOTE}
    return {"type": "text", "text": NOTE}


def _part_at(items: list[JsonDict], steps: list[str]) -> JsonDict | None:
    """Return the innermost element of a list on a path; None if it cannot be left out."""
    here: object = items
    found: JsonDict | None = None
    for step in steps:
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
            found = here if isinstance(here, dict) else found
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            break
    return None if found is None or _belongs_together(found) else found


def _belongs_together(part: JsonDict) -> bool:
    """Return whether a part holds a call or a message's results: neither goes without the other."""
    content = part.get("content")
    blocks = content if isinstance(content, list) and "role" in part else []
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    return (
        "tool_calls" in part or part.get("type") in _CALLS or bool(kinds & {*_CALLS, "tool_result"})
    )


def _is_kept(part: JsonDict, items: list[JsonDict]) -> bool:
    """Return whether a part holds instructions, or the newest words of the user."""
    if part.get("role") == "system":
        return True
    spoken = (item for item in reversed(items) if item.get("role") == "user" and _words(item))
    newest = next(spoken, {})
    return part is newest or any(part is each for each in _words(newest))


def _words(item: JsonDict) -> list[object]:
    """Return the texts of a message."""
    content = item.get("content")
    if not isinstance(content, list):
        return [content] if content else []
    return [each for each in content if each.get("type") in ("text", "input_text")]


def _images(value: object) -> Iterator[JsonDict]:
    if isinstance(value, dict) and value.get("type") in _IMAGES:
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _images(each)
