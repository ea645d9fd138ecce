"""Agents that are there to be killed, each in a process of its own; their model is elsewhere.

    python agent_process.py PORT        then a folder a line on stdin, a process id a line on stdout

Each agent connects to the port and sends what a model is sent, one JSON line a request. The model
answers with a line that holds a scripted reply.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ipyagent import Agent, Scripted, tool
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import to_openai
from ipyagent.schema import StreamChunk


class Distant:
    """Implements Client: a model in another process."""

    model, context_window = "distant", None

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection: Any = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The model's reply."""
        if self.connection is None:
            self.connection = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        reader, writer = self.connection
        writer.write(json.dumps(to_openai(request.messages, vision=False)).encode() + b"\n")
        await writer.drain()
        reply = json.loads(await reader.readline())
        async for chunk in Scripted([reply], chunk_size=40).stream(request):
            yield chunk


@tool(sensitive=True)
def mark(n: int) -> str:
    """Mark."""
    with Path("marks").open("a") as file:
        file.write(f"{n}\n")
    return f"marked {n}"


@tool(where="thread")
def look(n: int) -> str:
    """Look."""
    return f"looked at {n} " * 20


def live(folder: str) -> None:
    """Work in that folder until the end."""
    os.chdir(folder)
    agent = Agent(
        Distant(int(sys.argv[1])),
        tools=[mark, look],
        session="live",
        confirm_mode="yolo",
        max_steps=10_000,
    )
    agent.ask("Go on for ever.")


if __name__ == "__main__":
    earlier: list[int] = []
    while folder := sys.stdin.readline().strip():
        # A copy of a process that has imported everything: 500 interpreters would take minutes.
        if not (child := os.fork()):
            live(folder)
            os._exit(0)
        print(child, flush=True)
        earlier.append(child)
        earlier = [each for each in earlier if os.waitpid(each, os.WNOHANG) == (0, 0)]
