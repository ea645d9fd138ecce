"""Rehearsals are tried where a copy of the kernel can be isolated, and skipped elsewhere."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def isolation_problem(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    """Why nothing can be rehearsed on this machine."""
    if sys.platform != "linux":
        return "there is no isolation for this system"
    from ipyagent.kernel.rehearsal.probe import Probe
    from ipyagent.tools.sandbox.confinement import build_confinement

    probe = Probe(build_confinement(Path(tmp_path_factory.mktemp("probe"))))
    probe.start()
    return probe.finish()


@pytest.fixture(autouse=True)
def _needs_isolation(isolation_problem: str | None) -> None:
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
