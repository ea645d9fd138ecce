"""Subcommands refuse words that they do not take, instead of passing over them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipyagent.errors import ConfigError
from ipyagent.magic import commands, subcommands
from ipyagent.wiring import Services

OWN = {"deny", "freeze", "say", "session", "mcp", "api", "policy"}
"""Subcommands that look at their words themselves: a text, or subcommands of their own."""

FREE = {("mcp", "add"), ("mcp", "register"), ("session", "edit")}
"""What takes any number of words."""


@pytest.fixture
def book(tmp_path: Path) -> Any:
    """As much of a notebook as is there before the words are looked at."""
    return SimpleNamespace(services=Services(tmp_path, tmp_path))


@pytest.mark.parametrize("name", sorted(commands.COMMANDS))
def test_words_that_are_not_taken_are_refused(name: str) -> None:
    if name in OWN:
        assert name not in commands.TAKES
        return
    taken = commands.TAKES[name].split()
    commands.check_words(name, " ".join(["x"] * len(taken)))
    with pytest.raises(ConfigError, match=f"^usage: %agent {name}".strip()):
        commands.check_words(name, " ".join(["x"] * (len(taken) + 1)))


def test_a_setting_may_hold_blanks() -> None:
    commands.check_words("config", "agent.system_prompt=Answer in a few words")


@pytest.mark.parametrize(
    ("of", "name", "arguments"),
    [
        (of, name, table[name].arguments)
        for of, table in (
            ("api", subcommands.API),
            ("mcp", subcommands.MCP),
            ("session", subcommands.SESSION),
        )
        for name in table
        if (of, name) not in FREE
    ],
)
def test_so_do_subcommands_of_subcommands(book: Any, of: str, name: str, arguments: str) -> None:
    run: Any = commands.COMMANDS[of]
    too_many = ["x", *arguments.partition("[--")[0].split()]
    with pytest.raises(ConfigError, match=f"^usage: %agent {of} {name}"):
        run(book, " ".join([name, *too_many]))


def test_so_does_policy(book: Any) -> None:
    for words in ("x", "forget a b"):
        with pytest.raises(ConfigError, match="%agent policy"):
            commands.COMMANDS["policy"](book, words)


def test_the_help_of_options_and_commands_stands_in_one_column(book: Any) -> None:
    lines = commands.COMMANDS["help"](book, "").splitlines()
    rows = [line for line in lines if line.startswith(("  -", "  %agent"))]
    assert len(rows) > 40
    begins = {found.end() for row in rows if (found := re.search(r"\S {2,}(?=\S)", row))}
    assert len(begins) == 1
