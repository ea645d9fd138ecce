"""Build requests to a server, and convert its answers into tool results."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

import mcp_types as types

from ipyagent.json_types import JsonDict, parse_json
from ipyagent.kernel.images import as_image
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services import find_failure, parse_object

TRACE_ID = "ipyagent/trace_id"
"""The key in a call's `_meta` that holds the run's trace id."""


def call_tool(
    name: str, arguments: JsonDict, trace_id: str | None = None
) -> tuple[Any, type[types.CallToolResult]]:
    """Return a request for a call; missing arguments are not sent."""
    fields: JsonDict = {"name": name, "arguments": arguments}
    if trace_id:
        fields["_meta"] = {TRACE_ID: trace_id}
    params = types.CallToolRequestParams.model_validate(fields)
    return types.CallToolRequest(params=params), types.CallToolResult


_MAX_TEXT = 2_000_000  # characters
_MAX_IMAGES = 8
_TEXTS = ("text/", "application/json", "application/xml")


def convert_result(answer: types.CallToolResult, *, reads: bool = False) -> ToolResult:
    """Return the result of a call.

    The call failed if the server marks the answer as an error, or reports a failure (see
    `find_failure`) in its structured content, or in a text that is a JSON object.
    """
    texts, images = _convert_blocks(answer.content)
    data = answer.structured_content
    if data is not None and not _hold_data(texts, data):
        texts.append(json.dumps(data, ensure_ascii=False))
    text = _join_texts(texts)
    if answer.is_error:
        return ToolResult(
            success=False,
            error=text or "the server reported an error without a message",
            images=images,
        )
    body = data if data is not None else text
    failure = find_failure(parse_object(body) if isinstance(body, str) else body, reads=reads)
    return ToolResult(success=not failure, output=text, error=failure, images=images)


def _hold_data(texts: list[str], data: JsonDict) -> bool:
    """Return whether the texts are the structured content: as JSON, or one text for each value."""
    text = "".join("".join(texts).split())
    if not data:
        return bool(text)
    if any("".join(json.dumps(data, ensure_ascii=a).split()) in text for a in (True, False)):
        return True
    values = [parse_json(each) for each in texts]
    name, value = next(iter(data.items()))
    # One value is often in an object only because the content has to be one.
    is_wrapped = len(data) == 1 and (name == "result" or isinstance(value, str | list | dict))
    told = value if is_wrapped else data
    return told in (values, texts, *values, *texts)


def _join_texts(texts: Iterable[str]) -> str:
    text = "\n".join(filter(None, texts))
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}\n… {len(text) - _MAX_TEXT:,} more characters were left out"


def _convert_blocks(blocks: Iterable[object]) -> tuple[list[str], tuple[ImageContent, ...]]:
    texts: list[str] = []
    images: list[ImageContent] = []
    for block in blocks:
        for each in _convert_block(block, keep_image=len(images) < _MAX_IMAGES):
            if isinstance(each, str):
                texts.append(each)
            else:
                images.append(each)
    return texts, tuple(images)


def _convert_block(block: object, *, keep_image: bool) -> Iterator[str | ImageContent]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield _convert_image(block.mime_type, block.data, keep_image)
        case types.AudioContent():
            yield _omission_note("sound", block.mime_type, block.data)
        case types.ResourceLink():
            yield f"[resource {block.uri}: {block.title or block.name}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            yield f"[resource {text.uri}]\n{text.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            yield f"[resource {blob.uri}]"
            kind = blob.mime_type or "bytes"
            decoded = _decode_text(blob.blob) if kind.startswith(_TEXTS) else None
            yield decoded or _convert_image(kind, blob.blob, keep_image)
        case _:
            yield f"[{type(block).__name__}]"


def _convert_image(kind: str, data: str, keep: bool) -> str | ImageContent:
    is_image = kind.startswith("image/")
    image = as_image(data) if keep and is_image else None
    return image or _omission_note("a picture" if is_image else "a file", kind, data)


def _decode_text(data: str) -> str | None:
    try:
        return base64.b64decode(data).decode()
    except ValueError:
        return None


def _omission_note(label: str, kind: str, data: str) -> str:
    return f"[{label}, {kind}, {len(data) * 3 // 4:,} bytes: not shown]"
