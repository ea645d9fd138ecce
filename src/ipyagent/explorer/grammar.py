"""Sentences: clauses (where, by, colour, rounding, table) around a core that one rule must match.

A pattern is a regular expression over tags: `"STAT+ OF? COL"`. The whole core must match, so each
token of a prompt is accounted for, in its place, or no rule fires.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ipyagent.explorer.chunks import Token

_CONDITION = """(
    COL (IS|EQ)? (VALUE|QUOTED|BOOL) | COL (IS|EQ) (NUMBER|DATE)
  | COL (IS|OF)? (OP|OVER) (NUMBER|DATE) | COL IS? BETWEEN (NUMBER AND NUMBER | DATE AND DATE)
)"""
_LEAD = "(WHERE|FOR|IN|ON|OF|WITH|HAS)"
_CLAUSES: tuple[tuple[str, str], ...] = (
    ("where", f"AND? {_LEAD} {_CONDITION} (AND (WHERE|WITH)? {_CONDITION})*"),
    ("where", "COL (EQ (VALUE|QUOTED|NUMBER|BOOL) | (OP|OVER) NUMBER)"),
    ("where", "(WHERE|FOR|IN|ON|OF|WITH|IS)? (IN|ON|OF)? VALUE (AND? VALUE)*"),
    ("where", "(IN|FOR) NUMBER | OP DATE | BETWEEN DATE AND DATE"),
    ("colour", "AND? COLOUR COL"),
    ("by", "AND? BY COL ((AND|BY) COL)*"),
    ("period", "BY PERIOD"),
    ("digits", "AND? (ROUND|TO|WITH) TO? NUMBER DECIMALS | (AND? ROUND)? TO? WHOLE"),
    ("digits", "AND? ROUND"),
    ("table", "(IN|OF|FOR|ON|WITH)? NOUN? (FILES? FILE|TABLE) NOUN?"),
    ("table", "(IN|OF|FOR|ON)? NOUN"),
)


@dataclass(frozen=True)
class Sentence:
    """Tokens, sorted into clauses and a core."""

    core: tuple[Token, ...]
    clauses: tuple[tuple[str, tuple[Token, ...]], ...] = ()

    def clause(self, name: str) -> tuple[Token, ...]:
        """Return all tokens of the clauses of that name."""
        return tuple(token for kind, part in self.clauses if kind == name for token in part)

    @property
    def clause_names(self) -> frozenset[str]:
        """The names of the clauses present."""
        return frozenset(kind for kind, _ in self.clauses)


def sentence(tokens: Sequence[Token]) -> Sentence:
    """Return the tokens with their clauses set apart."""
    rest, clauses = _join_pairs(_mark_question(tuple(tokens))), []
    for name, pattern in _CLAUSES:
        while found := find_pattern(pattern, rest):
            start, end = found
            clauses.append((name, rest[start:end]))
            rest = rest[:start] + rest[end:]
    return Sentence(rest, tuple(clauses))


def _mark_question(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Mark a leading `is`: it asks for yes or no and states no condition."""
    if tokens and tokens[0].tag == "IS":
        return (replace(tokens[0], tag="ASK"), *tokens[1:])
    return tokens


def _join_pairs(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Join `male and female` into one token: two values of a column are a comparison."""
    for i in range(len(tokens) - 2):
        left, between, right = tokens[i : i + 3]
        if between.tag in ("AND", "VS", "WITH", "TO") and _alike(left, right):
            text = f"{left.text} {between.text} {right.text}"
            pair = Token("PAIR", (left.value, right.value), text)
            return (*tokens[:i], pair, *_join_pairs(tokens[i + 3 :]))
    return tokens


def _alike(left: Token, right: Token) -> bool:
    return left.tag == right.tag == "VALUE" and bool(left.value[0] == right.value[0])


def matches(pattern: str, tokens: Sequence[Token]) -> bool:
    """Return whether the pattern matches all of the tokens."""
    return bool(_compile_pattern(pattern).fullmatch(_tags(tokens)))


def values(tokens: Sequence[Token], *tags: str) -> list[Any]:
    """Return the values of the tokens with these tags, in order."""
    return [each.value for each in tokens if each.tag in tags]


def find_pattern(pattern: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return where tokens match the pattern first; None if they do nowhere."""
    tags = _tags(tokens)
    for found in _compile_pattern(pattern).finditer(tags):
        if found[0]:
            start = tags[: found.start()].count(" ")
            return start, start + found[0].count(" ")
    return None


def _tags(tokens: Sequence[Token]) -> str:
    return "".join(f"{each.tag} " for each in tokens)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern with each tag spelled with the space that ends it."""
    spelled = re.sub(r"[A-Z]+", r"(?:\g<0>~)", pattern)
    return re.compile(f"(?<![A-Z])(?:{''.join(spelled.split()).replace('~', ' ')})")
