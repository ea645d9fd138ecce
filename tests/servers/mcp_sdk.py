"""An MCP server written with the official SDK: a program as `python mcp_sdk.py`, or on loopback.

with serving("http") as address:
    ...
"""

import asyncio
import base64
import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


def server() -> Any:
    """One with tools of several kinds."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Image
    from mcp_types import ToolAnnotations

    made = MCPServer("demo")

    @made.tool(annotations=ToolAnnotations(title="Add up", read_only_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @made.tool()
    def picture() -> Image:
        """Draw a pixel."""
        return Image(data=PIXEL, format="png")

    @made.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no such city")

    return made


@contextlib.contextmanager
def served(app: Any, port: int = 0) -> Iterator[str]:
    """An ASGI app on loopback, in a thread of its own; its address."""
    import uvicorn

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()  # from here on who connects waits, instead of being refused
        running = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, ws="none")
        )

        async def serve() -> None:
            await running.serve([listening])
            for each in list(running.server_state.connections):
                each.transport.abort()
            await asyncio.sleep(0.05)  # what is being closed needs the loop once more

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join(60)


@contextlib.contextmanager
def serving(what: str) -> Iterator[str]:
    """The server in a process of its own, by "http" or "sse"; its address."""
    command = [sys.executable, __file__, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http"]:
            app = server().streamable_http_app()
        case ["sse"]:
            app = server().sse_app()
        case _:
            server().run("stdio")
            sys.exit()
    with served(app) as address:
        print(f"{address}/{'mcp' if sys.argv[1] == 'http' else 'sse'}", flush=True)
        signal.pause()
