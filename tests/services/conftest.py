from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.mcp_lab import MCPLab


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the user's directories to temporary ones."""
    own = tmp_path / "user"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(own / "data"))
    return own


@pytest.fixture
def place(tmp_path: Path) -> Iterator[MCPLab]:
    with MCPLab(tmp_path) as place:
        yield place
