"""LiteLLM's replies in our chunks, whether they came in pieces or as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ipyagent.llm.surrogates import Joiner
from ipyagent.schema import StreamChunk, TokenUsage
from ipyagent.schema.arguments import well_formed

THOUGHT = "__thought__"  # LiteLLM puts Gemini's signature of a call behind this, into the call's id


class ReplyReader:
    """Reads one reply, piece by piece; `price` is asked what LiteLLM's count of tokens costs."""

    def __init__(self, price: Callable[[Any], float | None]) -> None:
        self._price = price
        self._join = Joiner()
        self.has_read = False
        """Whether anything was said yet."""

    def read(self, piece: Any, finish: str | None) -> Iterator[StreamChunk]:
        """One piece of a stream, or a whole reply, in chunks; `finish` is the provider's word."""
        for choice in piece.choices[:1]:
            said = choice.delta if hasattr(choice, "delta") else choice.message
            yield from self._thinking(said)
            if text := said.content:
                self.has_read = True
                yield StreamChunk(type="content", data=self._join("content", text))
            for number, call in enumerate(getattr(said, "tool_calls", None) or ()):
                self.has_read = True
                yield from self._call(call, number)
            if meaning := choice.finish_reason:
                # To LiteLLM, a word that it doesn't know means `stop`.
                word = finish if finish and meaning == "stop" else meaning
                yield StreamChunk(type="finish", data=word)
        if usage := getattr(piece, "usage", None):
            yield StreamChunk(type="usage", usage=tokens(usage), cost_usd=self._price(usage))

    def _thinking(self, said: Any) -> Iterator[StreamChunk]:
        blocks = getattr(said, "thinking_blocks", None) or ()
        # The same thought comes as a block too where the provider has such.
        if not any(block.get("thinking") for block in blocks):
            yield from self._thought(getattr(said, "reasoning_content", None))
        for block in blocks:
            yield from self._thought(block.get("thinking"))
            if signature := block.get("signature"):
                yield StreamChunk(type="signature", data=signature)
            if encrypted := block.get("data"):
                yield StreamChunk(type="signature", data=encrypted, name="encrypted")

    def _thought(self, text: str | None) -> Iterator[StreamChunk]:
        if text:
            yield StreamChunk(type="thinking", data=self._join("thinking", text))

    def _call(self, call: Any, number: int) -> Iterator[StreamChunk]:
        index = getattr(call, "index", None)
        index = number if index is None else index
        id_, _, signature = (call.id or "").partition(THOUGHT)
        arguments = self._join(("call", index), call.function.arguments or "")
        name = well_formed(call.function.name or "")
        yield StreamChunk(
            type="tool_call", data=arguments, index=index, id=well_formed(id_), name=name
        )
        if signature:
            yield StreamChunk(type="signature", data=signature, index=index, name="call")


def tokens(usage: Any) -> TokenUsage:
    """LiteLLM's count in ours: the prompt includes cached tokens, the total is never trusted."""
    details = getattr(usage, "prompt_tokens_details", None)
    read = _count(details, "cached_tokens") or _count(usage, "cache_read_input_tokens")
    created = _count(details, "cache_creation_tokens")
    created = created or _count(usage, "cache_creation_input_tokens")
    return TokenUsage(
        prompt_tokens=max(_count(usage, "prompt_tokens"), read + created),
        completion_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=read,
        cache_creation_tokens=created,
    )


def _count(source: Any, name: str) -> int:
    """The number there, 0 for what is no count."""
    value = getattr(source, name, None)
    return value if isinstance(value, int) and value > 0 else 0
