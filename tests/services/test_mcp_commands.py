"""The command `%agent mcp`."""

import shlex
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ipyagent.agent.session.session import Session
from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import mcp as run
from ipyagent.services.mcp.servers import MCPServers
from servers.mcp_lab import MCPLab, named


def book(servers: MCPServers) -> Notebook:
    """Return the parts of a notebook that the commands use."""
    services = SimpleNamespace(mcp=servers)
    sessions = SimpleNamespace(get=Session)
    return cast("Notebook", SimpleNamespace(services=services, sessions=sessions))


@pytest.mark.spec("A23", "P11")
@pytest.mark.parametrize(("add", "remove"), [("add", "remove"), ("register", "delete")])
async def test_a_server_is_added_used_switched_off_and_on_and_removed(
    place: MCPLab, add: str, remove: str
) -> None:
    servers = place.servers()

    async def tools() -> list[str]:
        return list(named((await servers.tools())[0]))

    line = shlex.join(place.words("good"))
    said = run(book(servers), f"{add} files {line} --env SOME_API_KEY")
    assert said.splitlines() == [
        "files is added. The next cell starts this program:",
        f"  {line}   with SOME_API_KEY=${{SOME_API_KEY}}",
    ]
    assert place.heard("good") == []
    assert await tools() == ["mcp_files_echo"]
    assert place.heard("good")[0]["SOME_API_KEY"] == "sk-canary-7"
    (row,) = run(book(servers), "list").splitlines()
    assert row.split()[:4] == ["files", "connected", "1", "tool"]
    assert line in row
    run(book(servers), "deactivate files")
    assert await tools() == []
    assert " off " in run(book(servers), "")
    assert await tools_of(place) == []
    run(book(servers), "activate files")
    assert await tools() == ["mcp_files_echo"]
    assert "connected and offers 1 tool" in run(book(servers), "refresh")
    run(book(servers), f"{remove} files")
    assert await tools() == []
    assert run(book(servers), "list").startswith("no MCP servers")


async def tools_of(place: MCPLab) -> list[Any]:
    """Return the tools of another kernel in the same folder."""
    return (await place.servers().tools())[0]


def test_options_may_be_anywhere_before_two_dashes(place: MCPLab) -> None:
    place.environ |= {"A": "1", "B": "2"}
    servers = place.servers()
    said = run(book(servers), "add x npx -y pkg --env A --env B")
    assert said.endswith("npx -y pkg   with A=${A} B=${B}")
    assert run(book(servers), "add y -- npx --env C --sse").endswith("npx --env C --sse")
    said = run(book(servers), "add z https://h/mcp --sse --token-env A --header-env X-Key=B")
    assert said.splitlines() == ["z is added. The next cell connects to:", "  https://h/mcp"]
    config = servers.sources.collect()[0]["z"].config()
    assert (config.transport, config.token_env, config.header_env) == ("sse", "A", {"X-Key": "B"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fly", "there are: add, list"),
        ("add", r"usage: %agent mcp add NAME URL\|COMMAND"),
        ("add x", "name the server's address"),
        ("add x npx --env", "--env needs a value"),
        ("add x npx --env NOT_SET", "NOT_SET is not set"),
        ("add x ftp://h", "not an address"),
        ("add x https://h more", "only options may follow"),
        ("add x https://u:p@h", "must not hold a name or password"),
        ("add x npx --sse", "stdio"),
        ("add mine npx", r"there is an MCP server mine already, in mcp\.servers"),
        ("remove mine", r"named in mcp\.servers; remove it there"),
        ("remove nobody", "there is no MCP server nobody; there are: mine"),
        ("refresh a b", r"usage: %agent mcp refresh \[NAME\] \[--accept\]$"),
        ("add 'x", "No closing quotation"),
    ],
)
def test_a_wrong_command_line_is_an_error(place: MCPLab, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run(book(place.servers(place.raw("good", "mine"))), line)


async def test_refresh_tries_failed_servers_again(place: MCPLab) -> None:
    servers = place.servers(place.raw("dies"))
    await servers.tools()
    assert "no licence found" in run(book(servers), "list")
    assert "no licence found" in run(book(servers), "refresh raw")
    assert len(place.heard("dies")) == 2
