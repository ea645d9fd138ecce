"""Offer a server's tools, resources and prompts as tools of the agent.

Their names are `mcp_{server}_{tool}`, in characters that every model accepts.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ipyagent.digests import digest_bytes
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.phrases import ellipsize, join_words, limit_lines
from ipyagent.plaintext import cite, clean_text, visible
from ipyagent.schema import Preview, ToolResult
from ipyagent.services.mcp.pins import Description, digest_tool
from ipyagent.services.mcp.server import Server, ServersThread
from ipyagent.telemetry import trace_ids
from ipyagent.tools.argument_schema import ArgumentSchema, JsonArgumentSchema
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


READ_RESOURCE, GET_PROMPT = "read_resource", "get_prompt"

_MAX_DESCRIPTION = 2_000  # characters of a description
_TEXT = {"type": "string"}
_MAX_LISTED = 200


def server_tool(server: Server, tool: Description, name: str) -> Tool:
    """Return one of a server's tools under a name; raises ConfigError for an unusable schema."""
    own_name, pin = str(tool["name"]), digest_tool(server.pins.server, tool)
    hints = tool.get("annotations") or {}
    reads = hints.get("readOnlyHint") is True
    return _make_tool(
        server,
        own_name,
        name,
        _describe_tool(server, tool, hints),
        JsonArgumentSchema(dict(tool.get("inputSchema") or {}), trusted=False),
        # Read here, because the servers' thread does not know the run.
        lambda arguments: server.call(
            own_name, pin, arguments, reads=reads, trace_id=trace_ids.current()
        ),
        destroys=hints.get("destructiveHint") is True,
        idempotent=reads or hints.get("idempotentHint") is True,
    )


def resource_tool(server: Server, name: str) -> Tool:
    """Return the tool that reads a server's resources; the prompt does not describe them."""

    async def read(arguments: JsonDict) -> ToolResult:
        from ipyagent.services.mcp import content

        if uri := arguments.get("uri"):
            return content.convert_resource(await server.ask(*content.read_resource(uri)))
        page = await server.ask(*content.first_page("resources"))
        lines = [f"{each.uri}: {each.title or each.name}" for each in page.resources]
        with contextlib.suppress(MCPToolCallError):  # servers need not know templates
            more = await server.ask(*content.first_page("resource_templates"))
            templates = more.resource_templates
            lines += [f"{each.uri_template}: {each.title or each.name}" for each in templates]
        return _list_result(lines)

    return _make_tool(
        server,
        READ_RESOURCE,
        name,
        f"Read a resource of the MCP server {cite(server.name)} by its uri; without a uri, "
        "list the resources.",
        JsonArgumentSchema({"type": "object", "properties": {"uri": _TEXT}}),
        read,
    )


def prompt_tool(server: Server, name: str) -> Tool:
    """Return the tool that fetches a server's prompts."""

    async def fetch(arguments: JsonDict) -> ToolResult:
        from ipyagent.services.mcp import content

        if prompt := arguments.get("name"):
            request = content.get_prompt(prompt, arguments.get("arguments", {}))
            return content.convert_prompt(await server.ask(*request))
        page = await server.ask(*content.first_page("prompts"))
        return _list_result(
            f"{each.name}({', '.join(a.name for a in each.arguments or ())}): "
            f"{each.description or each.title or ''}"
            for each in page.prompts
        )

    texts = {"type": "object", "additionalProperties": _TEXT}
    return _make_tool(
        server,
        GET_PROMPT,
        name,
        f"Get a prompt of the MCP server {cite(server.name)} by its name, with arguments; without "
        "a name, list the prompts.",
        JsonArgumentSchema({"type": "object", "properties": {"name": _TEXT, "arguments": texts}}),
        fetch,
    )


def _make_tool(
    server: Server,
    own_name: str,
    name: str,
    description: str,
    arguments: ArgumentSchema,
    run: Callable[[JsonDict], Coroutine[Any, Any, ToolResult]],
    *,
    destroys: bool = False,
    idempotent: bool = False,
) -> Tool:
    """Return a tool that runs in the servers' thread; every call of it needs approval."""
    source = f"the MCP server {cite(server.name)}"
    warning = f"{source} says that this tool may destroy something" if destroys else None
    hint = "   it may destroy something" if destroys else ""

    async def call(**arguments: object) -> ToolResult:
        # A little longer than the server's own limit, whose error says more.
        seconds = server.config.execute_timeout + 1
        try:
            return await ServersThread.current().run(run(arguments), seconds)
        except TimeoutError:
            problem = "there was no answer in time"
        except (MCPConnectionError, MCPToolCallError) as error:
            raise type(error)(f"{source}: {error}") from None
        raise MCPToolCallError(f"{source}: {problem}")

    def preview(**arguments: object) -> Preview:
        sent = visible(json.dumps(arguments, indent=2, ensure_ascii=False))
        return Preview(
            kind="arguments", text=f"{cite(own_name)} of {source}{hint}\n{sent}", language="json"
        )

    return Tool(
        name=name,
        description=description,
        function=call,
        arguments=arguments,
        sensitive=True,
        where=Where.LOOP,
        preview=preview,
        reaches_out=True,
        idempotent=idempotent,
        command=find_command(arguments.schema),
        source=lambda **_: source,
        always_asks=lambda **_: warning,
    )


def _list_result(lines: Any) -> ToolResult:
    return ToolResult(output="\n".join(limit_lines([*lines], _MAX_LISTED)) or "There are none.")


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
