"""Rehearsals are tried where a copy of the kernel can be isolated, and skipped elsewhere."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ipyagent.rehearsal.confinement import Method
from rehearsal_trial import chosen


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that rehearse run alone: others would leave threads in the process they fork."""
    here = [each for each in items if each.path.parent == Path(__file__).parent]
    for item in here:
        members = vars(item.module).values() if isinstance(item, pytest.Function) else ()
        if any(getattr(each, "__module__", "") == chosen.__module__ for each in members):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(autouse=True)
def isolation_way(
    request: pytest.FixtureRequest, isolation_problems: Mapping[Method, str | None]
) -> Iterator[Method]:
    """The way in which a test isolates: the first one, or that of `in_both_ways`."""
    chosen.way = getattr(request, "param", "namespaces")
    if problem := isolation_problems[chosen.way]:
        pytest.skip(problem)
    yield chosen.way
    chosen.way = "namespaces"
