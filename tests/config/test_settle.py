"""What the layers add up to, where each value comes from, and named agents."""

from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import (
    Layer,
    base_layers,
    from_environment,
    from_file,
    resolve_config,
    resolve_layers,
    setting_rows,
    user_file,
)
from ipyagent.config.sections import SETTING_NAMES, iter_settings
from ipyagent.errors import AgentNotFoundError, ConfigError


@pytest.mark.spec("A57")
def test_each_source_wins_over_those_below_it(folder: Path, tmp_path: Path) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("agent: {max_steps: 16, max_tokens: 1, max_usd: 2}\nllm: {timeout: 1}")
    (folder / "pyproject.toml").write_text("[tool.ipyagent]\nagent.max_steps = 15\nllm.timeout = 2")
    (folder / "ipyagent.yaml").write_text("agent: {max_steps: 14}\nllm: {timeout: 3}")
    environ = {"IPYAGENT_AGENT__MAX_STEPS": "13", "IPYAGENT_LLM__TIMEOUT": "4"}
    file = tmp_path / "cell.yaml"
    file.write_text("agent: {max_steps: 11}")
    layers = [
        *base_layers(environ, None, folder),
        Layer("%agent", {"agent": {"max_steps": 12}}),
        from_file(file),
        Layer("%%agent's options", {"agent": {"max_steps": "10"}}),
    ]
    steps = [resolve_layers(*layers[: n + 1]) for n in range(len(layers))]
    assert [each.config.agent.max_steps for each in steps] == [20, 16, 15, 14, 13, 12, 11, 10]
    assert [each.origins["agent.max_steps"] for each in steps] == [
        "default",  # the built-in profiles come first
        str(user_file()),
        "pyproject.toml [tool.ipyagent]",
        "ipyagent.yaml",
        "the environment (IPYAGENT_…)",
        "%agent",
        str(file),
        "%%agent's options",
    ]
    last = steps[-1]
    assert (last.config.llm.timeout, last.origins["llm.timeout"]) == (4, layers[4].source)
    assert (last.config.agent.max_tokens, last.config.agent.max_usd) == (1, 2)
    assert last.origins["agent.max_seconds"] == "default"
    assert set(last.origins) == {".".join(key) for key, _ in iter_settings(last.config)}
    assert last.notices == ()


@pytest.mark.spec("A57")
def test_a_key_of_a_section_keeps_its_value_when_a_later_layer_sets_another() -> None:
    low = Layer("low", {"llm": {"retries": 5}, "agent": {"confirm_mode": "yolo"}})
    high = Layer("high", {"llm": {"retry": {"initial_delay": 0}}, "agent": {"max_steps": 7}})
    settings = resolve_layers(low, high)
    assert settings.config.llm.retry.max_retries == 5
    assert settings.config.agent.confirm_mode == "yolo"
    assert settings.origins["llm.retry.max_retries"] == "low"
    assert settings.origins["llm.retry.initial_delay"] == "high"
    over = Layer("over", {"llm": {"retry": {"max_retries": 1}}, "agent": {"workspace_dir": "d"}})
    settings = resolve_layers(low, high, over)
    assert settings.config.llm.retry.max_retries == 1
    assert settings.origins["workspace.root"] == "over"


@pytest.mark.spec("A03")
def test_a_proxy_needs_an_address_from_any_source() -> None:
    proxy = Layer("the file", {"llm": {"mode": "proxy"}})
    with pytest.raises(ConfigError, match=r"the file: .*llm\.api_base must say"):
        resolve_layers(proxy)
    base = Layer("b", {"llm": {"api_base": "http://p"}})
    assert (
        resolve_layers(proxy, base).config.llm.mode
        == resolve_layers(base, proxy).config.llm.mode
        == "proxy"
    )


def test_a_wrong_value_is_wrong_also_where_a_later_layer_sets_another() -> None:
    with pytest.raises(ConfigError, match=r"low: agent\.max_steps"):
        resolve_layers(
            Layer("low", {"agent": {"max_steps": 0}}), Layer("hi", {"agent": {"max_steps": 1}})
        )


@pytest.mark.spec("A10", "M07")
def test_of_a_prompt_and_a_file_with_one_the_later_holds() -> None:
    text = Layer("text", {"agent": {"system_prompt": "Be brief."}})
    path = Layer("path", {"agent": {"system_prompt_path": "house.md"}})
    agent = resolve_config(text, path).agent
    assert (agent.system_prompt, agent.system_prompt_path) == (None, "house.md")
    agent = resolve_config(path, text).agent
    assert (agent.system_prompt, agent.system_prompt_path) == ("Be brief.", None)
    none = Layer("none", {"agent": {"system_prompt": None}})
    assert resolve_config(path, none).agent.system_prompt_path == "house.md"
    both = Layer("both", {"agent": {"system_prompt": "a", "system_prompt_path": "b"}})
    with pytest.raises(ConfigError, match=r"both: .*both set"):
        resolve_config(both)


AGENTS = Layer(
    "file",
    {
        "agent": {"max_steps": 9, "max_tokens": 5, "system_prompt_path": "house.md"},
        "agents": {
            "reviewer": {"max_steps": 4, "allowed_tools": "read_file", "system_prompt": "Review."},
            "plain": {},
            "v1.2": {"max_steps": 2},
        },
    },
)
NOTHING = Layer("nothing", {})


@pytest.mark.spec("A24", "A50")
def test_a_named_agent_is_laid_over_the_agents_settings() -> None:
    settings = resolve_layers(AGENTS, NOTHING, agent="reviewer")
    agent = settings.config.agent
    assert (agent.max_steps, agent.max_tokens) == (4, 5)
    assert agent.allowed_tools == ("read_file",)
    assert (agent.system_prompt, agent.system_prompt_path) == ("Review.", None)
    assert settings.origins["agent.max_steps"] == "file, agents.reviewer"
    assert settings.origins["agent.max_tokens"] == "file"
    assert (
        resolve_layers(AGENTS, NOTHING, agent="plain").config.agent
        == resolve_layers(AGENTS).config.agent
    )
    assert resolve_layers(AGENTS, NOTHING, agent="v1.2").config.agent.max_steps == 2
    assert resolve_layers(AGENTS).config.agent.max_steps == 9
    assert resolve_layers(AGENTS).origins["agents.v1.2.max_steps"] == "file"


@pytest.mark.spec("A24", "A57")
def test_what_the_person_says_right_now_wins_over_a_named_agent() -> None:
    session = Layer("%agent", {"agent": {"max_steps": 8}})
    cell = Layer("%%agent's options", {"agent": {"max_steps": 1}})
    assert resolve_layers(AGENTS, session, NOTHING, agent="reviewer").config.agent.max_steps == 4
    assert resolve_layers(AGENTS, session, cell, agent="reviewer").config.agent.max_steps == 1


@pytest.mark.spec("A24")
def test_sources_add_keys_to_a_named_agent_of_others() -> None:
    env = from_environment({"IPYAGENT_AGENTS__REVIEWER__MAX_USD": "1"})
    agent = resolve_layers(AGENTS, env, NOTHING, agent="reviewer").config.agent
    assert (agent.max_usd, agent.max_steps) == (1, 4)


@pytest.mark.spec("A50")
@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (AGENTS, ["'reviewr'", "did you mean reviewer?", "plain, reviewer, v1.2"]),
        (NOTHING, ["'reviewr'", "agents.NAME"]),
    ],
)
def test_an_unknown_agent_names_the_nearest_and_those_there_are(
    layer: Layer, says: list[str]
) -> None:
    with pytest.raises(AgentNotFoundError) as caught:
        resolve_layers(layer, NOTHING, agent="reviewr")
    assert all(each in str(caught.value) for each in says)


def test_where_a_folder_s_profile_is_refused_the_person_s_own_holds() -> None:
    person = Layer("person", {"agents": {"p": {"allowed_tools": ["b"]}}})
    general = Layer("ws", {"agent": {"allowed_tools": "a"}}, trusted=False)
    profile = Layer("ws", {"agents": {"p": {"allowed_tools": "b"}}}, trusted=False)
    settled = resolve_layers(person, general, profile, Layer("cell", {}), agent="p")
    assert settled.config.agent.allowed_tools == ("b",)


def test_the_settings_are_shown_with_their_sources() -> None:
    layers: list[dict[str, Any]] = [
        {"agent": {"allowed_tools": ["a", "b"], "max_usd": 0.5}, "llm": {"stream": False}},
        {
            "mcp": {"servers": [{"name": "one", "url": "http://h"}]},
            "agents": {"r": {"max_steps": 1}},
        },
    ]
    rows = {
        row.key: row[1:]
        for row in setting_rows(
            resolve_layers(*(Layer(f"s{n}", each) for n, each in enumerate(layers)))
        )
    }
    assert rows["agent.allowed_tools"] == ("a, b", "s0")
    assert rows["agent.max_usd"] == ("0.5", "s0")
    assert rows["llm.stream"] == ("false", "s0")
    assert rows["mcp.servers"] == ("one", "s1")
    assert rows["agents.r.max_steps"] == ("1", "s1")
    assert rows["llm.model"] == ("not set", "default")
    assert set(SETTING_NAMES) <= set(rows)


def test_what_is_shown_stays_on_its_line() -> None:
    rows = setting_rows(
        resolve_layers(Layer("x", {"agent": {"system_prompt": "a\nagent.max_steps 1\x1b[A"}}))
    )
    (row,) = (row for row in rows if row.key == "agent.system_prompt")
    assert row.value == "a↵agent.max_steps 1⟨U+001B⟩[A"
