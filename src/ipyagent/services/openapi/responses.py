"""Convert a service's reply into a tool result."""

from __future__ import annotations

import json
from collections.abc import Collection
from http import HTTPStatus

from ipyagent.kernel.images import as_image
from ipyagent.phrases import ellipsize
from ipyagent.redaction import HIDDEN
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services.failures import find_failure, parse_object
from ipyagent.services.openapi.transport import ServiceReply

_MAX_PRETTY = 1_000_000
_MAX_ERROR = 1_500
_ENCODINGS = ("utf-8", "iso-8859-1", "windows-1252", "us-ascii", "utf-16")
_TEXTS = ("xml", "yaml", "csv", "javascript", "x-www-form-urlencoded", "graphql", "x-ndjson")


def as_result(
    head: str, reply: ServiceReply, secrets: Collection[str], *, reads: bool = False
) -> ToolResult:
    """Return the reply as the model gets it; `head` names the request.

    An HTTP error is final; a failed command (see `services.failures`) may be repeated.
    """
    images: tuple[ImageContent, ...] = ()
    if reply.media_type in ("image/png", "image/jpeg") and not reply.cut:
        image = as_image(reply.media_type, reply.body)
        images = (image,) if image else ()
    text = "" if images else _body_text(reply)
    for secret in secrets:  # some services echo the request
        text = text.replace(secret, HIDDEN)
    if not reply.ok:
        detail = f": {ellipsize(text, _MAX_ERROR)}" if text else ""
        failure = ToolResult.failure(f"{head}: {_status_text(reply.status)}{detail}")
        return failure.model_copy(update={"repeatable": False})
    body = parse_object(text) if reply.media_type.endswith("json") else None
    if reported := find_failure(body, reads=reads):
        return ToolResult(success=False, output=text, error=f"{head}: {reported}")
    return ToolResult(output=text or _status_text(reply.status), images=images)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _body_text(reply: ServiceReply) -> str:
    kind = reply.media_type
    cut = f"\n… cut after {len(reply.body):,} bytes" if reply.cut else ""
    if kind.endswith("json"):
        return _pretty(_decode_body(reply)) + cut
    if not reply.body:
        return ""
    if not kind or kind.startswith("text/") or kind.endswith(_TEXTS):
        return _decode_body(reply) + cut
    more = "more than " if reply.cut else ""
    return f"({more}{len(reply.body):,} bytes of {kind[:80]}, which are not shown)"


def _decode_body(reply: ServiceReply) -> str:
    _, _, charset = str(reply.headers.get("Content-Type", "")).lower().partition("charset=")
    name = charset.split(";")[0].strip(" \"'")
    return reply.body.decode(name if name in _ENCODINGS else "utf-8", "replace")


def _pretty(text: str) -> str:
    """Return JSON with one value per line, or unchanged if that is too long."""
    pretty, length = [], 0
    try:
        for piece in json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(json.loads(text)):
            pretty.append(piece)
            length += len(piece)
            if length > _MAX_PRETTY:
                return text
    except (ValueError, RecursionError):
        return text
    return "".join(pretty)
