"""One kernel for a module, reset for each test that begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import Kernel, asking, kernel
from servers.model_server import ModelServer

KERNELS = {"kernel_of_module", "asking_kernel_of_module", "shared", "kernel"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a kernel as such."""
    for item in items:
        if not KERNELS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Kernel]:
    """A kernel in the module's folder, which its tests leave as it is."""
    with kernel(folder) as started:
        yield started


@pytest.fixture(scope="module")
def kernel_of_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A kernel with the variables that the module names in `ENVIRONMENT`."""
    environment: dict[str, str] = getattr(request.module, "ENVIRONMENT", {})
    with kernel(tmp_path_factory.mktemp("kernel"), loads=False, **environment) as started:
        yield started


@pytest.fixture
def fresh(kernel_of_module: Kernel, tmp_path: Path) -> Kernel:
    """The module's kernel, as if it had just been started in the test's folder."""
    kernel_of_module.reset(tmp_path)
    return kernel_of_module


@pytest.fixture(scope="module")
def server_of_module() -> Iterator[ModelServer]:
    with ModelServer([]) as server:
        yield server


@pytest.fixture
def server(server_of_module: ModelServer) -> ModelServer:
    """A model server that has not been asked yet."""
    server_of_module.replies = []
    server_of_module.requests.clear()
    return server_of_module


@pytest.fixture(scope="module")
def asking_kernel_of_module(
    server_of_module: ModelServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kernel]:
    environment: dict[str, str] = getattr(request.module, "ENVIRONMENT", {})
    folder = tmp_path_factory.mktemp("asking")
    with kernel(folder, loads=False, **asking(server_of_module), **environment) as started:
        yield started


@pytest.fixture
def asking_kernel(asking_kernel_of_module: Kernel, tmp_path: Path) -> Kernel:
    """The same, with a model at the server."""
    asking_kernel_of_module.reset(tmp_path)
    return asking_kernel_of_module
