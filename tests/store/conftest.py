from collections.abc import Iterator
from pathlib import Path

import pytest

from ipyagent.store.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    """A journal on the disk."""
    opened = Journal.open(path)
    yield opened
    opened.close()
