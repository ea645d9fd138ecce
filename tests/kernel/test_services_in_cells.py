"""MCP servers, OpenAPI services and skills in `%%agent` cells of a real kernel."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, Page, kernel, script
from servers.mcp_lab import SDK
from servers.openapi_server import APIServer, json_answer

pytestmark = pytest.mark.kernel

SHOP = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/items/{id}": {
            "get": {
                "operationId": "item",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
                ],
                "responses": {"200": {"description": "An item."}},
            }
        }
    },
}
SKILL = "---\nname: adding\ndescription: How to add up.\n---\nUse mcp_demo_add.\n"


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Kernel]:
    with kernel(folder, XDG_DATA_HOME=str(folder / "data"), SHOP_TOKEN="t0p-shop-7") as started:
        yield started


def calling(folder: Path, name: str, arguments: dict[str, Any]) -> str:
    call = {"calls": [{"name": name, "arguments": arguments}]}
    return f"%%agent {script(folder, call, 'Done.')}\nBegin."


@pytest.mark.spec("A19", "A23", "P11")
def test_a_server_that_was_added_is_approved_called_and_shown(shared: Kernel, folder: Path) -> None:
    added = shared.run(f"%agent mcp add demo {sys.executable} {SDK}").stdout
    assert str(SDK) in added
    assert "mcp_demo_add" in shared.run("%agent tools").stdout
    page = Page(shared)
    done = shared.run(calling(folder, "mcp_demo_add", {"a": 2, "b": 40}), page=page)
    (execution,) = done.executions
    assert (execution["decision"], execution["decided_by"]) == ("approved", "button")
    assert execution["result"]["output"] == "42"
    assert execution["source"] == "the MCP server demo"


@pytest.mark.spec("A23", "M28")
def test_a_server_of_the_folder_is_mentioned_and_starts_after_trust(
    shared: Kernel, folder: Path
) -> None:
    server = {"command": sys.executable, "args": [str(SDK)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"brought": server}}))
    untrusted = shared.run("%agent tools").stdout
    assert "mcp_brought_add" not in untrusted
    assert str(SDK) in untrusted  # the notice names the exact command
    assert str(SDK) in shared.run("%agent trust").stdout
    assert "mcp_brought_add" in shared.run("%agent tools").stdout
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"brought": {"command": "sh"}}}))
    assert "mcp_brought_add" not in shared.run("%agent tools").stdout
    (folder / "mcp.json").unlink()


@pytest.mark.spec("P04", "P11", "P46", "A21")
def test_a_service_is_registered_and_its_operation_called(shared: Kernel, folder: Path) -> None:
    with APIServer(
        {
            "GET /openapi.json": json_answer(SHOP),
            "GET /items/7": json_answer({"name": "seven"}),
        }
    ) as server:
        shared.run(f"%agent api register shop {server.url} --auth-env SHOP_TOKEN")
        listed = shared.run("%agent tools").stdout
        assert (
            "find_tools           Find more tools by words for the task: 1 of the service" in listed
        )
        assert "api_shop_item" not in listed
        page = Page(shared)
        request = {"service": "shop", "method": "GET", "path": "/items/7"}
        done = shared.run(calling(folder, "api_request", request), page=page)
        (execution,) = done.executions
        assert execution["call"]["name"] == "api_shop_item"
        assert execution["result"]["success"], execution
        assert "seven" in execution["result"]["output"]
        assert f"GET {server.url}/items/7" in execution["preview"]["text"].replace("\n", " ")
        assert "t0p-shop-7" not in json.dumps(done.run)
        assert "off in this" in shared.run("%agent api deactivate shop --here").stdout
        aside = calling(folder, "api_request", request).replace("\n", " --session aside\n", 1)
        (execution,) = shared.run(aside, page=page).executions
        assert not execution["result"]["success"], "off in whatever session a cell goes on with"
        assert "api_request" in execution["result"]["error"]
    assert "off in this notebook" in shared.run("%agent api list").stdout
    shared.run("%agent api remove shop")


@pytest.mark.spec("M23")
def test_a_skill_of_the_folder_is_offered_and_read(shared: Kernel, folder: Path) -> None:
    skill = folder / ".ipyagent" / "skills" / "adding"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    assert "How to add up." in shared.run("%agent skills").stdout
    done = shared.run(calling(folder, "get_skill", {"name": "adding"}), page=Page(shared))
    assert done.results[0]["output"].startswith("# Skill: adding")


@pytest.mark.spec("N23")
def test_a_script_runs_in_a_process_of_its_own(shared: Kernel, folder: Path) -> None:
    code = "import os\nprint(os.environ.get('SHOP_TOKEN'), 6 * 7)"
    page = Page(shared)
    cell = calling(folder, "python_script", {"action": "run", "content": code})
    reply = shared.run(cell, page=page)
    (execution,) = reply.run["steps"][0]["executions"]
    assert "None 42" in execution["result"]["output"]
    assert "run_shell" not in shared.run("%agent tools").stdout
