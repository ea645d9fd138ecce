import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

from harness import Clock, Lab
from ipyagent.kernel.threads import EngineThread
from ipyagent.tools import tables
from leftovers import no_process_is_left, pytest_sessionstart

__all__ = ["no_process_is_left", "pytest_sessionstart"]

# The same examples each time; `make soak` looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

if sys.platform == "linux":
    # A worker of a thousand tests would keep the memory of the largest: glibc returns it late.
    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
    settings_of_malloc = {M_TRIM_THRESHOLD: 65_536, M_MMAP_THRESHOLD: 65_536, M_ARENA_MAX: 1}
    for setting, value in settings_of_malloc.items():
        ctypes.CDLL(None).mallopt(setting, value)

# A description is awaited, however busy the machine is.
tables.PROMPT_SECONDS = 60.0

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest first: of two workers none is left with a long file at the end.

    Browser tests alone may be rerun, once.
    """
    slowest = ("browser", "kernel")
    items.sort(key=lambda item: [item.get_closest_marker(each) is None for each in slowest])
    for item in items:
        if item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))


MOST_RERUNS = 2
"""Browser tests may be run a second time when they fail: so many in one run."""


def list_reruns(config: pytest.Config) -> list[pytest.TestReport]:
    """Return the failures after which tests were rerun; none in a worker of xdist."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("rerun", []) if reporter else []


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which more was rerun than may be."""
    if session.exitstatus == pytest.ExitCode.OK and len(list_reruns(session.config)) > MOST_RERUNS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (each for found in terminalreporter.stats.values() for each in found)
    seconds = sum(getattr(each, "duration", 0.0) for each in reports)
    terminalreporter.write_line(f"all tests together took {seconds:.0f} s")
    reruns = list_reruns(terminalreporter.config)
    for report in reruns:
        terminalreporter.section(f"rerun: {report.nodeid}", yellow=True)
        terminalreporter.write_line(report.longreprtext)
    if len(reruns) > MOST_RERUNS:
        told = f"{len(reruns)} tests were rerun, and at most {MOST_RERUNS} may be"
        terminalreporter.write_line(told, red=True)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the settings and decisions of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_kernel_in_this_process() -> Iterator[None]:
    """Importing a kernel replaces what makes comms, for the tests of all other rooms too."""
    yield
    assert "ipykernel.ipkernel" not in sys.modules, "import it in a process of its own"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of runs, which passes as the test says."""
    return Clock(monkeypatch, EngineThread.current().loop)


@pytest_asyncio.fixture
async def own_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the test's own loop, which passes as the test says."""
    return Clock(monkeypatch, asyncio.get_running_loop())


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser. Only for a module: its event loop would stand in the way of async tests."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


MAKE_NAMESPACES = """unshare -Urmpnf sh -ec '
mount -t tmpfs none /mnt; mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work none /mnt'"""
ASK_LANDLOCK = 444, None, 0, 1


@pytest.fixture(scope="session")
def isolation_problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Why nothing can be rehearsed on this machine in each of the ways to isolate."""
    if sys.platform != "linux":
        return dict.fromkeys(("namespaces", "Landlock"), "there is no isolation for this system")
    from ipyagent.rehearsal.probe import Probe
    from ipyagent.tools.rehearsal import build_confinement
    from rehearsal_trial import WAYS

    found: dict[str, str | None] = {}
    for way in WAYS:
        probe = Probe(build_confinement(tmp_path_factory.mktemp("probe"), way))
        probe.start()
        found[way] = probe.finish()
    # Where the system can isolate, tests that need it are not skipped because it is broken.
    folder = tmp_path_factory.mktemp("folder")
    offered = subprocess.run(
        MAKE_NAMESPACES, shell=True, cwd=folder, capture_output=True, check=False
    )
    assert offered.returncode or found["namespaces"] is None
    assert ctypes.CDLL(None).syscall(*ASK_LANDLOCK) < 3 or found["Landlock"] is None
    return found


@pytest.fixture
def isolation_problem(isolation_problems: dict[str, str | None]) -> str | None:
    """Why nothing can be rehearsed on this machine in the first way."""
    return isolation_problems["namespaces"]


@pytest.fixture
def needs_isolation(isolation_problem: str | None) -> None:
    """For tests that look: nothing can be tried where a copy cannot be isolated."""
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
