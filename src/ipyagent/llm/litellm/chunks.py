"""Convert LiteLLM's replies, streamed or whole, into our chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ipyagent.json_arguments import well_formed
from ipyagent.llm.reply_parts import Joiner, count_tokens
from ipyagent.schema import StreamChunk, TokenUsage

THOUGHT = "__thought__"  # LiteLLM puts Gemini's signature of a call behind this, into the call's id


class ReplyReader:
    """Reads one reply, piece by piece; `price` returns the cost of a token count."""

    def __init__(self, price: Callable[[TokenUsage], float | None]) -> None:
        self._price = price
        self._join = Joiner()
        self.has_read = False
        """True once anything was read."""

    def read(self, piece: Any, finish: str | None) -> Iterator[StreamChunk]:
        """Yield the chunks of a piece or a whole reply; `finish` is the provider's word."""
        for choice in piece.choices:
            delta = choice.delta if hasattr(choice, "delta") else choice.message
            yield from self._thinking(delta)
            if text := delta.content:
                self.has_read = True
                yield StreamChunk(type="content", data=self._join("content", text))
            for number, call in enumerate(getattr(delta, "tool_calls", None) or ()):
                self.has_read = True
                yield from self._call(call, number)
            if meaning := choice.finish_reason:
                # To LiteLLM, a word that it doesn't know means `stop`.
                word = finish if finish and meaning == "stop" else meaning
                yield StreamChunk(type="finish", data=word)
        if usage := getattr(piece, "usage", None):
            counts = count_tokens(usage)
            yield StreamChunk(type="usage", usage=counts, cost_usd=self._price(counts))

    def _thinking(self, delta: Any) -> Iterator[StreamChunk]:
        blocks = getattr(delta, "thinking_blocks", None) or ()
        # Some providers send the same thought as a block too.
        if not any(block.get("thinking") for block in blocks):
            yield from self._thought(getattr(delta, "reasoning_content", None))
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
