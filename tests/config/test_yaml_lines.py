"""Lines of settings in a file, which errors name."""

from __future__ import annotations

import pytest

from ipyagent.config import from_file, resolve_config, user_file
from ipyagent.config.sources import describe_lines
from ipyagent.errors import ConfigError


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("llm:\n  model: [open\n", "config.yaml is not YAML: look at line 3"),
        ("agent:\n  max_steps: 7\nllm:\n  modle: x\n", "config.yaml, line 4: llm.modle"),
        ("agent:\n  max_step: 7\n  max_usd: lots\n", "config.yaml, lines 2 and 3: "),
        ("- a list\n", "config.yaml: expected sections"),
        ("agent:\n  max_steps: many\n", "config.yaml, line 2: agent.max_steps"),
    ],
)
def test_an_error_in_the_users_file_names_its_line(text: str, problem: str) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text(text)
    with pytest.raises(ConfigError, match=problem):
        resolve_config(from_file(user_file()))


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
