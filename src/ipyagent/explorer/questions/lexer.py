"""A sentence in tokens: names of the table, words of the vocabulary, and what is unknown."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ipyagent.explorer.chunks import Token, join_unknown
from ipyagent.explorer.names import UNITS, Words, spellings, words
from ipyagent.explorer.questions.columns import match_loosely
from ipyagent.explorer.questions.dates import month_tokens
from ipyagent.explorer.questions.vocabulary import (
    ENTITIES,
    IDLE,
    LONGEST,
    MEASUREMENTS,
    NO_NAMES,
    PHRASES,
)
from ipyagent.explorer.workspace import Table

_PIECE = re.compile(
    r"""
      "(?P<double>[^"\n]+)" | “(?P<curly>[^”\n]+)” | `(?P<back>[^`\n]+)`
    | (?<!\w)'(?P<single>[^'\n]+)'(?!\w)
    | (?P<date>\d{4}-\d\d-\d\d)(?![\w-])
    | (?P<number>(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,15})?)
      (?P<percent>\s?%)?(?P<ordinal>st|nd|rd|th)?(?![\w]|\.\d)
    | (?P<word>[^\W_]+²?)
    | (?P<sign>>=|<=|==|!=|<>|[^\w\s])
    """,
    re.VERBOSE,
)
_SILENT = frozenset(".?!;:()[]{}'\"`_\u2013\u2014@\u2019")


@dataclass
class Names:
    """The columns and values of a table, by their spellings, and the words of its name."""

    table: Table
    stem: frozenset[str] = frozenset()
    columns: dict[Words, list[str]] = field(default_factory=lambda: defaultdict(list))
    values: dict[Words, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def longest(self) -> int:
        """The number of words of the longest name or phrase."""
        return max(LONGEST, *map(len, self.columns), *map(len, self.values), 1)


def names_of(table: Table, stem: str) -> Names:
    """Return the names of a table; `stem` is the name of its file or variable."""
    spelled = {way for word in words(stem) for (way, *_) in spellings(word)} | set(words(stem))
    names = Names(table, frozenset(spelled))
    for column in table.columns or {}:
        for way in spellings(column):
            names.columns[way].append(column)
    for way, found in names.columns.items():
        exact = [column for column in found if words(column) == way]
        names.columns[way] = exact or found
    for column, value in table.values or ():
        if way := words(value):
            names.values[way].append((column, value))
    return names


@dataclass(frozen=True)
class _Piece:
    kind: str
    value: Any
    text: str


def _pieces(sentence: str) -> list[_Piece]:
    found: list[_Piece] = []
    for match in _PIECE.finditer(sentence.replace("\u2019", "'")):
        kind = str(match.lastgroup)
        if match["number"] is not None:
            plain = match["number"].replace(",", "")
            value = float(plain) if "." in plain else int(plain)
            found.append(_Piece("percent" if match["percent"] else "number", value, match[0]))
        elif kind in ("double", "curly", "back", "single"):
            found.append(_Piece("quoted", match[kind], match[0]))
        elif kind == "sign" and (match[0] in _SILENT or _joins(match, sentence)):
            continue
        else:
            found.append(_Piece("date" if kind == "date" else "word", match[0], match[0]))
    return found


def _joins(match: re.Match[str], sentence: str) -> bool:
    """Return whether a sign joins two words, as in `sit-ups`."""
    around = sentence[max(0, match.start() - 1) : match.end() + 1]
    return match[0] == "-" and len(around) == 3 and not set(around) & set(" \n")


def tokens(sentence: str, names: Names, *, names_first: bool = True) -> list[Token]:
    """Return the tokens of a sentence, without idle words and without whose rows they are."""
    pieces, found, at = _pieces(sentence), [], 0
    while at < len(pieces):
        token, length = _next(pieces, at, names, names_first)
        found += [token] if token.tag not in ("IDLE", "ENTITY") else []
        at += length
    found = _mark_rows(_without_units(found, names), names)
    return _resolve_values(join_unknown(found))


def _next(pieces: list[_Piece], at: int, names: Names, names_first: bool) -> tuple[Token, int]:
    piece = pieces[at]
    if piece.kind == "quoted":
        way = words(piece.value)
        named = _exact(way, piece.value, names) or _loose(way, piece.value, names)
        return named or _phrase(way, piece.text) or Token("QUOTED", piece.value, piece.text), 1
    if piece.kind in ("number", "percent"):
        return Token("NUMBER" if piece.kind == "number" else "PERCENT", piece.value, piece.text), 1
    if piece.kind == "date":
        return Token("DATE", piece.value, piece.text), 1
    for length in range(min(len(pieces) - at, names.longest), 0, -1):
        run = pieces[at : at + length]
        if any(each.kind not in ("word", "number") for each in run):
            continue
        text = " ".join(each.text for each in run)
        way = tuple(each.text.casefold() for each in run)
        if token := _of_run(way, text, names, names_first):
            return token, length
    after = pieces[at + 1].text.casefold() if at + 1 < len(pieces) else ""
    if after in _COLUMN and piece.text.casefold() not in IDLE:
        return Token("UNKNOWN", piece.text, piece.text), 1
    return _single(piece, names), 1


def _of_run(way: Words, text: str, names: Names, names_first: bool) -> Token | None:
    idle = len(way) == 1 and way[0] in (NO_NAMES if names_first else IDLE)
    readings = [None if idle else _exact(way, text, names), _phrase(way, text)]
    if len(way) > 1 or not _phrase(way, text):
        readings.insert(1 if names_first else 2, _known_loosely(way, text, names))
    if not names_first:
        readings.sort(key=lambda token: token is None or token.tag in ("COL", "VALUE"))
    return next(filter(None, readings), None)


def _known_loosely(way: Words, text: str, names: Names) -> Token | None:
    if len(way) == 1 and (_is_entity(way[0], names) or way[0] in IDLE):
        return None
    if way[0] in _EDGES or way[-1] in _EDGES or any(map(_has_a_role, way)):
        return None
    if any(names.columns.get(way[:length]) for length in range(1, len(way))):
        return None  # `age exceeds` begins with a whole name
    return _loose(way, text, names)


_IN_NAMES = frozenset({"STAT", "EXTREME", "COUNT", "NUMBER", "NORMAL", "SIGNIFICANT", "PVALUE"})


def _has_a_role(word: str) -> bool:
    """Return whether a word has a role of its own that no part of a name has."""
    return (word,) in PHRASES and PHRASES[(word,)][0] not in _IN_NAMES


_COLUMN = frozenset({"column", "variable", "feature", "field"})
_EDGES = frozenset({"the", "a", "an", "of", "in", "and", "for", "is", "are", "with", "by", "to"})


def _exact(way: Words, text: str, names: Names) -> Token | None:
    if columns := names.columns.get(way):
        return _column_token(columns, text)
    if values := names.values.get(way) or names.values.get(_singular(way)):
        tag = "VALUE" if len(values) == 1 else "VALUES"
        return Token(tag, values[0] if tag == "VALUE" else tuple(values), text)
    return None


def _singular(way: Words) -> Words:
    return (*way[:-1], way[-1].removesuffix("s")) if way else way


def _loose(way: Words, text: str, names: Names) -> Token | None:
    columns = match_loosely(way, names.table.columns or {}) if way else []
    return _column_token(columns, text) if columns else None


def _column_token(columns: list[str], text: str) -> Token:
    if len(columns) == 1:
        return Token("COL", columns[0], text)
    return Token("UNKNOWN", text, text)


def _phrase(way: Words, text: str) -> Token | None:
    if way not in PHRASES:
        return None
    tag, value = PHRASES[way]
    return Token(tag, int(value) if tag == "NUMBER" else value, text)


def _single(piece: _Piece, names: Names) -> Token:
    word = piece.text.casefold()
    if month_tokens(piece.text, names.table):
        return Token("MONTH", word, piece.text)
    if word in IDLE:
        return Token("IDLE", word, piece.text)
    if _is_entity(word, names):
        return Token("ENTITY", word, piece.text)
    return Token("UNKNOWN", piece.text, piece.text)


def _is_entity(word: str, names: Names) -> bool:
    ways = {word, word.removesuffix("s"), word.removesuffix("es")}
    if word.endswith("ies"):
        ways.add(word[:-3] + "y")
    return bool(ways & ENTITIES) or bool(ways & names.stem)


def _without_units(found: list[Token], names: Names) -> list[Token]:
    """Drop the unit of a number, if a column has it in its name, and `rate` after a column."""
    parts = {word for column in names.table.columns or {} for word in words(column)}
    kept: list[Token] = []
    for token in found:
        word, last = token.text.casefold(), kept[-1].tag if kept else ""
        unit = last == "NUMBER" and word in UNITS & parts
        measured = last == "COL" and word in MEASUREMENTS - parts
        if not (token.tag == "UNKNOWN" and (unit or measured)):
            kept.append(token)
    return kept


def _mark_rows(found: list[Token], names: Names) -> list[Token]:
    """Mark columns in the plural that may say whose rows they are: `states` of `state`."""
    return [
        Token("PLURAL", token.value, token.text)
        if token.tag == "COL" and _is_rows(token, names)
        else token
        for token in found
    ]


def _is_rows(token: Token, names: Names) -> bool:
    spoken, own = words(token.text), words(token.value)
    plural = len(spoken) == 1 and spoken[0].endswith("s") and spoken != own
    names_rows = names.table.kind(token.value) == "text" or own == ("year",)
    return plural and names_rows and _is_entity(spoken[0], names)


def _resolve_values(found: list[Token]) -> list[Token]:
    """Choose the column of a value that several columns hold, by a column that stands near."""
    for i, token in enumerate(found):
        if token.tag == "VALUES":
            near = {each.value for each in found[max(0, i - 3) : i + 2] if each.tag == "COL"}
            fitting = [pair for pair in token.value if pair[0] in near]
            tag = "VALUE" if len(fitting) == 1 else "UNKNOWN"
            found[i] = Token(tag, fitting[0] if tag == "VALUE" else token.text, token.text)
    return found
