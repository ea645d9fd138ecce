"""`%agent cost` says what a session used, and a price only where one is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ipyagent.magic import commands
from ipyagent.schema import Run, Step, TokenUsage

FREE, PRICED, UNKNOWN = "offline/explorer", "openai/gpt-4o", "ollama/qwen3"


def cost_of(*runs: tuple[str, float | None], cached: int = 0) -> list[str]:
    """Return the lines for a session with runs of these models, at these prices."""
    usage = TokenUsage(prompt_tokens=1200, completion_tokens=30, cache_read_tokens=cached)
    ended = [
        Run(id=f"r{at}", prompt=f"Question {at}", model=model, steps=(step,))
        for at, (model, cost) in enumerate(runs)
        for step in [Step(number=1, usage=usage, cost_usd=cost)]
    ]
    session = SimpleNamespace(name="s", runs=ended)
    book: Any = SimpleNamespace(sessions=SimpleNamespace(newest=session))
    return commands.COMMANDS["cost"](book, "").splitlines()


@pytest.mark.parametrize(
    ("runs", "prices"),
    [
        ([(FREE, None), (FREE, None)], ["free", "free", "free"]),
        ([(PRICED, 0.25), (PRICED, 0.5)], ["$0.2500", "$0.5000", "$0.7500"]),
        ([(UNKNOWN, None)], ["no price known"] * 2),
        ([(FREE, None), (UNKNOWN, None)], ["free", "no price known", "no price known"]),
        ([(FREE, None), (PRICED, 0.5)], ["free", "$0.5000", "$0.5000"]),
        ([(PRICED, 0.0)], ["$0.0000", "$0.0000"]),
    ],
)
def test_only_runs_without_a_service_are_free(
    runs: list[tuple[str, float | None]], prices: list[str]
) -> None:
    assert [line.partition(" out  ")[2] for line in cost_of(*runs)] == prices


def test_tokens_are_added_and_those_from_a_cache_named() -> None:
    *_, last = cost_of((PRICED, 0.5), (PRICED, 0.5), cached=400)
    assert " ".join(last.split()) == "together in s 2,400 in, 800 of them cached 60 out $1.0000"
    assert "cached" not in cost_of((PRICED, 0.5))[-1]
