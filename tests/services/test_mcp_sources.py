"""The sources that name servers, their precedence and their trust."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import MCPServerConfig, trust
from ipyagent.config.trust import trust_file
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.mcp.sources import ServerSources
from servers.mcp_lab import MCPLab, named


def write(path: Path, **servers: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def program(place: MCPLab, how: str, **more: Any) -> dict[str, Any]:
    command, *args = place.words(how)
    return {"command": command, "args": args, **more}


@pytest.mark.spec("M28", "A23")
async def test_a_server_named_by_the_folder_starts_only_after_trust(place: MCPLab) -> None:
    write(place.home / "mcp.json", mine=program(place, "good"))
    servers = place.servers()
    tools, (notice,) = await servers.tools()
    assert tools == []
    assert "`%agent trust`" in notice
    assert " ".join(place.words("good")) in notice
    assert "not trusted" in servers.describe_servers()
    assert place.heard("good") == []
    trust(place.home)
    tools, notices = await servers.tools()
    assert (list(named(tools)), notices) == (["mcp_mine_echo"], [])
    write(place.home / "mcp.json", mine=program(place, "garbage"))
    tools, (notice,) = await servers.tools()
    assert tools == []
    assert place.heard("garbage") == []


async def test_the_first_source_that_names_a_server_wins(place: MCPLab, own_folders: Path) -> None:
    own = own_folders / "config" / "ipyagent" / "mcp.json"
    place.servers().add("d", place.words("good"), {})
    write(own, a=program(place, "good"), b=program(place, "garbage"), d=program(place, "odd"))
    write(place.home / "mcp.json", a=program(place, "dies"), c=program(place, "mutates-name"))
    write(place.home / ".mcp.json", c=program(place, "dies"))
    trust(place.home)
    tools, notices = await place.servers(place.raw("fails", "b")).tools()
    assert list(named(tools)) == ["mcp_b_echo", "mcp_d_echo", "mcp_a_echo", "mcp_c_echo"]
    for who, first in (
        (f"{own}: the MCP server b", "mcp.servers"),
        (f"{own}: the MCP server d", "%agent mcp add"),
        ("mcp.json: the MCP server a", str(own)),
        (".mcp.json: the MCP server c", "mcp.json"),
    ):
        assert any(n.startswith(who) and f"because {first} names" in n for n in notices)
    assert place.heard("dies") == []


@pytest.mark.spec("A23")
async def test_services_of_another_kind_are_not_connected_to(place: MCPLab) -> None:
    service = MCPServerConfig(name="shop", kind="openapi", url="http://127.0.0.1:9")
    assert await place.servers(service).tools() == ([], [])


@pytest.mark.spec("M28")
async def test_a_disabled_server_is_not_started(place: MCPLab) -> None:
    servers = place.servers(place.raw("good", disabled=True))
    assert await servers.tools() == ([], [])
    assert " off " in servers.describe_servers()
    assert place.heard("good") == []


async def test_an_unset_variable_affects_only_its_server(place: MCPLab, own_folders: Path) -> None:
    needs = program(place, "odd", env={"TOKEN": "${NOT_SET}"})
    write(own_folders / "config/ipyagent/mcp.json", needs=needs, good=program(place, "good"))
    servers = place.servers()
    tools, (notice,) = await servers.tools()
    assert list(named(tools)) == ["mcp_good_echo"]
    assert "the environment variable NOT_SET is not set" in notice
    place.environ["NOT_SET"] = "now"
    assert len((await servers.tools())[0]) > 5
    assert place.heard("odd")[0]["TOKEN"] == "now"


@pytest.mark.parametrize("name", ["mcp.json", ".mcp.json"])
async def test_an_invalid_file_of_the_folder_is_reported_and_does_no_harm(
    place: MCPLab, name: str
) -> None:
    (place.home / name).write_text('{"mcpServers": {,}}')
    tools, (notice,) = await place.servers(place.raw("good")).tools()
    assert len(tools) == 1
    assert f"{name} is not JSON" in notice
    (place.home / name).unlink()
    (place.home / name).mkdir()
    tools, (notice,) = await place.servers(place.raw("good")).tools()
    assert len(tools) == 1
    assert f"{name} is not a file" in notice


async def test_programs_get_a_small_environment_without_keys(place: MCPLab) -> None:
    await place.tools(place.raw("good", env={"MINE": "given"}))
    (environ, *_) = place.heard("good")
    assert environ["MINE"] == "given"
    assert "SOME_API_KEY" not in environ
    known = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert environ.keys() <= known | {"MINE", "LC_CTYPE", "PWD"}


async def test_programs_start_in_the_notebooks_folder_or_in_their_own(
    place: MCPLab,
) -> None:
    (place.home / "inner").mkdir()
    script = place.home / "inner" / "here.sh"
    script.write_text("#!/bin/sh\npwd >&2\nexit 1\n")
    script.chmod(0o700)
    for cwd, command in ((None, "./inner/here.sh"), ("inner", "./here.sh")):
        config = MCPServerConfig(name="s", command=command, cwd=cwd)
        _, (notice,) = await place.servers(config).tools()
        assert f"its last output: {place.home / (cwd or '')}" in notice


async def test_choices_belong_to_one_folder_and_are_stored_with_the_user(
    place: MCPLab, own_folders: Path
) -> None:
    place.servers().add("s", ["npx", "x"], {})
    assert sorted(place.home.iterdir()) == []
    assert "npx x" in place.servers().describe_servers()
    other = place.root / "other"
    other.mkdir()
    assert "npx" not in MCPServers(ServerSources(other, other, os.environ)).describe_servers()
    file = own_folders / "data" / "ipyagent" / "mcp-servers.json"
    file.write_text("{")
    servers = place.servers(place.raw("good"))  # it may have been switched off
    tools, (notice,) = await servers.tools()
    assert tools == []
    assert "is not the JSON that ipyagent wrote" in notice
    assert notice in servers.describe_servers()
    assert place.heard("good") == []


@pytest.mark.parametrize("changed", ["nothing", "own", "added", "folder", "trust", "settings"])
def test_the_sources_are_read_again_only_after_a_change(
    place: MCPLab, own_folders: Path, changed: str
) -> None:
    own = own_folders / "config" / "ipyagent" / "mcp.json"
    write(own, a=program(place, "good"))
    write(place.home / "mcp.json", b=program(place, "good"))
    trust(place.home)
    configured: list[MCPServerConfig] = []
    servers = MCPServers(ServerSources(place.home, place.home, os.environ, configured))
    before, _ = servers.sources.collect()
    match changed:
        case "own":
            write(own, a=program(place, "dies"))
        case "added":
            servers.add("c", place.words("good"), {})
        case "folder":
            write(place.home / "mcp.json", b=program(place, "dies"))
        case "trust":
            trust_file().unlink()
        case "settings":
            configured.append(place.raw("good", "d"))
    after, _ = servers.sources.collect()
    assert (after["a"] is before["a"]) is (changed == "nothing")
    names = {"added": {"a", "b", "c"}, "settings": {"a", "b", "d"}}.get(changed, {"a", "b"})
    assert set(after) == names
    assert after["b"].trusted is (changed not in ("folder", "trust"))
    assert ("dies" in after["a"].description) is (changed == "own")
