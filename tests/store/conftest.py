from collections.abc import Iterator
from pathlib import Path

import pytest

from ipyagent.store.journal import Journal
from servers.postgres import PostgresServer, postgres
from stories import Place

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a journal can be: in a file, and in a PostgreSQL database."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.url()
    return tmp_path / "state" / "state.db"


@pytest.fixture
def journal(path: Place) -> Iterator[Journal]:
    """A journal on the disk."""
    opened = Journal.open(path)
    yield opened
    opened.close()
