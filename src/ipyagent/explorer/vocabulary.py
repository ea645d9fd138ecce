"""The words that the explorer knows, read from `words.toml`, which explains them."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from ipyagent.explorer.names import Words

_WORDS: dict[str, Any] = tomllib.loads(
    files("ipyagent.explorer").joinpath("words.toml").read_text("utf-8")
)

NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
"""Numbers in words, from zero."""
IDLE, ENTITIES, MEASUREMENTS, TURNING = (
    frozenset(_WORDS[name].split()) for name in ("idle", "entities", "measurements", "turning")
)
MONTHS = tuple(_WORDS["months"]["names"].split())
MEASURED = {verb: tuple(columns.split()) for verb, columns in _WORDS["measured"].items()}
COUNTED = {word: tuple(columns.split()) for word, columns in _WORDS["counted"].items()}
SYNONYMS = tuple(_WORDS["synonyms"].items())
SEXES = {word: (sex, sex[0]) for sex, said in _WORDS["sexes"].items() for word in said.split()}
POSITIVE = {"yes": "no", "true": "false", "y": "n", "1": "0"}
"""Words for what is so, and for what is not."""


def _read_phrases() -> dict[Words, tuple[str, str]]:
    """Return the tag and the value of each phrase, by its words."""
    found: dict[Words, tuple[str, str]] = {}
    for line in _WORDS["phrases"].strip().splitlines():
        kind, _, ways = line.partition(" = ")
        tag, _, value = kind.partition(":")
        for way in ways.split("|"):
            found.setdefault(tuple(way.replace("'s", "").split()), (tag, value))
    numbers: dict[Words, tuple[str, str]] = {
        (word,): ("NUMBER", str(n)) for n, word in enumerate(NUMBER_WORDS)
    }
    return {**found, **numbers, ("=",): ("EQ", ""), ("==",): ("EQ", "")}


def _read_adjectives() -> dict[Words, tuple[str, Words]]:
    """Return the end that an adjective means, and the columns that may measure it."""
    found: dict[Words, tuple[str, Words]] = {}
    for line in _WORDS["adjectives"].strip().splitlines():
        end = "max" if " max " in line else "min"
        forms, _, measures = line.partition(f" {end} ")
        for form in forms.split():
            meaning = (end, tuple(measures.split()))
            regular = form.endswith(("er", "est")) or form in ("best", "worst", "worse")
            for way in [(form,)] if regular else [("most", form), ("more", form)]:
                found[way] = meaning
    return {**found, ("least", "expensive"): ("min", ("price", "cost"))}


PHRASES = _read_phrases()
LONGEST = max(map(len, PHRASES))
SUPERLATIVES = _read_adjectives()
