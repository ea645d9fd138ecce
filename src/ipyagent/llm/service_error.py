"""The failure that a model's service reports itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from ipyagent.json_types import object_of, parse_json

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
