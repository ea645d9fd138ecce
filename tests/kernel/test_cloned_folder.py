"""A cloned folder runs nothing with ipyagent: its modules are skipped, and reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ipyagent import imports
from kernels import asking, kernel
from servers.model_server import ModelServer, answer

OPTIONAL = {
    *("azure", "boto3", "brotli", "chardet", "fastapi", "google", "langfuse", "numpydoc", "orjson"),
    *("prometheus_client", "redis", "sentry_sdk", "simplejson", "socksio", "ujson", "uvloop"),
}
"""Modules that the packages below ipyagent import where they are installed."""
CANARY = "open({path!r}, 'a').write('{name} ')\nraise ImportError('the folder has run')\n"
PYTHON = [sys.executable, "-c"]


def plant(folder: Path, names: set[str]) -> Path:
    """Put a module of each name into the folder that leaves a trace when it runs."""
    trace = folder / "ran"
    for name in names:
        (folder / f"{name}.py").write_text(CANARY.format(path=str(trace), name=name))
    trace.touch()
    return trace


def run(folder: Path, code: str) -> str:
    """Return the printed text of code that runs in the folder as a kernel's code does."""
    prefix = "import sys; sys.path.insert(0, '')\n"
    command = [*PYTHON, prefix + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.kernel
def test_a_cloned_folder_runs_nothing_when_ipyagent_is_loaded_and_used(tmp_path: Path) -> None:
    names = {*imports._modules_of_ours(), *OPTIONAL} - {"ipyagent"}
    assert {"pydantic", "yaml", "nh3", "litellm", "jiter", "openai", "anywidget"} <= names
    with (
        ModelServer([answer("Hello."), answer("Again.")]) as server,
        kernel(tmp_path, loads=False, **asking(server)) as started,
    ):
        assert started.run("1").status == "ok"
        trace = plant(tmp_path, {*names, "mine"})
        assert started.run("import mine").status == "error"
        before = trace.read_text()
        assert before.startswith("mine "), "the folder is looked into, as by any kernel"

        assert started.run("%load_ext ipyagent").status == "ok"
        offline = started.run("%%agent -m offline/explorer\nWhich files are there?")
        asked = started.run("%%agent\nHello")
        assert offline.run["status"] == asked.run["status"] == "done", (offline, asked)
        assert trace.read_text() == before
        (notice,) = [note for note in offline.run["notes"] if "in this folder" in note]
        assert {"yaml.py", "pydantic.py", "litellm.py"} <= set(
            notice.partition(" in ")[0].split(", ")
        )
        assert "Rename it" in notice
        assert "mine.py" not in notice


GUARDED = "from ipyagent import imports; imports.guard()\n"


@pytest.mark.parametrize(
    ("code", "ran"),
    [
        ("import tenacity", "tenacity "),
        ("import litellm_proxy_extras_of_nobody", "litellm_proxy_extras_of_nobody "),
    ],
)
def test_the_users_own_imports_still_come_from_the_folder(
    tmp_path: Path, code: str, ran: str
) -> None:
    trace = plant(tmp_path, {ran.strip()})
    run(tmp_path, f"{GUARDED}try: {code}\nexcept ImportError: pass")
    assert trace.read_text() == ran


def test_modules_of_the_folder_may_import_each_other_under_any_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "random.py").write_text("import helper\nchoice = helper.choice\n")
    (tmp_path / "helper.py").write_text("choice = 'mine'\n")
    code = "sys.modules.pop('random', None); import random; print(random.choice)"
    assert run(tmp_path, GUARDED + code) == "mine"


def test_modules_that_a_value_names_are_imported_from_the_folder(tmp_path: Path) -> None:
    """Extensions, settings and pickles name modules of the user's."""
    (tmp_path / "plugin.py").write_text("answer = 42\n")
    code = "from pydantic import ImportString, TypeAdapter\n"
    code += "print(TypeAdapter(ImportString).validate_python('plugin.answer'))"
    assert run(tmp_path, GUARDED + code) == "42"


def test_a_checkout_that_was_put_on_the_path_on_purpose_is_used(tmp_path: Path) -> None:
    (tmp_path / "tenacity.py").write_text("here = True\n")
    code = "sys.path.append(__import__('os').getcwd())\n" + GUARDED
    code += "sys.path.remove('')\nfrom importlib.util import find_spec\n"
    code += "sys.path = [sys.path[-1], *sys.path[:-1]]; sys.path.insert(0, '/nowhere')\n"
    code += "import tenacity; print(tenacity.here)"
    assert run(tmp_path, code) == "True"


def test_a_module_of_the_folder_that_was_imported_before_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tenacity.py").write_text("here = True\n")
    code = "import json, tenacity\n" + GUARDED + "print(json.dumps([*imports.shadowing_notices()]))"
    (notice,) = json.loads(run(tmp_path, code))
    assert notice.startswith("tenacity.py in this folder: imported before ipyagent was loaded")


def test_a_folder_with_ordinary_module_names_gets_no_notice(tmp_path: Path) -> None:
    for name in ("sales.py", "utils.py", "data.csv", "yaml.txt", "random.py"):
        (tmp_path / name).touch()
    (tmp_path / "pydantic").mkdir()  # no package
    code = GUARDED + "print([*imports.shadowing_notices()])"
    assert run(tmp_path, code) == "[]"
