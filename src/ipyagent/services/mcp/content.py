"""What a server answered, as the result of a tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import mcp_types as types

from ipyagent.kernel.images import as_image
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services.failures import parse_object, reported_failure

_MOST_TEXT = 2_000_000  # characters
_MOST_IMAGES = 8
_PICTURES = ("image/png", "image/jpeg")


def result_of(answer: types.CallToolResult, *, reads: bool = False) -> ToolResult:
    """Return the result of a call.

    It failed where the server calls it an error, or reports one (see `services.failures`) in its
    structured content, or in a text that is a JSON object.
    """
    texts, images = _split(answer.content)
    if not any(texts) and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    text = _joined(texts)
    if answer.is_error:
        return ToolResult(
            success=False, error=text or "the server says no more than that", images=images
        )
    body = answer.structured_content if answer.structured_content is not None else text
    reported = reported_failure(parse_object(body) if isinstance(body, str) else body, reads=reads)
    return ToolResult(success=not reported, output=text, error=reported, images=images)


def resource_result(answer: types.ReadResourceResult) -> ToolResult:
    """What a resource holds."""
    texts, images = _split(
        types.EmbeddedResource(type="resource", resource=each) for each in answer.contents
    )
    return ToolResult(output=_joined(texts), images=images)


def prompt_result(answer: types.GetPromptResult) -> ToolResult:
    """The messages that a prompt consists of."""
    texts, images = _split(each.content for each in answer.messages)
    return ToolResult(output=_joined([answer.description or "", *texts]), images=images)


def _joined(texts: Iterable[str]) -> str:
    text = "\n".join(filter(None, texts))
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_MOST_TEXT]}\n… {len(text) - _MOST_TEXT:,} more characters were left out"


def _split(blocks: Iterable[object]) -> tuple[list[str], tuple[ImageContent, ...]]:
    texts: list[str] = []
    images: list[ImageContent] = []
    for block in blocks:
        for each in _parts(block, pictures=len(images) < _MOST_IMAGES):
            if isinstance(each, str):
                texts.append(each)
            else:
                images.append(each)
    return texts, tuple(images)


def _parts(block: object, *, pictures: bool) -> Iterator[str | ImageContent]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield _picture(block.mime_type, block.data, pictures)
        case types.AudioContent():
            yield _note("sound", block.mime_type, block.data)
        case types.ResourceLink():
            yield f"[resource {block.uri}: {block.title or block.name}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            yield f"[resource {text.uri}]\n{text.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            yield f"[resource {blob.uri}]"
            yield _picture(blob.mime_type or "bytes", blob.blob, pictures)
        case _:
            yield f"[{type(block).__name__}]"


def _picture(kind: str, data: str, wanted: bool) -> str | ImageContent:
    image = as_image(kind, data) if wanted and kind in _PICTURES else None
    return image or _note("a file" if kind not in _PICTURES else "a picture", kind, data)


def _note(what: str, kind: str, data: str) -> str:
    return f"[{what}, {kind}, {len(data) * 3 // 4:,} bytes: not shown]"
