"""Ask the user a question: the answer is the call's result."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ipyagent.schema import Question
from ipyagent.tools.base import Tool, tool

Text = Annotated[str, Field(min_length=1, max_length=2_000)]
Choices = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=8)]


def question_tool() -> Tool:
    """Return `ask_user`."""
    return _ask_user


def _build_question(question: str, choices: list[str] | None) -> Question:
    return Question(text=question, choices=tuple(choices or ()))


@tool(name="ask_user", question=_build_question)
def _ask_user(question: Text, choices: Choices | None = None) -> str:
    """Ask what only the user knows; they may pick one of the choices.

    Never ask for permission: calls do that themselves.
    """
    raise AssertionError("the answer is the result; there is nothing to call")
