"""Requests to models over our own HTTP client, and the protocol of their formats.

The conversation is kept as bytes: each message is serialized once.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from ipyagent.digests import digest_text
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.service_client import Joiner
from ipyagent.llm.service_error import ServiceError, find_error, leave_out
from ipyagent.llm.wire import is_sent, own_thoughts
from ipyagent.providers import Provider
from ipyagent.schema import Message, Role, StreamChunk, TokenUsage

_FINISHES = {
    "tool_calls": re.compile("tool_use|function_call"),
    "length": re.compile("length|max.*tokens|max_output|model_length|model_context_window_ex"),
    "content_filter": re.compile(
        "content_filter|refusal|safety|sensitive|recitation|prohibited|blocklist|guardrail"
    ),
}
"""Other words for OpenAI's reasons to end a reply."""
_BROKEN = re.compile("error|abort|cancel|interrupt|insufficient")
"""Words that stand for no end: the service gave the reply up."""

_NONE = {"null", "none", "finish_reason_unspecified"}
"""Words that say, with each piece of a reply, that it goes on."""

LENGTH = "max_tokens"
"""The name under which a length limit is omitted, whatever a format calls it."""

ANSWER = "answer"
"""The name under which the format of an answer is omitted: a tool takes its place."""

NO_THOUGHT = " "
"""Stands for the thought of a call that had none, where services want one and not an empty one."""

_LONGEST_INDEX = 10


class Demand(Enum):
    """A wish of some services about requests."""

    ALL_THOUGHTS = auto()
    """The thoughts of all answers, also unsigned ones."""
    ANSWERED_RESULTS = auto()
    """An answer between results and the user's words: Mistral's models."""
    SIGNED_CALLS = auto()
    """A signature of the first call of each answer: Gemini's models."""
    NO_EFFORT = auto()
    """No reasoning where there are tools: newer models of OpenAI's in the chat format."""
    RESPONSES = auto()
    """The Responses format."""


@dataclass(frozen=True)
class Target:
    """The model as its service knows it."""

    name: str
    """The model's id at the service."""
    provider: Provider
    vision: bool
    longest: int | None
    """Tokens of its longest reply, if known."""
    maker: str = ""
    """Whose signed and encrypted thoughts it is sent."""
    refused: frozenset[str] = frozenset()
    """Digests of the parts of a conversation that it refused."""
    demands: frozenset[Demand] = frozenset()
    """The demands that it has made of a conversation."""

    def limit(self, tokens: int) -> int:
        """Return a reply's limit: more than its longest reply would be refused."""
        return tokens if self.longest is None else min(tokens, self.longest)

    def fit_id(self, call_id: str) -> str:
        """Return a call's id, or one that the provider accepts in place of another's."""
        pattern = self.provider.call_ids
        if not pattern or re.fullmatch(pattern, call_id):
            return call_id
        return digest_text(call_id)[:9]


class Reader(ABC):
    """Reads one reply. Parts that break the format are skipped, as long as that is safe.

    An error after the end of a reply changes nothing: what was complete stays complete. A call that
    comes after a finish shows that it was none, until the next.
    """

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None
        """The tokens of the whole request, as soon as they are known."""
        self.cost_usd: float | None = None
        """Its price, where the service says it, as LiteLLM's proxy does."""
        self.is_finished = False
        """True once the service said why the reply ended: without that it is cut off."""
        self.was_finished = False
        """True once it said so, whatever came then."""
        self.may_end = False
        """True if a reply that ends in order here is complete, also without a reason."""
        self.is_counted = False
        """True once tokens were counted after the finish: nothing else is waited for."""
        self.is_over = False
        """True once the service said that nothing follows."""
        self.has_words = False
        """True once there was a part of a reply."""
        self.is_refusal = False
        """True once the model's words were marked as a refusal."""
        self.reason: Any = None
        """An error that came without being marked as one, in an event that is no part of it."""
        self._join = Joiner()

    def read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event; raises ServiceError for an error that it reports."""
        counted, is_late, is_empty = self.usage, self.was_finished, True
        try:
            for chunk in self._read(event):
                is_empty = False
                self.has_words = self.has_words or chunk.type != "finish"
                if is_late and chunk.type == "tool_call":
                    self.is_finished = self.is_counted = False
                yield chunk
        except ServiceError:
            if not (self.is_finished and self.has_words):
                raise
            self.is_over = True
        self.was_finished = self.was_finished or self.is_finished
        self.is_counted = self.is_counted or (is_late and self.usage is not counted)
        self.reason = (find_error(event) or self.reason) if is_empty else None

    @abstractmethod
    def _read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""

    def _finish_by(self, word: str) -> Iterator[StreamChunk]:
        """Yield a service's reason to end the reply in OpenAI's words; raises for none."""
        plain = word.lower()
        if plain in _NONE:
            return
        if _BROKEN.search(plain):
            told = {"message": f"the service ended the reply as {word!r}", "type": "server_error"}
            raise ServiceError.in_stream(self.reason or told)
        plain = "refusal" if self.is_refusal else plain
        known = (name for name, words in _FINISHES.items() if words.match(plain))
        self.is_finished = True
        yield StreamChunk(type="finish", data=next(known, word))

    @abstractmethod
    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece; None if the body is none."""

    def end(self) -> Iterator[StreamChunk]:
        """Yield the chunks held back."""
        yield from ()


class Format(ABC):
    """A wire format, for one model, with its provider's deviations."""

    path: ClassVar[str]
    """The path of its requests, behind the provider's address."""
    headers: ClassVar[dict[str, str]] = {}
    """Headers besides the key's."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._history = EncodedHistory(self._encode_messages, target)

    @abstractmethod
    def encode(self, request: ModelRequest, *, stream: bool, omitted: frozenset[str]) -> bytes:
        """Return the body: first all that stays the same, the messages, then changing settings.

        `omitted` are settings that the service refuses.
        """

    def takes_answer(self, request: ModelRequest) -> bool:
        """Return whether the service takes the format of an answer with this request."""
        return self._target.provider.structured or not request.tools

    @abstractmethod
    def reader(self) -> Reader:
        """Return a reader for the reply."""

    @abstractmethod
    def _encode_messages(self, messages: Sequence[Message]) -> Iterable[JsonDict]:
        """Return the wire form of messages."""


def text_of(value: object) -> str:
    """Return a text, "" for anything that is none."""
    return value if isinstance(value, str) else ""


def objects_of(value: object) -> list[JsonDict]:
    """Return the objects of a JSON array; some services send a single one as it is."""
    each_of = value if isinstance(value, list) else [value]
    return [each for each in each_of if isinstance(each, dict)]


def count_of(value: object) -> int | None:
    """Return an index, None for anything that is none; some servers send it as a text."""
    text = str(value) if isinstance(value, (int, str)) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST_INDEX else None


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
