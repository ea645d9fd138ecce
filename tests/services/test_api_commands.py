"""The command `%agent api`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from api_lab import User

from ipyagent.agent.session.session import Session
from ipyagent.errors import ConfigError
from ipyagent.magic import subcommands
from servers.openapi_server import SHOP, APIServer, json_answer


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "folder")


def type_command(user: User, rest: str) -> str:
    """Return the output of the command in a notebook with these services."""
    services = SimpleNamespace(openapi=user.services)
    book: Any = SimpleNamespace(services=services, sessions=SimpleNamespace(get=Session))
    return subcommands.api(book, rest)


@pytest.mark.spec("P11")
def test_a_service_is_registered_listed_refreshed_switched_and_removed(user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        said = type_command(
            user,
            f"register shop {server.url}/docs --auth-env TOKEN --header-env api_key=KEY "
            "--header-env X-More=MORE --get-unasked",
        )
        assert "shop (A test): 4 operations" in said
        listed = type_command(user, "list")
        assert listed == type_command(user, "")
        for fact in ("shop", "active", server.url, "GET unasked", "TOKEN (not set)", "X-More from"):
            assert fact in listed
        assert "4 operations" in type_command(user, "refresh")
        assert "4 operations" in type_command(user, "refresh shop")
    assert "not active" in type_command(user, "deactivate shop")
    assert "inactive" in type_command(user, "list")
    assert "active" in type_command(user, "activate shop")
    assert "removed" in type_command(user, "remove shop")
    assert "no services" in type_command(user, "list")


def test_a_file_is_relative_to_the_notebooks_folder(user: User) -> None:
    (user.folder / "my shop.json").write_text(__import__("json").dumps(SHOP))
    said = type_command(user, "register shop 'my shop.json' --base http://127.0.0.1:1/v1")
    assert "4 operations at http://127.0.0.1:1/v1" in said


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("regster x", "there are: register, list"),
        ("register", "register NAME URL"),
        ("register shop", "register NAME URL"),
        ("register shop http://h more", "register NAME URL"),
        ("register shop http://h --header-env X", "HEADER=VARIABLE"),
        ("register shop http://h --wrong", "register NAME URL"),
        ("register shop ftp://h", "http or https"),
        ("register 'shop", "No closing quotation"),
        ("list x", "usage: %agent api list$"),
        ("refresh a b", r"\[NAME\]"),
        ("refresh nobody", "no service is named 'nobody'"),
        ("activate", r"usage: %agent api activate NAME \[--here\]$"),
        ("deactivate a b", r"usage: %agent api deactivate NAME"),
        ("remove nobody", "there are: none"),
    ],
)
def test_a_wrong_command_line_gets_its_usage(rest: str, why: str, user: User) -> None:
    with pytest.raises(ConfigError, match=why):
        type_command(user, rest)
