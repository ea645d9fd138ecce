"""The tools of a server as the agent has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ipyagent.config.keys import told
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema import Preview, ToolResult
from ipyagent.services.mcp.arguments import OfferedArguments
from ipyagent.services.mcp.pins import Description, digest
from ipyagent.services.mcp.server import Server
from ipyagent.services.mcp.thread import ServersThread
from ipyagent.telemetry import trace_ids
from ipyagent.tools.arguments import Arguments, DescribedArguments
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.commands import command_in

READ_RESOURCE, GET_PROMPT = "read_resource", "get_prompt"

_LONGEST = 2_000  # characters of a description
_TEXT = {"type": "string"}
_MOST_LISTED = 200


@dataclass(frozen=True)
class Offer:
    """A tool before it has a name of ours."""

    server: Server
    name: str
    """What the server calls it; of our own two, what we do."""
    description: str
    arguments: Arguments
    run: Callable[[JsonDict], Coroutine[Any, Any, ToolResult]]
    destroys: bool = False
    idempotent: bool = False

    def tool(self, name: str) -> Tool:
        """The tool under that name; every call of it is asked about."""
        server, source = self.server, f"the MCP server {told(self.server.name)}"
        why = f"{source} says that this tool may destroy something" if self.destroys else None

        async def call(**arguments: object) -> ToolResult:
            # A little longer than the limit that is kept there, which says what was late.
            seconds = server.config.execute_timeout + 1
            try:
                return await ServersThread.current().run(self.run(arguments), seconds)
            except TimeoutError:
                problem = "there was no answer in time"
            except (MCPConnectionError, MCPToolCallError) as error:
                raise type(error)(f"{source}: {error}") from None
            raise MCPToolCallError(f"{source}: {problem}")

        return Tool(
            name=name,
            description=self.description,
            function=call,
            arguments=self.arguments,
            sensitive=True,
            where=Where.LOOP,
            preview=lambda **arguments: self._preview(arguments),
            reaches_out=True,
            idempotent=self.idempotent,
            command=command_in(self.arguments.schema),
            source=lambda **_: source,
            always_asks=lambda **_: why,
        )

    def _preview(self, arguments: JsonDict) -> Preview:
        sent = json.dumps(arguments, indent=2, ensure_ascii=False)
        hint = "   it may destroy something" if self.destroys else ""
        head = f"{told(self.name)} of the MCP server {told(self.server.name)}{hint}"
        return Preview(kind="arguments", text=f"{head}\n{visible(sent)}", language="json")


def offer_of(server: Server, tool: Description) -> Offer:
    """A server's tool; raises ConfigError for a schema that cannot be used."""
    name, pin = str(tool["name"]), digest(server.pins.server, tool)
    hints = tool.get("annotations") or {}
    reads = hints.get("readOnlyHint") is True
    return Offer(
        server,
        name,
        _described(server, tool, hints),
        OfferedArguments(dict(tool.get("inputSchema") or {})),
        # Here, since the servers' thread knows nothing of the run.
        lambda arguments: server.call(
            name, pin, arguments, reads=reads, trace_id=trace_ids.current()
        ),
        destroys=hints.get("destructiveHint") is True,
        idempotent=reads or hints.get("idempotentHint") is True,
    )


def resources_of(server: Server) -> Offer:
    """What reads a server's resources. What the server says about them is no part of the prompt."""

    async def read(arguments: JsonDict) -> ToolResult:
        from ipyagent.services.mcp import content, requests

        if uri := arguments.get("uri"):
            return content.resource_result(await server.ask(*requests.read_resource(uri)))
        page = await server.ask(*requests.list_resources())
        return _listed(f"{each.uri}: {each.title or each.name}" for each in page.resources)

    return Offer(
        server,
        READ_RESOURCE,
        f"Read a resource of the MCP server {told(server.name)} by its uri; without one, list "
        "what there is.",
        DescribedArguments({"type": "object", "properties": {"uri": _TEXT}}),
        read,
    )


def prompts_of(server: Server) -> Offer:
    """What fetches a server's prompts."""

    async def fetch(arguments: JsonDict) -> ToolResult:
        from ipyagent.services.mcp import content, requests

        if name := arguments.get("name"):
            request = requests.get_prompt(name, arguments.get("arguments", {}))
            return content.prompt_result(await server.ask(*request))
        page = await server.ask(*requests.list_prompts())
        return _listed(
            f"{each.name}({', '.join(a.name for a in each.arguments or ())}): "
            f"{each.description or each.title or ''}"
            for each in page.prompts
        )

    named = {"type": "object", "additionalProperties": _TEXT}
    return Offer(
        server,
        GET_PROMPT,
        f"Get a prompt of the MCP server {told(server.name)} by its name, with arguments; without "
        "a name, list what there is.",
        DescribedArguments({"type": "object", "properties": {"name": _TEXT, "arguments": named}}),
        fetch,
    )


def _listed(lines: Any) -> ToolResult:
    some = list(lines)
    more = [f"… and {len(some) - _MOST_LISTED} more"] * (len(some) > _MOST_LISTED)
    return ToolResult(output="\n".join([*some[:_MOST_LISTED], *more]) or "There are none.")


def _described(server: Server, tool: Description, hints: Description) -> str:
    """The server's own words, which nothing hides in, and whose they are."""
    said = visible(strip_escapes(str(tool.get("description") or ""))).strip()
    if len(said) > _LONGEST:
        said = said[: _LONGEST - 1] + "…"
    title = told(str(tool.get("title") or hints.get("title") or tool["name"]))[:100]
    claims = [word for key, word in _CLAIMS.items() if hints.get(key) is True]
    says = f" It says that this {' and '.join(claims)}." if claims else ""
    return f"{title}, by the MCP server {told(server.name)}.{says}\n{said}".strip()


_CLAIMS = {
    "readOnlyHint": "only reads",
    "destructiveHint": "may destroy something",
    "openWorldHint": "talks to others",
}
