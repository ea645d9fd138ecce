"""Which of the tools a model is offered, and how many bytes they cost in each request."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import pytest

from harness import Lab, call
from ipyagent.agent.prompts import system_prompt
from ipyagent.config import Config, Layer, resolve_config
from ipyagent.config.rules import BUILT_IN_TOOLS
from ipyagent.errors import ConfigError
from ipyagent.kernel.pages import OpenNotebooks
from ipyagent.schema import ToolDefinition
from ipyagent.tools.base import tool
from ipyagent.tools.notebook_tools import RunCellTool
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.wiring.toolset import CORE, SMALL, Occasion, offer_tools

# Another release of one of them must not change what is counted.
INSTALLED = (
    "Installed: Python 3.11, pandas 3.1, polars 2.1, numpy 2.4, scipy 1.17, matplotlib 3.11, "
    "openpyxl 3.1; not installed: scikit-learn, statsmodels, seaborn."
)

CELL_TOOLS = {"read_notebook", "insert_cell", "edit_cell"}
NOTE_TOOLS = {"record_note", "recall_notes"}


def offered(lab: Lab, prompt: str = "Go on.", **settings: object) -> list[str]:
    lab.run(["Ok."], prompt, settings=settings)
    return [each.name for each in lab.client.requests[-1].tools]


def choose(lab: Lab, occasion: Occasion, *earlier: str) -> list[ToolDefinition]:
    toolbox = lab.environment.toolset.build(Config())
    return list(offer_tools(toolbox, Config(), occasion, earlier).definitions())


def count_bytes(definitions: list[ToolDefinition]) -> int:
    texts = [json.dumps(each.to_openai(), separators=(",", ":")) for each in definitions]
    prompt = system_prompt(INSTALLED)
    return len("".join([prompt, *texts]).encode())


@pytest.mark.parametrize(
    ("occasion", "most"),
    [
        (Occasion(), 6_000),
        (Occasion(page_is_open=True), 6_000),
        (Occasion(has_notes=True), 6_000),
        (Occasion(model_is_small=True), 3_000),
    ],
)
def test_system_prompt_and_tools_cost_few_bytes(lab: Lab, occasion: Occasion, most: int) -> None:
    assert count_bytes(choose(lab, occasion)) <= most


def test_they_do_so_where_a_page_can_run_cells_too(lab: Lab, tmp_path: Path) -> None:
    namespace = TrackedNamespace(lab.environment.namespace)
    notebooks = OpenNotebooks(folder=tmp_path)
    run_cell = RunCellTool(namespace, notebooks, lambda job: Future()).as_tool()
    definitions = [*choose(lab, Occasion(page_is_open=True)), run_cell.definition()]
    assert count_bytes(definitions) <= 6_000


def test_all_tools_would_cost_more(lab: Lab) -> None:
    assert count_bytes(list(lab.environment.toolset.build(Config()).definitions())) > 6_000


def test_a_schema_holds_nothing_that_a_model_can_do_without(lab: Lab) -> None:
    for each in lab.environment.toolset.build(Config()).definitions():
        text = json.dumps(each.input_schema)
        for boilerplate in ("null", "$defs", "$ref", '"title"', "additionalProperties"):
            assert boilerplate not in text, each.name


def test_twelve_tools_are_offered_at_most_and_six_to_a_small_model(lab: Lab) -> None:
    assert set(offered(lab)) == CORE & {e.name for e in lab.environment.toolset.build(Config())}
    assert len(CORE) <= 12
    assert set(offered(lab, tools={"offer": "small"})) <= SMALL
    assert len(SMALL) <= 7


def test_more_tools_are_offered_where_they_are_of_use(lab: Lab) -> None:
    assert {each.name for each in choose(lab, Occasion(page_is_open=True))} >= CELL_TOOLS
    assert {each.name for each in choose(lab, Occasion(has_notes=True))} >= NOTE_TOOLS
    for prompt, wanted in {
        "Insert a cell that plots it.": CELL_TOOLS,
        "Remember that the sales are in euros.": NOTE_TOOLS,
        "Write a script that does this each night.": {"python_script"},
        "Use record_note.": NOTE_TOOLS - {"recall_notes"},
        "Delete what is old.": {"delete_file"},
        "Remove the empty files.": {"delete_file"},
    }.items():
        assert wanted <= {each.name for each in choose(lab, Occasion(prompt=prompt))}
        assert not wanted & {each.name for each in choose(lab, Occasion(prompt="Sum the sales."))}


def test_notes_that_exist_are_offered(lab: Lab) -> None:
    assert not NOTE_TOOLS & set(offered(lab))
    lab.run([{"calls": [call("record_note", content="Sales are in euros.")]}, "Ok."])
    assert set(offered(lab)) >= NOTE_TOOLS


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"tools": {"scripts": True}}, "python_script"),
        ({"tools": {"shell": True}}, "run_shell"),
        ({"tools": {"offer": "all"}}, "record_note"),
        ({"agent": {"allowed_tools": ["recall_notes"]}}, "recall_notes"),
        (
            {"policy": {"rules": [{"effect": "ask", "tool": "record_note"}]}},
            "record_note",
        ),
    ],
)
def test_a_tool_that_settings_name_is_always_offered(
    lab: Lab, settings: dict[str, object], name: str
) -> None:
    config = resolve_config(Layer("the test", settings))
    toolbox = lab.environment.toolset.build(config).select(config.agent.allowed_tools)
    found = offer_tools(toolbox, config, Occasion(model_is_small=name == "recall_notes"))
    assert name in {each.name for each in found.offered_tools()}
    assert name not in {each.name for each in choose(lab, Occasion())}


def test_the_users_own_tools_are_offered_to_small_models_too(lab: Lab) -> None:
    @tool
    def query(sql: str) -> str:
        """Run a query."""
        return sql

    lab.run(["Ok."], tools=[query], settings={"tools": {"offer": "small"}})
    assert "query" in {each.name for each in lab.client.requests[0].tools}


def test_a_tool_that_is_not_offered_can_be_called(lab: Lab) -> None:
    run = lab.run([{"calls": [call("recall_notes")]}, "Ok."])
    assert run.results[0].output == "No notes recorded yet."


def test_tools_stay_in_their_order_once_they_were_offered(lab: Lab) -> None:
    before = offered(lab)
    after = offered(lab, "Insert a cell.")
    assert after[: len(before)] == before
    assert set(after) >= CELL_TOOLS
    assert offered(lab, "Thanks.") == after


def test_a_smaller_model_does_not_inherit_the_tools_of_a_larger_one(lab: Lab) -> None:
    before = [each.name for each in choose(lab, Occasion(page_is_open=True))]
    after = {each.name for each in choose(lab, Occasion(model_is_small=True), *before)}
    assert after <= SMALL


def test_the_built_in_tools_that_rules_know_are_there(lab: Lab, tmp_path: Path) -> None:
    config = Config.model_validate({"tools": {"shell": True}})
    run_cell = RunCellTool(
        TrackedNamespace(lab.environment.namespace),
        OpenNotebooks(folder=tmp_path),
        lambda job: Future(),
    )
    tools = [*lab.environment.toolset.build(config), run_cell.as_tool()]
    assert {each.name for each in tools} >= BUILT_IN_TOOLS


@pytest.mark.parametrize(
    ("rule", "missing"),
    [
        ({"tool": "run_python", "path": "patients/**"}, "never holds for run_python.* a path"),
        ({"tool": "read_file, Run_Shell", "path": "x"}, "never holds for Run_Shell.* a path"),
        ({"tool": "read_file", "arguments": {"pth": "x*"}}, "an argument pth"),
    ],
)
def test_under_a_rule_that_no_call_can_match_nothing_runs(
    rule: dict[str, object], missing: str, lab: Lab
) -> None:
    settings = {"policy": {"rules": [{"effect": "deny", **rule}]}, "tools": {"shell": True}}
    with pytest.raises(ConfigError, match=missing):
        lab.run(["Ok."], settings=settings)


def test_a_rule_whose_tool_may_still_come_is_in_force_and_said_once_to_be_idle(lab: Lab) -> None:
    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        return where

    names = ["run_cell", "get_skill*", "mcp_hub_deploy", "shell", "deploy"]
    rules = [{"effect": "deny", "tool": name} for name in names]
    for expected in (2, 0):
        run = lab.run(["Ok."], settings={"policy": {"rules": rules}})
        assert len(run.notes) == expected
        if expected:
            assert "deny shell” (the test) names no tool that there is now" in run.notes[0]
            assert "did you mean run_shell?" in run.notes[0]
    denied = {"calls": [call("deploy", where="x")]}
    run = lab.run([denied, "Ok."], tools=[deploy], settings={"policy": {"rules": rules}})
    assert not run.results[0].success


@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_no_search_or_listing_of_a_folder_shows_what_a_rule_keeps_back(
    effect: str, lab: Lab, tmp_path: Path
) -> None:
    """Nobody can be asked about one of many files."""
    for folder in ("patients", "sales"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("canary")
    (tmp_path / "b.txt").symlink_to("patients/a.txt")
    look = [
        call("search_files", query="canary"),
        call("list_files", recursive=True),
        call("list_files", path="sales/.."),
    ]
    before = lab.run([{"calls": look}, "Ok."])
    assert all("patients" in each.output for each in before.results)
    rule = {"effect": effect, "path": "patients/**"}
    after = lab.run([{"calls": look}, "Ok."], settings={"policy": {"rules": [rule]}})
    for each in after.results:
        assert each.success
        assert "sales" in each.output
        assert "patients" not in each.output
        assert "b.txt" not in each.output
    rule = {"effect": effect, "tool": "read_file", "path": "patients/**"}
    other = lab.run([{"calls": look}, "Ok."], settings={"policy": {"rules": [rule]}})
    assert "patients" not in other.results[0].output
    assert [each.output for each in other.results[1:]] == [e.output for e in before.results[1:]]
