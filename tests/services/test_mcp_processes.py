"""Server processes end with the kernel, and the SDK is optional."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE, until
from servers.mcp_lab import RAW, gone

KERNEL = """
import asyncio, os, sys
from pathlib import Path
from ipyagent.config import MCPServerConfig
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.mcp.sources import ServerSources
raw, log, home, *hows = sys.argv[1:]
configs = [
    MCPServerConfig(name=how, command=sys.executable, args=["-IS", raw, how, log]) for how in hows
]
servers = MCPServers(ServerSources(Path(home), Path(home), os.environ, configs))
tools, notices = asyncio.run(servers.tools())
print(len(tools), *notices, flush=True)
"""


def kernel(tmp_path: Path, *hows: str, code: str = "", before: str = "") -> subprocess.Popen[str]:
    """Start a process that uses such servers and then runs `code`."""
    words = [str(RAW), str(tmp_path / "log"), str(tmp_path), *hows]
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-c", before + KERNEL + code, *words],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def pids(tmp_path: Path) -> list[int]:
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return next(each["pids"] for each in said if "pids" in each)


@pytest.mark.slow
async def test_servers_end_with_the_kernel_and_print_nothing(
    tmp_path: Path,
) -> None:
    with kernel(tmp_path, "stubborn", "garbage", "dies", "flood-stderr") as process:
        said, errors = process.communicate(timeout=PATIENCE)
    assert (errors, process.returncode) == ("", 0)
    assert said.startswith("3 The MCP server dies has no tools now")
    assert len(said.splitlines()) == 1
    await until(lambda: all(map(gone, pids(tmp_path))))


async def test_servers_end_when_the_kernel_is_killed(tmp_path: Path) -> None:
    with kernel(tmp_path, "stubborn", code="sys.stdin.read()") as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        server, child = pids(tmp_path)
        assert not gone(server)
        process.kill()
        process.communicate(timeout=PATIENCE)
    await until(lambda: gone(server))
    os.kill(child, signal.SIGKILL)  # what a server starts itself is its own affair then


def test_without_the_sdk_there_is_one_notice(tmp_path: Path) -> None:
    before = "import sys; sys.modules['mcp'] = None\n"
    with kernel(tmp_path, "good", before=before) as process:
        said, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    assert said.startswith("0 MCP servers need the MCP SDK")
    assert said.endswith("pip install 'ipyagent[mcp]'\n")
    assert not (tmp_path / "log").exists()


def test_nothing_heavy_is_imported_before_a_server_is_needed(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys
from pathlib import Path
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.mcp.sources import ServerSources
here = Path.cwd()
assert asyncio.run(MCPServers(ServerSources(here, here, os.environ)).tools()) == ([], [])
print(sorted({"mcp", "mcp_types", "httpx2", "jsonschema", "anyio"} & sys.modules.keys()))
"""
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
