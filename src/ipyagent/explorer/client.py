"""`offline/explorer` as a client: its replies, streamed word by word."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator

from ipyagent.errors import ModelRefusedError
from ipyagent.explorer.reply import ExplorerReply, reply
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import to_openai, tools_to_openai
from ipyagent.schema import Role, StreamChunk


class ExplorerClient:
    """A client whose answers follow fixed rules, in this process: no key, no network, no cost."""

    gives_up = True
    """It ends at the first failed call, and the run counts as failed."""

    context_window = None

    def __init__(self, model: str = "offline/explorer") -> None:
        self.model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request` word by word; raises ModelRefusedError for a bug of ours."""
        tools = tools_to_openai(request.tools) if request.may_call else []
        try:
            answer = reply(to_openai(request.messages, vision=False), tools)
        except Exception as error:
            # Final: another attempt would meet the same bug.
            raise ModelRefusedError(
                f"{self.model}: the explorer failed: {type(error).__name__}: {error}"
            ) from error
        turn = 1 + sum(message.role is Role.ASSISTANT for message in request.messages)
        for chunk in chunks_of(answer, turn):
            yield chunk
            await asyncio.sleep(0)  # for others to have their turn, and for a stop


def chunks_of(answer: ExplorerReply, turn: int) -> Iterator[StreamChunk]:
    """Yield the pieces of a reply; the turn makes the ids of its calls unique."""
    for word in _words(answer.thinking):
        yield StreamChunk(type="thinking", data=word)
    for word in _words(answer.text):
        yield StreamChunk(type="content", data=word)
    for index, (name, arguments) in enumerate(answer.calls):
        id_ = f"call_{turn}_{index + 1}"
        text = json.dumps(arguments)
        yield StreamChunk(type="tool_call", data=text, index=index, id=id_, name=name)
    yield StreamChunk(type="finish", data="tool_calls" if answer.calls else "stop")


def _words(text: str) -> list[str]:
    """Split into words, each with the space around it."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])
