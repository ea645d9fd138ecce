"""What a release consists of: the source distribution, and the wheel that is built from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ipyagent
from repository import ROOT, load_script


@pytest.fixture(scope="module")
def inspection() -> ModuleType:
    return load_script("packaging/inspect_dist.py")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [archive] = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """Build the wheel from the source distribution, where no other program can be found."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "-w", "built"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(sdist), *options],
        cwd=sdist.parent,
        env=os.environ | {"PATH": ""},
        check=True,
    )
    [built] = (sdist.parent / "built").glob("*.whl")
    return built


@pytest.mark.slow
def test_the_source_distribution_builds_the_wheel_without_node_and_network(
    inspection: ModuleType, wheel: Path
) -> None:
    assert wheel.name.startswith(f"ipyagent-{ipyagent.__version__}-py3-none-any")
    assert list(inspection.find_faults(inspection.read_archive(wheel), wheel=True)) == []


def test_the_source_distribution_holds_sources_only(inspection: ModuleType, sdist: Path) -> None:
    files = inspection.read_archive(sdist)
    assert list(inspection.find_faults(files, wheel=False)) == []
    inner = {name.partition("/")[2] for name in files}
    assert {"LICENSE", "tests/house/test_distribution.py", "labextension/src/widget.ts"} <= inner


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ipyagent/tests/test_a.py", b""),
        ("tests/harness.py", b""),
        ("ipyagent/ui/static/node_modules/a.js", b""),
        ("ipyagent/ui/static/widget.js.map", b""),
        ("ipyagent/../a.py", b""),
        ("ipyagent/a.py", f"here = '{ROOT}/src'".encode()),
    ],
)
def test_what_does_not_belong_in_a_wheel_is_found(
    inspection: ModuleType, name: str, content: bytes
) -> None:
    missing = {*inspection.find_faults({}, wheel=True)}
    faults = {*inspection.find_faults({name: content}, wheel=True)} - missing
    assert faults
    assert all(fault.startswith(name) for fault in faults)


def test_what_is_missing_in_a_wheel_is_found(inspection: ModuleType) -> None:
    faults = list(inspection.find_faults({}, wheel=True))
    assert faults == [
        "the extension of JupyterLab is missing",
        *(f"the widget's {name} is missing" for name in ("loader.js", "widget.js", "widget.css")),
    ]
