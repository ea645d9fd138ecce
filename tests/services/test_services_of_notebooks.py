"""Services are switched for a folder, and for one of its notebooks alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipyagent.agent.session import Session
from ipyagent.agent.sessions import Sessions
from ipyagent.config import Config
from ipyagent.errors import AgentError, ConfigError
from ipyagent.magic import api_commands, mcp_commands
from ipyagent.schema import ToolResult
from ipyagent.store.journal import Journal
from ipyagent.wiring import Services
from servers.mcp_lab import MCPLab
from servers.openapi_server import SHOP, APIServer, json_answer


class Book:
    """A notebook of a folder, as far as services are about one."""

    def __init__(self, folder: Path, session: Session) -> None:
        self._services, self._session = Services(folder, folder), session

    def session(self) -> Session:
        return self._session

    @property
    def services(self) -> Services:
        self._services.here = self._session.services
        return self._services

    async def tools(self) -> set[str]:
        tools, _ = await self.services.tools(Config())
        return {each.name for each in tools}

    def api(self, line: str) -> str:
        return api_commands.run(self, line)  # type: ignore[arg-type]

    def mcp(self, line: str) -> str:
        return mcp_commands.run(self, line)  # type: ignore[arg-type]


@pytest.mark.spec("P46")
async def test_a_service_is_switched_for_one_notebook_alone(tmp_path: Path) -> None:
    one, two = Book(tmp_path, Session()), Book(tmp_path, Session())
    with APIServer({"GET /openapi.json": json_answer(SHOP), "GET /items": json_answer([])}) as at:
        one.api(f"register shop {at.url}")
        assert "api_shop_listItems" in await one.tools()
        assert "not active in this notebook" in one.api("deactivate shop --here")
        assert await one.tools() == set()
        assert "api_shop_listItems" in await two.tools()
        assert "in this notebook" in one.api("list")
        assert "in this notebook" not in two.api("list")

        two.api("deactivate shop")
        assert await two.tools() == set()
        one.api("activate --here shop")
        assert "api_shop_listItems" in await one.tools()
        tool = next(t for t in one.services.openapi.tools() if t.name == "api_shop_listItems")
        result: ToolResult = await tool.function()
        assert result.success
        one.services.openapi.refresh("shop")  # what is kept of it stays the folder's
        assert await two.tools() == set()

        one.api("deactivate shop --here")
        assert one.services.here == {"api:shop": False}
        with pytest.raises(AgentError, match="not active"):
            await tool.function()
        one.api("activate shop")  # for all of the folder, this notebook included
        assert one.session().services == {}
        assert "api_shop_listItems" in await one.tools() & await two.tools()
        with pytest.raises(ConfigError, match="nope"):
            one.api("activate nope --here")


@pytest.mark.spec("P46")
async def test_so_is_a_server(tmp_path: Path) -> None:
    with MCPLab(tmp_path) as place:
        one, two = Book(tmp_path, Session()), Book(tmp_path, Session())
        words = " ".join(place.words("good"))
        try:
            one.mcp(f"add files {words}")
            one.mcp("deactivate files --here")
            assert await one.tools() == set()
            assert await two.tools() == {"mcp_files_echo"}
            assert "in this notebook" in one.mcp("list")
            two.mcp("deactivate files")
            one.mcp("activate files --here")
            assert await one.tools() == {"mcp_files_echo"}
            assert await two.tools() == set()
            with pytest.raises(ConfigError):
                one.mcp("activate nope --here")
            with pytest.raises(ConfigError, match="--here"):
                one.mcp("activate --here")
        finally:
            one.services.mcp.close()
            two.services.mcp.close()


@pytest.mark.spec("P46")
def test_it_is_kept_with_the_notebooks_session(tmp_path: Path) -> None:
    sessions = Sessions(Journal.open(tmp_path / "state.db"))
    sessions.begin("one").switch_service("api:shop", False)
    sessions.close()
    again = Sessions(Journal.open(tmp_path / "state.db"))
    session: Any = again.resume("one").session
    assert session.services == {"api:shop": False}
    session.switch_service("api:shop", None)
    assert session.services == {}
