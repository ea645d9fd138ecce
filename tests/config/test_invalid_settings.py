"""One wrong setting of a folder that nobody trusts is left out and reported; the rest holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import Config, Layer, Settings, resolve_layers, trust, workspace_layers
from ipyagent.errors import ConfigError

GOOD = "agent: {max_steps: 3}\n"
WRONG: dict[str, tuple[Any, str]] = {
    "a rule for everything": (
        {"policy": {"rules": [{"tool": "*", "effect": "allow"}]}},
        "policy.rules",
    ),
    "a rule of another kind": ({"policy": {"rules": [7]}}, "policy.rules.0"),
    "no list of rules": ({"policy": {"rules": {"tool": "a"}}}, "policy.rules"),
    "two ways to say a number": (
        {"llm": {"retries": 1, "retry": {"max_retries": 2}}},
        "say different things",
    ),
    "a word for a number": ({"agent": {"max_seconds": "soon"}}, "agent.max_seconds"),
    "a list for a word": ({"llm": {"model": ["a"]}}, "llm.model"),
    "a word for a section": ({"tools": "none"}, "tools"),
    "nothing for a section": ({"tools": None}, "tools"),
    "an unknown key": ({"agent": {"max_step": 1}}, "agent.max_step"),
    "an unknown section": ({"agnet": {"max_steps": 1}}, "agnet"),
    "a number for a key": ({7: {"a": 1}}, "7"),
    "a key that is no setting": ({"chat": {"verbose": True}}, "logging.verbose"),
    "a server with two ways to it": (
        {"mcp": {"servers": [{"name": "a", "url": "http://h", "command": "c"}]}},
        "mcp.servers.0",
    ),
    "a wrong profile": ({"agents": {"x": {"max_steps": "many"}}}, "agents.x.max_steps"),
    "a profile that is none": ({"agents": {"x": 5}}, "agents.x"),
    "a number for a profile": ({"agents": {7: {"max_steps": 1}}}, "agents.7"),
    "numbers for a profile": ({"agents": {7: 8}}, "agents.7"),
    "much at once": (
        {f"section_{n}": n for n in range(300)} | {"llm": {"timeout": {}, "model": {}}},
        "is not a setting",
    ),
}


def of(values: Any) -> Layer:
    """A folder's layer, untrusted, with something good beside what is wrong."""
    values = {**values, "agent": {"max_steps": 3, **values.get("agent", {})}}
    return Layer("ipyagent.yaml", values, trusted=False)


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_left_out_and_named_and_the_rest_holds(case: str) -> None:
    values, named = WRONG[case]
    settings = resolve_layers(of(values))
    assert settings.config.agent.max_steps == 3
    assert settings.config.policy.rules == ()
    (notice,) = settings.notices
    assert notice.startswith("ipyagent.yaml: invalid settings there are ignored: ")
    assert named in notice


@pytest.mark.parametrize("case", WRONG)
def test_the_same_is_an_error_in_settings_that_the_user_made_or_trusts(case: str) -> None:
    with pytest.raises(ConfigError, match="yours"):
        resolve_layers(Layer("yours", WRONG[case][0]))


def test_of_several_rules_only_the_wrong_one_is_left_out() -> None:
    good = [{"tool": tool, "effect": "deny"} for tool in ("run_python", "write_file")]
    rules = [good[0], {"tool": "*", "effect": "allow"}, {"effect": "perhaps"}, good[1]]
    config = resolve_layers(of({"policy": {"rules": rules}})).config
    assert [rule.tool for rule in config.policy.rules] == [("run_python",), ("write_file",)]


def test_keys_that_exclude_each_other_take_their_section_with_them() -> None:
    agent = {"system_prompt": "x", "system_prompt_path": "y"}
    settings = resolve_layers(of({"agent": agent, "context": {"token_limit": 9}}))
    assert settings.config.agent == Config().agent
    assert settings.config.context.token_limit == 9
    both = {"agent": {"workspace_dir": "a"}, "workspace": {"root": "b"}}
    assert resolve_layers(of(both)).config.workspace == Config().workspace


def write(folder: Path, name: str, data: bytes) -> Settings:
    (folder / name).write_bytes(data)
    return resolve_layers(*workspace_layers(folder))


@pytest.mark.parametrize(
    "data",
    [
        b"agent: {max_steps: 3",
        b"\xff\xfe\x00\x01",
        b"- a\n- b\n",
        b"!!python/object:os.system x",
        b"a: " + b"x" * 300_000,
        b"[" * 5_000,
        b"a: 9999-99-99",
        b"? {a: 1}\n: 2",
    ],
)
@pytest.mark.parametrize("name", ["ipyagent.yaml", "pyproject.toml"])
def test_a_file_that_cannot_be_read_is_ignored_with_a_notice(
    folder: Path, name: str, data: bytes
) -> None:
    other = {"ipyagent.yaml": "pyproject.toml", "pyproject.toml": "ipyagent.yaml"}[name]
    (folder / other).write_text(
        GOOD if other == "ipyagent.yaml" else "[tool.ipyagent.agent]\nmax_steps = 3\n"
    )
    settings = write(folder, name, data)
    assert settings.config.agent.max_steps == 3
    (notice,) = settings.notices
    assert notice.startswith(name)
    with pytest.raises(ConfigError, match=name):
        trust(folder)


def test_what_is_no_file_is_ignored_with_a_notice(folder: Path) -> None:
    os.mkfifo(folder / "ipyagent.yaml")
    (folder / "pyproject.toml").mkdir()
    settings = resolve_layers(*workspace_layers(folder))
    assert settings.config == Config()
    assert len(settings.notices) == 2


def test_trust_that_was_given_does_not_cover_a_file_that_became_unreadable(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.ipyagent.agent]\nconfirm_mode = 'yolo'\n")
    trust(folder)
    assert resolve_layers(*workspace_layers(folder)).config.agent.confirm_mode == "yolo"
    settings = write(folder, "ipyagent.yaml", b"{")
    assert settings.config.agent.confirm_mode != "yolo"
