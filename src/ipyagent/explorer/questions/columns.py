"""Columns as people write them: `room size` for ROOMSIZE, `blood pressure` for BP."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import permutations

from ipyagent.explorer.names import UNITS, Words, words

_MOST_WORDS = 5


def split_name(name: str) -> Words:
    """Return a name's words, also those of camel case, without a unit at the end."""
    found = words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    while len(found) > 1 and found[-1] in UNITS:
        found = found[:-1]
    return found


def match_loosely(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words name, whole, if loosely."""
    if len(run) > _MOST_WORDS:
        return []
    return [column for column in columns if _names(run, column)]


def nearest(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words may mean, the nearest first: for offers only."""
    ranked = sorted(((_likeness(run, each), each) for each in columns), reverse=True)
    return [column for likeness, column in ranked if likeness > 0.55][:3]


def _likeness(run: Words, column: str) -> float:
    shared = set(map(_singular, run)) & set(map(_singular, split_name(column)))
    whole = SequenceMatcher(None, "".join(run), "".join(words(column))).ratio()
    return max(whole, 0.9 if shared else 0.0)


def _names(run: Words, column: str) -> bool:
    compact, own = "".join(words(column)), split_name(column)
    if len(run) == 1 and len(own) > 2 and run[0] == "".join(word[0] for word in own):
        return True
    singular = (*run[:-1], _singular(run[-1]))
    for way in (run, singular):
        joined = "".join(way)
        if joined in (compact, "".join(own)):
            return True
        if len(way) == 1:
            if _stands_alone("".join(own), joined):
                return True
        elif (
            _is_abbreviation(compact, way)
            or _is_abbreviation("".join(own), way)
            or _pairs_up(own, way)
        ):
            return True
    return False


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _pairs_up(own: Words, run: Words) -> bool:
    """Return whether each word of the name shortens one of the words, in any order."""
    if len(own) != len(run) or len(own) > 4:
        return False
    return any(all(map(_shortens, own, way)) for way in permutations(run))


def _shortens(short: str, word: str) -> bool:
    """Return whether this is the word, its beginning, or its letters with gaps: `yrs` of years."""
    if word.startswith(short):
        return len(short) >= min(3, len(word))
    return len(short) >= 3 and short[0] == word[0] and _has_gaps(short, word)


def _stands_alone(short: str, word: str) -> bool:
    """Return whether one word is clearly meant by its beginning: `educ`, but not `age` of agency.

    What ends in a vowel is rather a word of its own.
    """
    return len(short) >= 4 and short[-1] not in "aeiouy" and word.startswith(short)


def _has_gaps(short: str, word: str) -> bool:
    """Return whether the letters stand in the word in this order, its last one included."""
    rest = iter(word)
    return all(letter in rest for letter in short) and short[-1] == word[-1]


def _is_abbreviation(compact: str, run: Words) -> bool:
    """Return whether a name is made of beginnings of all the words: `bmi`, `roomtemp`."""
    return len(compact) > 1 and _consume(compact, run, after_word=False)


def _consume(rest: str, run: Words, *, after_word: bool) -> bool:
    """Return whether pieces of the words, one of each, make up the rest of the name.

    After a whole word a piece has three letters: `income` is not `incom` and an `e`.
    """
    if not run:
        return not rest
    first, *others = run
    for length in range(3 if after_word else 1, len(rest) + 1):
        piece = rest[:length]
        if not (first.startswith(piece) or (length >= 3 and _shortens(piece, first))):
            continue
        whole = after_word or piece == first
        if _consume(rest[length:], tuple(others), after_word=whole):
            return True
    return False
