"""The conversation as bytes: each message is serialized once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import Target
from ipyagent.llm.refused_history import leave_out
from ipyagent.llm.wire import is_sent, own_thoughts
from ipyagent.schema import Message, Role

Encode = Callable[[Sequence[Message]], Iterable[JsonDict]]
"""Returns the wire form of messages; those after an answer do not change those before it."""


def dump(value: object) -> bytes:
    """Return compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def join_body(
    head: JsonDict, name: str, items: bytes, tail: JsonDict, omitted: AbstractSet[str]
) -> bytes:
    """Return a JSON object: `head`, an array of encoded items under `name`, then `tail`."""
    start, end = (
        dump({key: value for key, value in part.items() if key not in omitted})
        for part in (head, tail)
    )
    rest = b"}" if end == b"{}" else b"," + end[1:]
    return b"".join((start[:-1], b',"', name.encode(), b'":[', items, b"]", rest))


class EncodedHistory:
    """Encodes conversations of which each usually extends the last one."""

    def __init__(self, encode: Encode, target: Target) -> None:
        self._encode, self._target = encode, target
        self._messages: tuple[Message, ...] = ()
        self._bytes = b""

    def join(self, messages: tuple[Message, ...]) -> bytes:
        """Return the items of a JSON array, joined by commas."""
        known = len(self._messages)
        if messages[:known] != self._messages:  # equal ones are mostly identical, which is quick
            self._messages, self._bytes, known = (), b"", 0
        settled = _count_settled(messages)
        if settled > known:
            self._bytes = _join(self._bytes, self._dump(messages[known:settled]))
            self._messages = messages[:settled]
        return _join(self._bytes, self._dump(messages[len(self._messages) :]))

    def _dump(self, messages: Sequence[Message]) -> bytes:
        items = self._encode([*own_thoughts(messages, self._target.maker)])
        return b",".join(map(dump, leave_out(items, self._target.refused)))


def _count_settled(messages: Sequence[Message]) -> int:
    """Return how many messages are final on the wire: user messages can grow until an answer."""
    for number in range(len(messages), 0, -1):
        message = messages[number - 1]
        if message.role is Role.ASSISTANT and is_sent(message):
            return number
    return 0


def _join(*parts: bytes) -> bytes:
    return b",".join(filter(None, parts))
