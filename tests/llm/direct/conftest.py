from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Nothing is warmed up: these clients do without LiteLLM."""
