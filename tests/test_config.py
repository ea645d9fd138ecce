"""Where settings come from, and which source wins."""

from pathlib import Path

import pytest

from ipyagent.config import (
    AppConfig,
    Config,
    Layer,
    combine,
    from_assignment,
    from_environment,
    from_file,
    late,
    values_of,
)
from ipyagent.errors import ConfigError


def test_without_any_source_the_defaults_hold() -> None:
    assert AppConfig is Config
    assert combine(Layer("nothing", {})) == Config()


@pytest.mark.spec("A57")
def test_later_layers_win_key_by_key() -> None:
    low = Layer("low", {"agent": {"max_steps": 5, "confirm_mode": "yolo"}})
    high = Layer("high", {"agent": {"max_steps": 7}})
    config = combine(low, high)
    assert (config.agent.max_steps, config.agent.confirm_mode) == (7, "yolo")


def test_the_environment_names_sections_and_keys() -> None:
    environ = {
        "IPYAGENT_LLM__API_BASE": "http://localhost:1/v1",
        "IPYAGENT_AGENT__MAX_STEPS": "3",
        "IPYAGENT_AGENT__ALLOWED_TOOLS": "read_file, list_files",
        "IPYAGENT_WORKSPACE__ALLOW_DELETE": "true",
        "IPYAGENT_LLM__RETRY__MAX_RETRIES": "0",
        "IPYAGENT_MODEL": "ollama/qwen3",
        "PATH": "/bin",
    }
    config = combine(from_environment(environ))
    assert config.llm.api_base == "http://localhost:1/v1"
    assert config.agent.max_steps == 3
    assert config.agent.allowed_tools == ("read_file", "list_files")
    assert config.workspace.allow_delete
    assert config.llm.retry.max_retries == 0
    assert config.llm.model == "ollama/qwen3"


@pytest.mark.parametrize(
    "name",
    ["IPYAGENT_LLM__API_BASE", "IPYAGENT_AGENT__CONFIRM_MODE", "IPYAGENT_WORKSPACE__ALLOW_DELETE"],
)
def test_what_decides_about_keys_and_questions_is_not_taken_from_a_late_variable(name: str) -> None:
    """A `.env` that somebody loads writes into the same environment."""
    environ = {name: "yolo" if "MODE" in name else "1", "IPYAGENT_AGENT__MAX_STEPS": "2"}
    naive = from_environment(environ)
    assert len(naive.values) == 2 or len(naive.values["agent"]) == 2
    assert from_environment(environ, {}).values == {"agent": {"max_steps": "2"}}
    assert late(environ, {}) == [name]
    assert from_environment(environ, environ).values == naive.values
    assert late(environ, environ) == []


@pytest.mark.spec("A01")
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"llm": {"modle": "x"}}, "did you mean llm.model?"),
        ({"lmm": {"model": "x"}}, "lmm is not a setting"),
        ({"agent": {"max_steps": 0}}, "agent.max_steps"),
        ({"agent": {"confirm_mode": "never"}}, "yolo"),
        ({"agent": "fast"}, "agent"),
    ],
)
def test_a_wrong_setting_names_its_source_and_the_way_out(
    values: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match="from here") as caught:
        combine(Layer("from here", values))
    assert says in str(caught.value)


def test_a_file_is_read_as_sections_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    assert from_file(path).values == {}
    path.write_text("llm:\n  model: ollama/qwen3\n")
    assert combine(from_file(path)).llm.model == "ollama/qwen3"
    for broken in ("llm: [", "- a list", "just text"):
        path.write_text(broken)
        with pytest.raises(ConfigError, match=r"config\.yaml"):
            from_file(path)


def test_an_assignment_sets_one_key_and_a_wrong_one_is_explained() -> None:
    assert combine(from_assignment("agent.max_steps = 4")).agent.max_steps == 4
    for wrong in ("agent.max_step=4", "agent.max_steps", "agent.max_steps=many"):
        with pytest.raises(ConfigError):
            from_assignment(wrong)


def test_every_setting_has_a_dotted_name() -> None:
    shown = values_of(Config())
    assert shown["llm.retry.max_retries"] == 2
    assert shown["workspace.root"] == "."
