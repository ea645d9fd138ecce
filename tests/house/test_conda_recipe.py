"""The conda recipe says what pyproject.toml says."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import ipyagent
from repository import ROOT

# Packages that conda-forge has under another name.
CONDA_NAMES: dict[str, str] = {}


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    text = (ROOT / "packaging/conda/recipe.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def write_for_conda(line: str) -> str:
    """Return a requirement of pyproject.toml as a recipe writes it."""
    requirement = Requirement(line)
    name = CONDA_NAMES.get(requirement.name, requirement.name)
    return f"{name} {','.join(sorted(map(str, requirement.specifier)))}".strip()


def sort_bounds(line: str) -> str:
    """Return a requirement of a recipe with its bounds in order."""
    name, _, bounds = line.partition(" ")
    return f"{name} {','.join(sorted(bounds.split(',')))}".strip()


def test_the_recipe_runs_on_what_the_package_requires(
    recipe: dict[str, Any], pyproject: dict[str, Any]
) -> None:
    project = pyproject["project"]
    wanted = [f"python {project['requires-python']}", *project["dependencies"]]
    assert sorted(map(sort_bounds, recipe["requirements"]["run"])) == sorted(
        map(write_for_conda, wanted)
    )


def test_the_recipe_is_built_with_what_the_package_is_built_with(
    recipe: dict[str, Any], pyproject: dict[str, Any]
) -> None:
    wanted = set(map(write_for_conda, pyproject["build-system"]["requires"]))
    assert wanted <= set(recipe["requirements"]["host"])


def test_the_recipe_names_this_version_summary_license_and_console_script(
    recipe: dict[str, Any], pyproject: dict[str, Any]
) -> None:
    project = pyproject["project"]
    assert recipe["context"] == {"name": project["name"], "version": ipyagent.__version__}
    assert recipe["about"]["summary"] == project["description"]
    assert recipe["about"]["license"] == project["license"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["build"]["noarch"] == "python"


def test_the_recipe_is_built_from_this_checkout(recipe: dict[str, Any]) -> None:
    folder = ROOT / "packaging/conda"
    assert (folder / recipe["source"]["path"]).resolve() == ROOT.resolve()


def test_a_requirement_with_two_bounds_is_compared_in_any_order() -> None:
    assert write_for_conda("mcp<3,>=2.3") == sort_bounds("mcp >=2.3,<3")
