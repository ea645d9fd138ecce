"""The built front end is of the present sources, and is in the wheel once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import ipyagent
from ipyagent.ui.card import card_module
from repository import load_script

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "labextension"
BUILT = ROOT / "src/ipyagent/labextension"
WIDGET = ROOT / "src/ipyagent/ui/static"
SHARED = re.compile(r"\.data/data/share/jupyter/labextensions/ipyagent/(.+)$")


@pytest.fixture
def inputs() -> ModuleType:
    return load_script("labextension/inputs.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(ROOT), *options], check=True)
    [built] = folder.glob("ipyagent-*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_the_built_files_are_of_these_sources(inputs: ModuleType):
    assert inputs.main([]) == 0, "run `jlpm build` in labextension/ and commit what it wrote"


def test_a_changed_source_is_noticed(inputs: ModuleType, tmp_path: Path, monkeypatch):
    before = inputs.digest()
    for path in inputs.inputs():
        copy = tmp_path / path.relative_to(SOURCES.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(inputs, "HERE", tmp_path / SOURCES.name)
    assert inputs.digest() == before
    (tmp_path / SOURCES.name / "src/widget.ts").write_text("changed")
    assert inputs.digest() != before
    monkeypatch.setattr(inputs, "RECORD", SOURCES / "inputs.sha256")
    assert inputs.main([]) == 1


def test_jupyter_finds_the_built_files_in_the_package():
    [place] = ipyagent._jupyter_labextension_paths()
    built = Path(ipyagent.__file__).parent / place["src"] / "package.json"
    assert json.loads(built.read_text())["name"] == place["dest"]


def test_python_and_javascript_have_one_version():
    for package in (SOURCES / "package.json", BUILT / "package.json"):
        assert json.loads(package.read_text())["version"] == ipyagent.__version__


def test_the_extension_loads_a_file_that_is_there():
    build = json.loads((BUILT / "package.json").read_text())["jupyterlab"]["_build"]
    assert (BUILT / build["load"]).is_file()
    assert build["mimeExtension"] == "./mimeExtension"
    assert [path.name for path in BUILT.rglob("remoteEntry.*.js")] == [Path(build["load"]).name]


def test_the_widget_is_one_small_module():
    module = (WIDGET / "widget.js").read_text()
    assert len(module.encode()) < 72 * 1024
    assert re.search(r"export\s*\{\s*[\w$]+ as default\s*\};?\s*$", module)
    assert not re.search(r"(^|[;}])import\b", module)
    assert (WIDGET / "widget.css").stat().st_size > 0


def test_a_card_is_sent_with_a_small_loader():
    assert (WIDGET / "loader.js").stat().st_size < 4 * 1024


def test_the_extension_provides_the_module_of_the_same_build():
    built = "".join(path.read_text() for path in (BUILT / "static").glob("*.js"))
    assert card_module().hash in built


def test_no_built_file_names_a_place_on_the_builder():
    for path in [*BUILT.rglob("*"), *WIDGET.iterdir()]:
        assert path.suffix != ".map"
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"sourceMappingURL=\S+\.map", text), path
            assert str(ROOT) not in text, path


def test_the_lock_file_names_no_registry():
    lock = (SOURCES / "yarn.lock").read_text()
    assert 'resolution: "dompurify@npm:' in lock
    assert "://" not in lock


def test_the_wheel_has_the_extension_once_and_the_widget(wheel: list[str]):
    shared = sorted(match[1] for name in wheel if (match := SHARED.search(name)))
    built = sorted(p.relative_to(BUILT).as_posix() for p in BUILT.rglob("*") if p.is_file())
    assert shared == sorted(["install.json", *built])
    assert not [name for name in wheel if name.startswith("ipyagent/labextension")]
    for name in ("widget.js", "loader.js", "widget.css"):
        assert [each for each in wheel if each.endswith(name)] == [f"ipyagent/ui/static/{name}"]
    assert not [name for name in wheel if "node_modules" in name or name.endswith(".ts")]
