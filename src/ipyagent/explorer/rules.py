"""All rules, and matching of sentences with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.chunks import Token
from ipyagent.explorer.families import (
    columns,
    comparisons,
    counts,
    dates,
    files,
    measures,
    plots,
    profiling,
    quality,
    ranking,
    relations,
    shape,
    talk,
)
from ipyagent.explorer.grammar import Sentence, matches, sentence
from ipyagent.explorer.steps import MisfitError, Step
from ipyagent.explorer.workspace import Table, Workspace

ALONE: tuple[SentenceRule, ...] = (*talk.RULES, *files.RULES)
"""Rules that need no table."""

ON_A_TABLE: tuple[SentenceRule, ...] = (
    *shape.RULES,
    *profiling.RULES,
    *quality.RULES,
    *dates.RULES,
    *ranking.RULES,
    *measures.RULES,
    *counts.RULES,
    *relations.RULES,
    *columns.RULES,
    *comparisons.RULES,
    *plots.RULES,
)

Guesses = tuple[tuple[str, ...], ...]
ANYTHING: Guesses = (("COL",), ("VALUE",), ("VALUE", "COL"))
"""Possible meanings of unknown words before a table's columns are known."""
A_VALUE: Guesses = (("VALUE",),)
"""Possible meanings of unknown words before its values are known."""
_MAX_UNKNOWN = 4  # unknown runs of words that are worth a guess


def first(
    rules: Sequence[SentenceRule],
    found: Sentence,
    workspace: Workspace,
    table: Table,
    reasons: list[str],
) -> Step | None:
    """Return the step of the first rule that matches the sentence and applies."""
    for rule, core in _matching(rules, found):
        try:
            return rule.build(Ask(replace(found, core=core), workspace, table))
        except MisfitError as misfit:
            reasons.append(str(misfit))
    return None


def may_fit(found: Sequence[Token], guesses: Guesses) -> bool:
    """Return whether a rule would match if the unknown words were such names."""
    return any(any(_matching(ON_A_TABLE, sentence(each))) for each in _guess_names(found, guesses))


def _matching(
    rules: Sequence[SentenceRule], found: Sentence
) -> Iterator[tuple[SentenceRule, tuple[Token, ...]]]:
    for rule in rules:
        needs = set(rule.needs.split())
        if needs <= found.clause_names <= needs | {"table", *rule.allows.split()}:
            fitting = (core for core in _cores(found.core) if matches(rule.pattern, core))
            yield from ((rule, core) for core in list(fitting)[:1])


def _cores(core: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """Yield the core as it is, and without `show` before it."""
    yield core
    if len(core) > 1 and core[0].tag == "SHOW":
        yield core[1:]


def _guess_names(found: Sequence[Token], guesses: Guesses) -> Iterator[list[Token]]:
    """Yield the tokens with unknown words taken for names in every way."""
    unknown = [i for i, each in enumerate(found) if each.tag in ("UNKNOWN", "QUOTED")]
    if len(unknown) > _MAX_UNKNOWN or not (unknown or guesses is ANYTHING):
        return
    for tags in product(guesses, repeat=len(unknown)):
        taken_as = dict(zip(unknown, tags, strict=True))
        guessed = [_token_as(t, taken_as[i]) if i in taken_as else [t] for i, t in enumerate(found)]
        yield [token for part in guessed for token in part]
        # `the North region`: a value with its own column is one value.
        beside = {j for i in unknown for j in (i - 1, i + 1)}
        own = [p for i, p in enumerate(guessed) if not (i in beside and p[0].tag == "COL")]
        if len(own) < len(guessed):
            yield [token for part in own for token in part]


def _token_as(token: Token, tags: tuple[str, ...]) -> list[Token]:
    return [Token(tag, ("", token.text), token.text) for tag in tags]
