"""Offer a server's tools as tools of the agent.

Their names are `mcp_{server}_{tool}`, in characters that every model accepts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

from ipyagent import telemetry
from ipyagent.digests import digest_bytes
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.phrases import ellipsize, join_words
from ipyagent.plaintext import cite, clean_text, visible
from ipyagent.schema import Preview, ToolResult
from ipyagent.services.mcp.pins import Description, digest_tool
from ipyagent.services.mcp.server import Server, ServersThread
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import Tool, Where, find_command

_MAX_NAME = 64
_MARK_LENGTH = 9  # "_" and eight digits of a hash

Pair = tuple[str, str]
"""The original names of a server and a tool."""


def tool_names(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Return a name for each pair, independent of their order.

    A changed name always gets a mark, even if it is unique: a name that was allowed once must not
    pass to another tool later.
    """
    names = {pair: re.sub(r"[^a-zA-Z0-9_-]", "_", _full_name(pair))[:_MAX_NAME] for pair in pairs}
    exact = Counter(name for pair, name in names.items() if name == _full_name(pair))
    return {
        pair: name if name == _full_name(pair) and exact[name] == 1 else _mark_name(pair, name)
        for pair, name in names.items()
    }


def _full_name(pair: Pair) -> str:
    return f"mcp_{pair[0]}_{pair[1]}"


def _mark_name(pair: Pair, name: str) -> str:
    identity = f"{len(pair[0])}:{pair[0]}:{pair[1]}".encode("utf-8", "surrogatepass")
    return f"{name[: _MAX_NAME - _MARK_LENGTH]}_{digest_bytes(identity)[: _MARK_LENGTH - 1]}"


_MAX_DESCRIPTION = 2_000  # characters of a description


def server_tool(server: Server, tool: Description, name: str) -> Tool:
    """Return one of a server's tools under a name; raises ConfigError for an unusable schema.

    It runs in the servers' thread; every call of it needs approval.
    """
    own_name, pin = str(tool["name"]), digest_tool(server.pins.server, tool)
    hints = tool.get("annotations") or {}
    reads, destroys = (hints.get(f"{each}Hint") is True for each in ("readOnly", "destructive"))
    arguments = JsonArgumentSchema(dict(tool.get("inputSchema") or {}), trusted=False)
    source = f"the MCP server {cite(server.name)}"
    warning = f"{source} says that this tool may destroy something" if destroys else None
    hint = "   it may destroy something" if destroys else ""

    async def call(**given: object) -> ToolResult:
        # Read here, because the servers' thread does not know the run.
        trace_id = telemetry.current_trace_id()
        work = server.call(own_name, pin, given, reads=reads, trace_id=trace_id)
        try:
            # A little longer than the server's own limit, whose error says more.
            return await ServersThread.current().run(work, server.config.execute_timeout + 1)
        except TimeoutError:
            raise MCPToolCallError(f"{source}: there was no answer in time") from None
        except (MCPConnectionError, MCPToolCallError) as error:
            raise type(error)(f"{source}: {error}") from None

    def preview(**given: object) -> Preview:
        sent = visible(json.dumps(given, indent=2, ensure_ascii=False))
        return Preview(
            kind="arguments", text=f"{cite(own_name)} of {source}{hint}\n{sent}", language="json"
        )

    return Tool(
        name=name,
        description=_describe_tool(server, tool, hints),
        function=call,
        arguments=arguments,
        sensitive=True,
        where=Where.LOOP,
        preview=preview,
        reaches_out=True,
        idempotent=reads or hints.get("idempotentHint") is True,
        command=find_command(arguments.schema),
        source=lambda **_: source,
        always_asks=lambda **_: warning,
    )


def _describe_tool(server: Server, tool: Description, hints: Description) -> str:
    """Return the server's own description, made safe, and attributed to the server."""
    text = ellipsize(clean_text(str(tool.get("description") or "")).strip(), _MAX_DESCRIPTION)
    title = cite(str(tool.get("title") or hints.get("title") or tool["name"]))[:100]
    claims = [word for key, word in _CLAIMS.items() if hints.get(key) is True]
    says = f" It says that this {join_words(claims)}." if claims else ""
    return f"{title}, by the MCP server {cite(server.name)}.{says}\n{text}".strip()


_CLAIMS = {
    "readOnlyHint": "only reads",
    "destructiveHint": "may destroy something",
    "openWorldHint": "talks to others",
}
