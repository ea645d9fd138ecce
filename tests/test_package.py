"""The package as others see it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import floors
import ipyagent

ROOT = Path(__file__).parents[1]


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_exported_names_are_sorted_and_all_there() -> None:
    assert ipyagent.__all__ == sorted(ipyagent.__all__, key=str)
    for name in ipyagent.__all__:
        assert name == "last" or getattr(ipyagent, name) is not None


def test_the_version_is_the_packages() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    place = ROOT / settings["tool"]["hatch"]["version"]["path"]
    assert place == Path(ipyagent.__file__)


def test_importing_brings_in_nothing_else() -> None:
    heavy = "{'litellm', 'openai', 'pydantic', 'ipywidgets', 'IPython', 'pandas'}"
    code = f"import sys, ipyagent; print(sorted({heavy} & set(sys.modules)))"
    assert fresh(code) == "[]"


def test_loading_brings_in_neither_the_model_room_nor_the_widgets_up_front() -> None:
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
import ipyagent.magic as magic
magic._prepare = lambda: None   # what the background does is not up front
shell = InteractiveShell.instance()
shell.run_line_magic('load_ext', 'ipyagent')
heavy = {'litellm', 'openai', 'ipywidgets', 'anywidget', 'pandas', 'PIL', 'matplotlib'}
print(sorted(heavy & set(sys.modules)))
"""
    assert fresh(code).endswith("[]")


def test_loading_twice_and_unloading_leaves_the_shell_as_it_was() -> None:
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
count = lambda: (len(shell.input_transformers_cleanup), len(shell.events.callbacks['pre_run_cell']),
                 'agent' in shell.magics_manager.magics['cell'])
before = count()
shell.run_line_magic('load_ext', 'ipyagent')
shell.run_line_magic('reload_ext', 'ipyagent')
loaded = count()
shell.run_line_magic('unload_ext', 'ipyagent')
print(before == count(), loaded[0] - before[0], loaded[1] - before[1], loaded[2])
"""
    assert fresh(code).endswith("True 1 1 True")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ipyagent, "nothing_of_that_name")


@pytest.mark.parametrize("requirement", list(floors.read_requirements()), ids=str)
def test_every_dependency_names_its_oldest_version(requirement: Requirement) -> None:
    assert floors.pin_to_floor(requirement).startswith(f"{requirement.name}==")
