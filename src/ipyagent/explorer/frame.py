"""A question's frame: conditions, groups, order, rounding and methods set apart, and a core.

Patterns over tags are regular expressions whose words are tags, such as `"STAT+ OF? COL"`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Token:
    """A piece of a prompt. `text` is the original spelling; UNKNOWN: nothing accounts for it."""

    tag: str
    value: Any
    text: str


Tokens = list[Token]


@dataclass(frozen=True)
class Condition:
    """A test on one column, such as `species == "Adelie"`, or on a part of its dates.

    The sign may be `in` or `not in` a list of values, and `null` or `known` without a value.
    """

    column: str
    sign: str
    value: Any = None
    part: str = ""

    def __str__(self) -> str:
        left = f"{self.part} of {self.column}" if self.part else self.column
        if self.sign in ("null", "known"):
            return f"{left} is {'missing' if self.sign == 'null' else 'known'}"
        if self.sign in ("in", "not in"):
            return f"{left} {self.sign} {', '.join(map(str, self.value))}"
        return f"{left} {'=' if self.sign == '==' else self.sign} {self.value}"


Where = tuple[Condition, ...]


@dataclass
class Frame:
    """The parts of a question; `core` is what an intent has to match whole.

    `target` is the condition that a share is about, `named` are the tables and files.
    """

    core: Tokens = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    target: Condition | None = None
    by: list[str] = field(default_factory=list)
    period: str = ""
    colour: list[str] = field(default_factory=list)
    digits: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    order: tuple[str, str] | None = None  # a column, and the end that comes first
    named: Tokens = field(default_factory=list)
    entity: Token | None = None
    pronoun: bool = False
    path: str = ""  # of the file to save to
    follows: bool = False  # another question, whose rows it may mean
    asks: bool = False  # begins with `is`: a question for yes or no

    @property
    def tags(self) -> str:
        """The tags of the core, each with a space after it."""
        return spell_tags(self.core)

    @property
    def slots(self) -> set[str]:
        """The names of the slots that are filled."""
        names = ("where", "by", "period", "colour", "order", "target")
        return {name for name in names if getattr(self, name)}

    @property
    def only_modifies(self) -> bool:
        """True if it has no core: conditions, rounding or a method for another sentence."""
        return {t.tag for t in self.core} <= {"KEEP", "ROWS"} and bool(
            self.where or self.options or self.digits is not None
        )


def values_of(tokens: Sequence[Token], *tags: str) -> list[Any]:
    """Return the values of the tokens with these tags, in order."""
    return [each.value for each in tokens if each.tag in tags]


def first_of(tokens: Sequence[Token], *tags: str, default: object = None) -> Any:
    """Return the value of the first token with one of these tags."""
    return next(iter(values_of(tokens, *tags)), default)


def has(tokens: Sequence[Token], *tags: str) -> bool:
    """Return whether there is a token with one of these tags."""
    return any(each.tag in tags for each in tokens)


def spell_tags(tokens: Sequence[Token]) -> str:
    """Return the tags of tokens, each with a space after it."""
    return "".join(f"{each.tag} " for each in tokens)


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern with each tag spelled with the space that ends it."""
    spelled = re.sub(r"[A-Z][A-Z0-9]*", r"(?:\g<0>~)", pattern)
    return re.compile(f"(?<![A-Z0-9])(?:{''.join(spelled.split()).replace('~', ' ')})")


def find_pattern(pattern: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return where tokens match the pattern first; None if they do nowhere."""
    tags = spell_tags(tokens)
    for found in compile_pattern(pattern).finditer(tags):
        if found[0]:
            start = tags[: found.start()].count(" ")
            return start, start + found[0].count(" ")
    return None
