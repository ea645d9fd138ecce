"""An administrator's policy holds for everybody: the sources above it may only be stricter."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import Layer, from_assignment, resolve_layers
from ipyagent.config.sources import POLICY_FILES
from ipyagent.errors import ConfigError

POLICY = Layer(
    "/etc/ipyagent/policy.yaml",
    {
        "llm": {"model": "team/default", "api_base": "https://llm.example.org"},
        "agent": {
            "confirm_mode": "confirm-sensitive",
            "max_usd": 2,
            "max_steps": 10,
            "allowed_tools": ["read_file", "list_files", "run_python"],
            "look_freely": False,
        },
        "tools": {"shell": False, "mcp": False},
        "chat": {"persist": True},
        "policy": {"rules": [{"effect": "deny", "tool": "read_file", "path": "patients/**"}]},
    },
    binding=True,
)

LAXER: list[tuple[str, Any]] = [
    ("llm.model", "openai/gpt-5.2"),
    ("llm.api_base", "https://elsewhere.example"),
    ("agent.confirm_mode", "yolo"),
    ("agent.max_usd", 3),
    ("agent.max_usd", None),
    ("agent.max_steps", 11),
    ("agent.allowed_tools", []),
    ("agent.allowed_tools", ["read_file", "write_file"]),
    ("agent.look_freely", True),
    ("tools.shell", True),
    ("tools.enable_mcp", True),
    ("chat.persist", False),
]


def sections(key: str, value: object) -> dict[str, Any]:
    section, _, name = key.partition(".")
    return {section: {name: value}}


def assert_the_policy_holds(*layers: Layer, agent: str | None = None) -> None:
    held = resolve_layers(POLICY, *layers, agent=agent)
    naive = resolve_layers(replace(POLICY, binding=False), *layers, agent=agent)
    policy = resolve_layers(POLICY).config
    assert naive.config.model_copy(update={"agents": {}}) != policy
    assert held.config.model_copy(update={"agents": {}}) == policy
    (notice,) = held.notices
    assert notice.startswith("the user")
    assert notice.endswith("because /etc/ipyagent/policy.yaml sets it for everybody.")


@pytest.mark.parametrize(("key", "value"), LAXER)
def test_no_source_loosens_the_policy(key: str, value: object) -> None:
    assert_the_policy_holds(Layer("the user", sections(key, value)))


@pytest.mark.parametrize(("key", "value"), [row for row in LAXER if row[0].startswith("agent.")])
def test_no_named_agent_loosens_the_policy(key: str, value: object) -> None:
    named = {"agents": {"mine": sections(key, value)["agent"]}}
    assert_the_policy_holds(Layer("the user", named), Layer("options", {}), agent="mine")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent.confirm_mode", "confirm-all"),
        ("agent.max_usd", 1.0),
        ("agent.allowed_tools", ("read_file",)),
        ("tools.files", False),
        ("agent.system_prompt", "Speak French."),
    ],
)
def test_what_is_stricter_or_not_in_the_policy_is_the_users(key: str, value: object) -> None:
    settled = resolve_layers(POLICY, Layer("the user", sections(key, value)))
    section, name = key.split(".")
    assert getattr(getattr(settled.config, section), name) == value
    assert settled.origins[key] == "the user"
    assert settled.notices == ()


def test_a_rule_of_the_policy_stands_beside_the_users_rules() -> None:
    own = {"policy": {"rules": [{"effect": "allow", "tool": "read_file"}]}}
    rules = resolve_layers(POLICY, Layer("the user", own)).config.policy.rules
    assert [(rule.effect, rule.source) for rule in rules] == [
        ("deny", POLICY.source),
        ("allow", "the user"),
    ]


def test_a_setting_of_the_policy_cannot_be_assigned() -> None:
    with pytest.raises(ConfigError, match=r"agent\.max_usd is set for everybody, in /etc/ipyagent"):
        from_assignment("agent.max_usd=9", POLICY)
    assert from_assignment("agent.max_usd=1", POLICY).values == {"agent": {"max_usd": "1"}}


def test_the_policy_of_the_machine_is_at_a_place_that_no_variable_moves() -> None:
    places = [Path(sys.prefix) / "etc/ipyagent/policy.yaml", Path("/etc/ipyagent/policy.yaml")]
    assert list(POLICY_FILES) == places


ATTACK = """
import json, os, sys
from ipyagent import Agent
os.environ["IPYAGENT_AGENT__CONFIRM_MODE"] = "yolo"
os.environ["XDG_CONFIG_DIRS"] = "/nowhere"
sys.prefix = "/nowhere"
agent = Agent(confirm_mode="yolo", max_usd=50, model="openai/gpt-5.2")
config = agent.config
print(json.dumps([config.agent.confirm_mode, config.agent.max_usd, config.llm.model]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with a policy of its own, and what is installed in this one."""
    place = tmp_path / "environment"
    venv.create(place, symlinks=True)
    (library,) = place.glob("lib/python*/site-packages")
    installed = sysconfig.get_path("purelib")
    (library / "installed.pth").write_text(f"import site; site.addsitedir({installed!r})")
    (place / "etc/ipyagent").mkdir(parents=True)
    return place


def run_there(environment: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("IPYAGENT_")}
    return subprocess.run(
        [environment / "bin/python", "-c", code],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("own_folders")
def test_an_environments_policy_holds_against_code_of_a_notebook(
    environment: Path, folder: Path
) -> None:
    policy = {"agent": {"confirm_mode": "confirm-all", "max_usd": 2}, "llm": {"model": "offline"}}
    (environment / "etc/ipyagent/policy.yaml").write_text(json.dumps(policy))
    done = run_there(environment, ATTACK, folder)
    assert json.loads(done.stdout) == ["confirm-all", 2, "offline"], done.stderr


@pytest.mark.usefixtures("own_folders")
def test_nothing_runs_under_a_policy_that_cannot_be_read(environment: Path, folder: Path) -> None:
    (environment / "etc/ipyagent/policy.yaml").write_text("agent: {confirm_mode: sometimes}")
    done = run_there(environment, ATTACK, folder)
    assert done.stdout == ""
    assert "etc/ipyagent/policy.yaml, line 1: agent.confirm_mode" in done.stderr
