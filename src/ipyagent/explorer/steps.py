"""Possible next steps after a prompt: a call, a look before it, or words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipyagent.explorer.workspace import Workspace


@dataclass(frozen=True)
class Task:
    """An understood prompt: one call, and how to put its result into words.

    `answer` raises UnreadableError if the tool's output has not the form of the call's.
    """

    rule: str
    tool: str
    arguments: dict[str, Any]
    answer: Callable[[str], str]


@dataclass(frozen=True)
class Look:
    """A call whose result is needed to understand the prompt."""

    rule: str
    tool: str
    arguments: dict[str, Any]
    learn: Callable[[str], Workspace]


@dataclass(frozen=True)
class Say:
    """An answer that needs no call."""

    rule: str
    text: str
    declined: bool = False


@dataclass(frozen=True)
class Part:
    """Lines that answer one question, the names to delete after them, and the answer in words."""

    rule: str
    lines: tuple[str, ...]
    answer: Callable[[str], str]
    drop: tuple[str, ...] = ()
    copies: bool = False
    """Its code works on a copy of the table in pandas: it is one of polars."""


Step = Task | Look | Say


class MisfitError(Exception):
    """The words fit an intent, but not this table. The message says why.

    `offers` are pairs of words of the prompt and what could be written for them.
    """

    def __init__(self, why: str, offers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.offers = offers
