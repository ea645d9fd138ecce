"""Private names of libraries that the services use, though they may disappear."""

import asyncio
import sys


async def test_asyncio_keeps_the_transport_of_a_process() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    transport = getattr(process, "_transport", None)
    assert isinstance(transport, asyncio.SubprocessTransport), (
        "Process._transport is gone: the pipes of an MCP server stay open while a child of it "
        "lives. Look for a way to close them, and change services/mcp/stdio.py"
    )
    transport.close()
