"""The profiles that come with the package."""

from pathlib import Path
from typing import Any

import pytest

from ipyagent import Agent, Scripted
from ipyagent.config import Config, Layer, base_layers, resolve_config, resolve_layers
from ipyagent.config.settings import BUILT_IN_PROFILES, has_profile_tools
from ipyagent.errors import AgentNotFoundError

NAMES = ["explain", "plan", "review", "write"]
LAST = Layer("the cell", {})


def chosen(name: str, *layers: Layer) -> Config:
    return resolve_config(BUILT_IN_PROFILES, *layers, LAST, agent=name)


@pytest.mark.spec("A58")
def test_there_are_four_and_an_unknown_name_lists_them() -> None:
    assert list(resolve_config(*base_layers({}, None)).agents) == NAMES
    with pytest.raises(AgentNotFoundError, match="there are: explain, plan, review, write"):
        resolve_config(*base_layers({}, None), LAST, agent="nobody")
    with pytest.raises(AgentNotFoundError, match="did you mean review"):
        resolve_config(*base_layers({}, None), LAST, agent="reviwe")


@pytest.mark.spec("A58")
@pytest.mark.parametrize("name", NAMES)
def test_each_runs_and_none_may_run_code_unasked(name: str, tmp_path: Path) -> None:
    model = Scripted(["Fine."])
    run = Agent(model, profile=name, root=tmp_path, persist=False).ask("Go.")
    assert (run.outcome, run.agent) == ("success", name)
    offered = {tool.name for tool in model.requests[0].tools}
    assert ("run_python" in offered) == (name == "plan")
    assert ("edit_file" in offered) == (name in ("plan", "write"))
    assert "read_file" in offered
    assert (
        resolve_config(BUILT_IN_PROFILES).agents[name].system_prompt
        in model.requests[0].messages[0].text
    )


@pytest.mark.spec("A58")
def test_plan_proposes_before_it_does_anything(tmp_path: Path) -> None:
    call = {"name": "write_file", "arguments": {"path": "x", "content": "y"}}
    run = Agent(Scripted([{"calls": [call]}]), profile="plan", root=tmp_path).ask("Write x.")
    assert [step.call.name for step in run.plan] == ["write_file"]
    assert not (tmp_path / "x").exists()


@pytest.mark.spec("A58")
def test_groups_that_are_switched_off_leave_the_rest_of_a_profile(tmp_path: Path) -> None:
    model = Scripted(["Fine."])
    (tmp_path / "ipyagent.yaml").write_text("tools: {notes: false, notebook: false}")
    run = Agent(model, profile="review", root=tmp_path, persist=False).ask("Go.")
    assert run.outcome == "success", run.error
    offered = {tool.name for tool in model.requests[0].tools}
    assert "read_file" in offered
    assert not {"recall_notes", "read_notebook"} & offered


@pytest.mark.spec("A50", "A58")
def test_a_profile_of_the_user_s_own_takes_the_place_of_one_with_its_name() -> None:
    mine = Layer("config.yaml", {"agents": {"review": {"max_steps": 3}}})
    config = chosen("review", mine).agent
    assert (config.max_steps, config.allowed_tools, config.system_prompt) == (3, (), None)
    assert not has_profile_tools("review", config)
    assert chosen("explain", mine).agent.allowed_tools


@pytest.mark.spec("A58")
@pytest.mark.parametrize("theirs", [{}, {"allowed_tools": []}, {"allowed_tools": "run_python"}])
def test_a_folder_cannot_widen_one(theirs: dict[str, Any], tmp_path: Path) -> None:
    values = {"agents": {"review": {"max_steps": 3, **theirs}}}
    folder = Layer("ipyagent.yaml", values, trusted=False, folder=tmp_path)
    config = chosen("review", folder).agent
    assert config.allowed_tools == chosen("review").agent.allowed_tools
    assert config.max_steps == 3


@pytest.mark.spec("A58")
def test_one_does_not_allow_what_the_user_s_settings_leave_out() -> None:
    mine = Layer("config.yaml", {"agent": {"allowed_tools": "read_file, run_python"}})
    assert chosen("write", mine).agent.allowed_tools == ("read_file",)
    assert resolve_layers(BUILT_IN_PROFILES, mine, LAST, agent="write").notices == ()
