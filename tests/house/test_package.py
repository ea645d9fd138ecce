"""The package as others see it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import floors
import ipyagent
from ipyagent.schema.messages import BUILDS_SAFELY
from repository import ROOT
from servers.model_server import ModelServer, answer


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


def test_loading_brings_in_nothing_but_how_a_cell_is_entered() -> None:
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
from ipyagent import magic
magic.import_in_background = lambda home: None   # what the background does is not up front
shell.run_line_magic('load_ext', 'ipyagent')
heavy = {'litellm', 'openai', 'mcp', 'httpx', 'pydantic', 'packaging', 're2', 'tenacity', 'yaml',
         'ipywidgets', 'anywidget', 'pandas', 'PIL', 'matplotlib'}
print(sorted(heavy & set(sys.modules)))
"""
    assert fresh(code).endswith("[]")


NOT_FOR_SCRIPTS = {
    *("IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets"),
    *("litellm", "openai", "mcp", "pandas", "numpy", "opentelemetry"),
    *("jsonschema", "markdown_it", "nbformat", "nh3", "packaging", "yaml"),
}
ROOMS_NOT_FOR_SCRIPTS = (
    *("cli", "compat.nano", "explorer", "magic"),
    *("services.openapi.services", "services.mcp.servers"),
    *("ui.card", "ui.notebook_view", "ui.plain_view", "ui.transcript", "ui.static_html"),
    *("llm.gateway", "llm.scripted"),
)
ASK = """
import sys
from ipyagent import Agent
run = Agent(model="openai/test-model", root=sys.argv[1]).ask("Hi")
assert run.output == "Hello.", run.error
print(*sys.modules)
"""


def test_a_script_imports_only_what_its_prompt_needs(tmp_path: Path) -> None:
    with ModelServer([answer("Hello.")]) as server:
        environ = os.environ | {"OPENAI_API_KEY": "none", "IPYAGENT_LLM__API_BASE": server.url}
        command = [sys.executable, "-c", ASK, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert "ipyagent.api" in modules
    assert sorted(NOT_FOR_SCRIPTS & modules) == []
    assert [each for each in ROOMS_NOT_FOR_SCRIPTS if f"ipyagent.{each}" in modules] == []


LAZY = """
from ipyagent.schema.messages import LazyModel
import ipyagent.schema
models = LazyModel.__subclasses__()
print(len(models) > 20, sum(each.__pydantic_complete__ for each in models))
"""


@pytest.mark.skipif(not BUILDS_SAFELY, reason="this pydantic builds models when they are defined")
def test_lazy_models_are_not_built_before_they_are_used() -> None:
    assert fresh(LAZY) == "True 0"


def test_all_other_models_are_built_when_they_are_defined() -> None:
    """A name that is defined below its use defers them, and older pydantic builds them unsafely."""
    code = """
import ipyagent.schema
from ipyagent.schema.messages import LazyModel, Model

def below(model):
    for each in model.__subclasses__():
        yield each
        yield from below(each)

models = [each for each in below(Model) if not issubclass(each, LazyModel)]
print(len(models) > 20, [each.__name__ for each in models if not each.__pydantic_complete__])
"""
    assert fresh(code) == "True []"


@pytest.mark.skipif(not BUILDS_SAFELY, reason="this pydantic builds models when they are defined")
def test_threads_that_need_a_model_first_at_the_same_time_all_get_it() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from ipyagent.schema import RunFinished, RunStatus, StopReason
assert not RunFinished.__pydantic_complete__
ready = Barrier(8)
def make(number):
    ready.wait()
    return RunFinished(status=RunStatus.DONE, stop_reason=StopReason.FINISHED, duration=number)
with ThreadPoolExecutor(8) as threads:
    made = list(threads.map(make, range(8)))
print([each.duration for each in made] == list(range(8)), {type(each).__name__ for each in made})
"""
    assert fresh(code) == "True {'RunFinished'}"


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


def test_a_name_waits_for_what_is_being_imported_in_the_background() -> None:
    # Threads that import modules of one package in different orders may get them half made.
    code = """
import sys, threading
from concurrent.futures import Future
from IPython.core.interactiveshell import InteractiveShell
from ipyagent import magic
begun, importing = threading.Event(), Future()
importing.result = lambda: (begun.set(), Future.result(importing))
magic.import_in_background = lambda home: importing
InteractiveShell.instance().run_line_magic('load_ext', 'ipyagent')
def use():
    from ipyagent import Agent
using = threading.Thread(target=use)
using.start()
begun.wait(20)
waits = 'ipyagent.api' not in sys.modules
importing.set_result(None)
using.join()
print(waits, 'ipyagent.api' in sys.modules)
"""
    assert fresh(code).endswith("True True")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ipyagent, "nothing_of_that_name")


@pytest.mark.parametrize("requirement", list(floors.read_requirements()), ids=str)
def test_every_dependency_names_its_oldest_version(requirement: Requirement) -> None:
    assert floors.pin_to_floor(requirement).startswith(f"{requirement.name}==")
