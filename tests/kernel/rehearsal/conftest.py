"""Rehearsals are tried where a copy of the kernel can be isolated, and skipped elsewhere."""

from collections.abc import Iterator, Mapping

import pytest

from ipyagent.kernel.rehearsal.confinement import Way
from rehearsal_trial import chosen


@pytest.fixture(autouse=True)
def isolation_way(
    request: pytest.FixtureRequest, isolation_problems: Mapping[Way, str | None]
) -> Iterator[Way]:
    """The way in which a test isolates: the first one, or that of `in_both_ways`."""
    chosen.way = getattr(request, "param", "namespaces")
    if problem := isolation_problems[chosen.way]:
        pytest.skip(problem)
    yield chosen.way
    chosen.way = "namespaces"
