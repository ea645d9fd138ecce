"""Rehearsals are tried where a copy of the kernel can be isolated, and skipped elsewhere."""

import pytest


@pytest.fixture(autouse=True)
def _needs_isolation(isolation_problem: str | None) -> None:
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
