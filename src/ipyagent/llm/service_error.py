"""The failure that a model's service reports itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any


class ServiceError(Exception):
    """An error that a service answers instead of a reply, or sends in the midst of one.

    `status_code` is 0 if the service sent none; `body` is the JSON of the error, if it is JSON.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        is_mid_stream: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status
        self.body = body
        self.headers = headers or {}
        self.is_mid_stream = is_mid_stream

    @classmethod
    def of_answer(cls, status: int, body: bytes, headers: Mapping[str, str]) -> ServiceError:
        """Return the error that an answer with that status reports."""
        text = body.decode("utf-8", "replace").strip()
        try:
            parsed: Any = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        return cls(text or _phrase(status), status=status, body=parsed, headers=headers)

    @classmethod
    def in_stream(cls, error: object, status: int = 0) -> ServiceError:
        """Return the error that an event of a stream reports."""
        text = error if isinstance(error, str) else json.dumps({"error": error})
        body = dict(error) if isinstance(error, Mapping) else {}
        if status:
            body["code"] = status
        return cls(text, body=body, is_mid_stream=True)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no explanation"
