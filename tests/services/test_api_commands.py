"""`%agent api …`, as it is typed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from api_lab import Person

from ipyagent.agent.session import Session
from ipyagent.errors import ConfigError
from ipyagent.magic import api_commands
from servers.openapi_server import SHOP, APIServer, json_answer


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "folder")


def typed(person: Person, rest: str) -> str:
    """What the command says in a notebook whose place has these services."""
    services = SimpleNamespace(openapi=person.services)
    book: Any = SimpleNamespace(services=services, session=Session)
    return api_commands.run(book, rest)


@pytest.mark.spec("P11")
def test_a_service_is_registered_listed_refreshed_switched_and_removed(person: Person) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        said = typed(
            person,
            f"register shop {server.url}/docs --auth-env TOKEN --header-env api_key=KEY "
            "--header-env X-More=MORE --get-unasked",
        )
        assert "shop (A test): 4 operations" in said
        listed = typed(person, "list")
        assert listed == typed(person, "")
        for fact in ("shop", "active", server.url, "GET unasked", "TOKEN (not set)", "X-More from"):
            assert fact in listed
        assert "4 operations" in typed(person, "refresh")
        assert "4 operations" in typed(person, "refresh shop")
    assert "not active" in typed(person, "deactivate shop")
    assert "inactive" in typed(person, "list")
    assert "active" in typed(person, "activate shop")
    assert "removed" in typed(person, "remove shop")
    assert "no services" in typed(person, "list")


def test_a_file_is_found_from_the_notebooks_folder(person: Person) -> None:
    (person.folder / "my shop.json").write_text(__import__("json").dumps(SHOP))
    said = typed(person, "register shop 'my shop.json' --base http://127.0.0.1:1/v1")
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
def test_what_is_typed_wrong_says_how_it_is_right(rest: str, why: str, person: Person) -> None:
    with pytest.raises(ConfigError, match=why):
        typed(person, rest)
