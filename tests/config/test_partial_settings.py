"""While a source of settings is damaged, the rest of them can still be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipyagent.config import Layer, from_file, resolve_config, resolve_readable, user_file
from ipyagent.config.yaml_lines import describe_lines
from ipyagent.errors import ConfigError

NOTHING = Layer("%agent", {})


@pytest.mark.parametrize(
    ("text", "problem", "steps"),
    [
        ("llm:\n  model: [open\n", "config.yaml is not YAML: look at line 3", 20),
        ("agent:\n  max_steps: 7\nllm:\n  modle: x\n", "config.yaml, line 4: llm.modle", 7),
        ("agent:\n  max_step: 7\n  max_usd: lots\n", "config.yaml, lines 2 and 3: ", 20),
        ("- a list\n", "config.yaml: expected sections", 20),
        ("agent:\n  max_steps: many\n", "config.yaml, line 2: agent.max_steps", 20),
    ],
)
def test_a_damaged_file_of_the_user_leaves_the_rest_to_be_shown(
    folder: Path, text: str, problem: str, steps: int
) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text(text)
    environ = {"IPYAGENT_AGENT__MAX_SECONDS": "9"}
    settings, problems = resolve_readable(environ, environ, folder, NOTHING)
    (said,) = problems
    assert problem in said
    assert settings.config.agent.max_steps == steps
    assert settings.config.agent.max_seconds == 9
    with pytest.raises(ConfigError):  # by half of a file no agent runs
        resolve_config(from_file(user_file()))


def test_each_damaged_source_is_named(folder: Path) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("[")
    environ = {"IPYAGENT_AGENT__MAX_STEP": "9"}
    made = Layer("%agent", {"llm": {"modle": "x"}})
    settings, problems = resolve_readable(environ, environ, folder, made)
    assert [each.split(":")[0].split(",")[0] for each in problems] == [
        f"{user_file()} is not YAML",
        "the environment (IPYAGENT_…)",
        "%agent",
    ]
    assert settings.config == resolve_config(Layer("nothing", {})).model_copy(
        update={"agents": settings.config.agents}
    )


def test_settings_that_are_right_are_those_in_force(folder: Path) -> None:
    settings, problems = resolve_readable(
        {}, {}, folder, Layer("%agent", {"agent": {"max_steps": 3}})
    )
    assert (settings.config.agent.max_steps, problems) == (3, ())


@pytest.mark.parametrize(
    ("text", "keys", "place"),
    [
        ("a:\n  b: 1\n  c:\n  - 1\n  - d: 2\n", [("a", "b")], ", line 2"),
        ("a:\n  b: 1\n  c:\n  - 1\n  - d: 2\n", [("a", "c", 1, "d")], ", line 5"),
        ("a:\n  b: 1\n", [("a", "b", "int"), ("a", "missing")], ", lines 1 and 2"),
        ("a: 1\n", [("b",), ()], ""),
        ("{", [("a",)], ""),
        ("", [("a",)], ""),
        ("? [1, 2]\n: 3\na: 1\n", [("a",)], ", line 3"),
        ("&x a: *x\n", [("a", "a")], ", line 1"),
    ],
)
def test_a_setting_is_found_in_its_text(
    text: str, keys: list[tuple[object, ...]], place: str
) -> None:
    assert describe_lines(text.encode(), keys) == place
