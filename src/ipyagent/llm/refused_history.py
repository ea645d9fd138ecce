"""The parts of a conversation that its service refuses: what an error names is left out.

A part that is refused once is refused with every later request, so the conversation would be over.
Parts are known by their content, since their places change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Set as AbstractSet

from ipyagent.digests import digest_json
from ipyagent.json_types import JsonDict

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
