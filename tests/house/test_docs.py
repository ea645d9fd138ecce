"""The documentation names what exists: settings, options, commands, tools, files."""

import ast
import json
import re
import runpy
from pathlib import Path

import pytest

from ipyagent.config import Config
from ipyagent.config.sections import SETTING_NAMES
from ipyagent.kernel.namespace import Namespace
from ipyagent.magic.commands import COMMANDS
from ipyagent.magic.options import options_help
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring import Environment
from repository import ROOT, parse_sources

DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_" not in p.relative_to(DOCS).parts[0])
TEXTS = {page.relative_to(DOCS).as_posix(): page.read_text() for page in PAGES}
FILE = re.compile(r"\b\w+\.(?:py|ts)\b")
SECTIONS = "agent|chat|context|llm|logging|mcp|policy|tools|workspace"


def test_there_are_pages() -> None:
    assert {"index.md", "tutorial.md", "architecture.md", "how-to/privacy.md"} < set(TEXTS)


@pytest.mark.parametrize("page", TEXTS)
def test_every_setting_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`(?:%agent config )?((?:{SECTIONS})\.(?!json)[a-z_.]+)[`=]", TEXTS[page])
    variables = re.findall(r"IPYAGENT_([A-Z]+__[A-Z_]+)", TEXTS[page])
    keys = {*named, *(name.lower().replace("__", ".") for name in variables)}
    assert keys <= set(SETTING_NAMES), page


@pytest.mark.parametrize("page", TEXTS)
def test_every_option_and_command_that_a_page_names_exists(page: str) -> None:
    cells = " ".join(re.findall(r"%%agent[^`\n]*", TEXTS[page]))
    assert set(re.findall(r"--[a-z-]+", cells)) <= set(re.findall(r"--[a-z-]+", options_help()))
    commands = set(re.findall(r"(?<!%)%agent ([a-z]+)", TEXTS[page]))
    assert commands <= set(COMMANDS), page


def test_every_built_in_tool_is_described(tmp_path: Path) -> None:
    settings = {"tools": {"shell": True}, "workspace": {"allow_delete": True}}
    environment = Environment(Workspace(tmp_path), Namespace({}))
    toolbox = environment.toolset.build(Config.model_validate(settings))
    table = TEXTS["reference/tools.md"].partition("The preview")[0]
    assert {tool.name for tool in toolbox.definitions()} <= set(re.findall(r"`([a-z_]+)`", table))


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set(re.findall(r"^([a-z/-]+)$", "\n".join(TEXTS.values()), re.MULTILINE))
    assert {page.removesuffix(".md") for page in TEXTS} - {"index"} <= listed


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(
        re.findall(r"(?:src|tests|docs|labextension|packaging)/[\w/.-]+\.(?:py|md|ts|yaml)", text)
    )
    assert len(named) > 15
    assert {path for path in named if not (ROOT / path).exists()} == set()
    drawn = re.findall(r"([a-z]+/)?([a-z_]+\.py)\b", text.split("```")[3])
    files = {path.name for path in (ROOT / "src").rglob("*.py")}
    assert {name for _, name in drawn} <= files


def test_docstrings_name_files_that_exist() -> None:
    folders = ("src", "tests", "labextension/src", "packaging")
    files = {path.name for folder in folders for path in (ROOT / folder).rglob("*.[pt][ys]")}
    named = {
        (path, name)
        for path, tree in parse_sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for name in FILE.findall(ast.get_docstring(node) or "")
    }
    assert len(named) > 10
    users = {"yaml.py", "ipyagent.py", "setup.py"}
    assert sorted(each for each in named if each[1] not in files | users) == []


@pytest.mark.parametrize("page", TEXTS)
def test_the_pictures_and_files_that_a_page_shows_are_there(page: str) -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXTS[page]):
        assert (DOCS / page).parent.joinpath(path).is_file(), path


def test_the_documented_keys_are_those_of_the_front_end() -> None:
    schema = json.loads((ROOT / "labextension/schema/settings.json").read_text())
    page = TEXTS["reference/jupyterlab.md"]
    bound = {" ".join(each["keys"]) for each in schema["jupyter.lab.shortcuts"]}
    documented = set(re.findall(r"^\| `(Ctrl [^`]+)` \|", page, re.MULTILINE))
    assert documented == {keys.replace("Accel", "Ctrl") for keys in bound}


def test_the_tables_of_the_reference_are_what_the_code_has() -> None:
    fill = runpy.run_path(str(DOCS / "generate.py"))["fill"]
    tables = 0
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text()
        assert fill(text) == text, f"{page}: run docs/generate.py"
        tables += text.count("<!-- /")
    assert tables == 3


@pytest.mark.parametrize("page", sorted({*TEXTS} - {"architecture.md", "reference/python.md"}))
def test_a_code_host_shows_a_page_as_it_is_meant(page: str) -> None:
    markup = r"(?m)\{(?:doc|ref|any)\}`[^`]*`|^:::.*|^```\{(?!toctree).*"
    assert re.findall(markup, TEXTS[page]) == []
