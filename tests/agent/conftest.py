from collections.abc import Iterator
from pathlib import Path

import pytest

from planning import PlanLab
from servers.model_server import ModelServer


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's directories, away from those of whoever runs the tests."""
    own = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("XDG_DATA_HOME", str(own))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own))
    return own


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as started:
        yield started


@pytest.fixture
def lab(tmp_path: Path) -> PlanLab:
    return PlanLab(tmp_path)
