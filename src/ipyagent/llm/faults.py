"""A provider's failure as one of ours: transient or final, in a sentence a person can read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ipyagent.errors import ModelError, ModelRefusedError, ModelUnavailableError

CUT_OFF = "the connection was closed before the answer was complete."
MAX_CHARS = 500
MAX_WAIT = 3600.0  # seconds; a service that asks for more is not worth waiting for

TRANSIENT = {408, 409, 425, 429}  # of the 4xx; all others say that the request itself is wrong

_PREFIX = re.compile(r"^\s*(litellm\.)?\w*(Error|Exception|Timeout)\s*(:|-)\s*")
_DEBRIS = re.compile(r"\n?Traceback \(most recent call last\)|\bOriginal exception: | LiteLLM Retr")
_MISSING = re.compile(r"No module named '(\w+)")
_PLAIN = {
    re.compile("payload is not completed|peer closed|reset by peer|Server disconnected"): CUT_OFF,
    re.compile(r"line \d+ column \d+ \(char \d+\)"): "the answer is malformed and cannot be read.",
}
_KEYS = re.compile(r"(?i)\b(sk|pk|gsk|xai|key|bearer)[-_ ][\w.*-]{8,}|\bAIza[\w-]{10,}")


def fault(error: BaseException, model: str, secret: str | None = None) -> ModelError:
    """The error to raise instead of `error`; never shows `secret`."""
    cause = getattr(error, "original_exception", None) or error
    text = readable(cause, secret)
    if "repeating the same chunk" in text:
        return ModelRefusedError(f"{model} kept repeating itself and was stopped. {text}")
    if "insufficient_quota" in str(getattr(cause, "body", "")):  # a 429 that waiting won't cure
        return ModelRefusedError(f"{model}: {text}")
    if missing := _MISSING.search(text):
        return ModelRefusedError(
            f"{model} needs the package {missing[1]}: run `%pip install {missing[1]}` and restart "
            "the kernel, or choose another model."
        )
    if isinstance(cause, ImportError):
        return ModelRefusedError(f"{model} needs a package that is not installed: {text}")
    status = _status(cause)
    if 400 <= status < 500 and status not in TRANSIENT:
        return ModelRefusedError(f"{model} refused the request ({status}): {text}")
    for pattern, plain in _PLAIN.items():
        if pattern.search(text):
            return ModelUnavailableError(f"{model}: {plain}")
    answered = status and "Connection" not in type(cause).__name__
    what = f"is not available now ({status})" if answered else "could not be reached"
    return ModelUnavailableError(f"{model} {what}: {text}", retry_after(_headers(cause)))


def readable(error: BaseException, secret: str | None = None) -> str:
    """The provider's own words: no class names, no traceback, no key, at most MAX_CHARS."""
    text = str(getattr(error, "message", "") or error)
    text = _DEBRIS.split(text)[0]
    while (shorter := _PREFIX.sub("", text)) != text:
        text = shorter
    text = _message_in_json(text)
    if secret:
        text = text.replace(secret, "(key)")
    text = " ".join(_KEYS.sub("(key)", text).split())
    if not text:
        return type(error).__name__
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait as the service asked for in Retry-After (seconds or a date), capped."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - (now or datetime.now(UTC))).total_seconds()
    # Written so that NaN fails it.
    return min(max(seconds, 0.0), MAX_WAIT) if seconds > float("-inf") else None


def _status(error: BaseException) -> int:
    try:
        return int(getattr(error, "status_code", None) or 0)
    except (TypeError, ValueError):
        return 0


def _headers(error: BaseException) -> Mapping[str, str]:
    """The response's headers: LiteLLM keeps them beside the response that it makes up."""
    headers = getattr(error, "litellm_response_headers", None)
    return headers or getattr(getattr(error, "response", None), "headers", None) or {}


def _message_in_json(text: str) -> str:
    """The `message` of an error that is told as JSON, otherwise the text."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        told, _ = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return text
    return _find_message(told) or text


def _find_message(told: Any) -> str | None:
    if not isinstance(told, dict):
        return None
    if isinstance(inner := told.get("error"), (dict, str)) and inner:
        return inner if isinstance(inner, str) else _find_message(inner)
    message = told.get("message")
    return message if isinstance(message, str) else None
