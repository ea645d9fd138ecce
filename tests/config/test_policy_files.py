"""An administrator's policy holds for everybody: the sources above it may only be stricter."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import Layer, base_layers, from_assignment, resolve_layers, sources
from ipyagent.config.sources import POLICY_FILES
from ipyagent.errors import ConfigError

POLICY = Layer(
    "/etc/ipyagent/policy.yaml",
    {
        "llm": {
            "model": "team/default",
            "api_base": "https://llm.example.org",
            "api_key_env": "TEAM_KEY",
        },
        "agent": {
            "confirm_mode": "confirm-sensitive",
            "max_usd": 2,
            "max_steps": 10,
            "allowed_tools": ["read_file", "list_files", "run_python"],
            "look_freely": False,
            "numbers": "ask",
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
    ("llm.api_key", "another's"),
    ("agent.confirm_mode", "yolo"),
    ("agent.max_usd", 3),
    ("agent.max_usd", None),
    ("agent.max_steps", 11),
    ("agent.allowed_tools", []),
    ("agent.allowed_tools", ["read_file", "write_file"]),
    ("agent.look_freely", True),
    ("agent.numbers", "show"),
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


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_policies_the_stricter_limit_holds(order: tuple[int, int]) -> None:
    policies = (
        Layer("one", {"agent": {"max_usd": 1, "confirm_mode": "confirm-all"}}, binding=True),
        Layer("other", {"agent": {"max_usd": 5}, "tools": {"mcp": False}}, binding=True),
    )
    user = Layer("the user", {"agent": {"max_usd": 9}, "tools": {"mcp": True}})
    config = resolve_layers(*(policies[each] for each in order), user).config
    assert config.agent.max_usd == 1
    assert config.agent.confirm_mode == "confirm-all"
    assert not config.tools.mcp


def test_a_user_may_change_a_named_agent_of_the_policy_within_its_limits() -> None:
    offer = {"agent": {"max_usd": 2}, "agents": {"team": {"max_usd": 1, "system_prompt": "Hi."}}}
    policy = Layer("/etc/ipyagent/policy.yaml", offer, binding=True)
    own = Layer("the user", {"agents": {"team": {"max_usd": 1.5, "system_prompt": "Ho."}}})
    settled = resolve_layers(policy, own, Layer("options", {}), agent="team")
    assert (settled.config.agent.max_usd, settled.config.agent.system_prompt) == (1.5, "Ho.")
    assert settled.notices == ()
    assert from_assignment("agents.team.max_usd=1.5", policy)
    large = Layer("the user", {"agents": {"team": {"max_usd": 50}}})
    assert (
        resolve_layers(policy, large, Layer("options", {}), agent="team").config.agent.max_usd == 2
    )


BROKEN = {
    "tools: {shell: false}\ntools: {mcp: false}\n": "has a key twice",
    "policy:\n  rules:\n  - {effect: deny, tool: read_file, tool: query}\n": "line 3, column 37",
    "tools: {shell: sometimes}": "tools.shell",
    " \n": "is empty",
}


@pytest.fixture
def policy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "etc/ipyagent/policy.yaml"
    monkeypatch.setattr(sources, "POLICY_FILES", (file,))
    return file


def why_nothing_runs() -> str:
    with pytest.raises(ConfigError) as caught:
        base_layers({}, None)
    assert str(caught.value).endswith(". Ask your administrator: nothing runs until it is right")
    return str(caught.value)


@pytest.mark.parametrize("text", BROKEN)
def test_a_policy_of_which_a_part_would_not_count_stops_everything(
    text: str, policy_file: Path
) -> None:
    policy_file.parent.mkdir(parents=True)
    policy_file.write_text(text)
    assert BROKEN[text] in why_nothing_runs()
    policy_file.write_text("# Nothing is set here.\nagent: {max_usd: 2}\n")
    assert resolve_layers(*base_layers({}, None)).config.agent.max_usd == 2


def test_a_policy_behind_a_link_that_leads_nowhere_stops_everything(policy_file: Path) -> None:
    assert resolve_layers(*base_layers({}, None)).notices == ()
    policy_file.parent.mkdir(parents=True)
    for target in ("nowhere.yaml", policy_file.name):
        policy_file.symlink_to(target)
        assert "cannot be read" in why_nothing_runs()
        policy_file.unlink()
    policy_file.parent.rmdir()
    policy_file.parent.symlink_to("a share that is not mounted")
    assert "cannot be read" in why_nothing_runs()


def test_a_policy_in_a_folder_that_is_closed_stops_everything(policy_file: Path) -> None:
    policy_file.parent.mkdir(parents=True)
    policy_file.parent.chmod(0o000)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            if os.geteuid() == 0:  # which may read everything
                os.setuid(65534)
            os._exit(0 if "cannot be read" in why_nothing_runs() else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_policy_of_the_machine_is_at_a_place_that_no_variable_moves() -> None:
    places = [Path(sys.prefix) / "etc/ipyagent/policy.yaml", Path("/etc/ipyagent/policy.yaml")]
    assert list(POLICY_FILES) == places


ATTACK = """
import json, os, sys
from ipyagent import Agent
from ipyagent.config import Layer
os.environ["IPYAGENT_AGENT__CONFIRM_MODE"] = "yolo"
os.environ["XDG_CONFIG_DIRS"] = "/nowhere"
sys.prefix = "/nowhere"
mine = Layer("mine", {"llm": {"model": "openai/gpt-5.2"}}, binding=True)
agent = Agent(confirm_mode="yolo", max_usd=50, model="openai/gpt-5.2", layers=[mine])
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


ARGUMENTS = """
from ipyagent import Agent, Scripted, Session
agent = Agent(Scripted([{"calls": [{"name": "list_files", "arguments": {}}]}, "Done."]))
print(agent.ask("List.", plan=False).status)
agent.save("saved.json")
print(Agent(Scripted(["Done."]), session=Session.load("saved.json")).ask("Again.").error)
"""


@pytest.mark.usefixtures("own_folders")
def test_no_argument_takes_back_what_an_environments_policy_switches_on(
    environment: Path, folder: Path
) -> None:
    policy = {"agent": {"plan": True}, "chat": {"persist": True}}
    (environment / "etc/ipyagent/policy.yaml").write_text(json.dumps(policy))
    done = run_there(environment, ARGUMENTS, folder)
    first, second = done.stdout.splitlines()
    assert first == "draft", done.stderr
    assert "chat.persist is set for everybody" in second


@pytest.mark.usefixtures("own_folders")
def test_nothing_runs_under_a_policy_that_cannot_be_read(environment: Path, folder: Path) -> None:
    (environment / "etc/ipyagent/policy.yaml").write_text("agent: {confirm_mode: sometimes}")
    done = run_there(environment, ATTACK, folder)
    assert done.stdout == ""
    assert "etc/ipyagent/policy.yaml, line 1: agent.confirm_mode" in done.stderr
