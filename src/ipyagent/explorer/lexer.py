"""Split a prompt into tokens: names of the workspace, words of the vocabulary, the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from ipyagent.explorer.chunks import Token, chunks, join_unknown, without_politeness
from ipyagent.explorer.names import UNITS, Words, spellings, words
from ipyagent.explorer.vocabulary import PHRASES, STOP_LIST, TURNING
from ipyagent.explorer.workspace import Table, Workspace

# Which reading wins where a name is also a word, or two names are spelled alike.
ORDERS: tuple[tuple[str, ...], ...] = (
    ("COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER", "WORD"),
    ("TABLE", "FILE", "COL", "VALUE", "VAR", "FOLDER", "WORD"),
    ("WORD", "COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER"),
)


@dataclass
class NameTable:
    """The names that a prompt may use, by their spellings."""

    index: dict[Words, dict[str, list[Any]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    paths: dict[str, str] = field(default_factory=dict)

    def add(self, tag: str, value: Any, ways: set[Words]) -> None:
        """Add a value with its possible spellings."""
        for way in ways:
            if value not in self.index[way][tag]:
                self.index[way][tag].append(value)

    @property
    def words(self) -> frozenset[str]:
        """All words in the names."""
        return frozenset(word for way in self.index for word in way)

    @property
    def longest(self) -> int:
        """The number of words of the longest name."""
        return max((len(way) for way in self.index), default=0)


def names_of(workspace: Workspace, table: Table | None) -> NameTable:
    """Return the names of a workspace, with the columns and values of one table."""
    names = NameTable()
    for name in workspace.variables:
        tag = "TABLE" if name in workspace.tables else "VAR"
        names.add(tag, name, spellings(name) if tag == "TABLE" else {words(name)})
    for path in workspace.files:
        _add_file(names, path, workspace)
    if table is not None:
        for column in table.columns or {}:
            names.add("COL", column, spellings(column))
        for column, value in table.values or ():
            names.add("VALUE", (column, value), spellings(value))
    _prefer_exact(names)
    return names


def _add_file(names: NameTable, path: str, workspace: Workspace) -> None:
    pure = PurePosixPath(path)
    for way in (path, f"./{path}", pure.name):
        names.paths.setdefault(way.casefold(), path)
    for folder in pure.parents:
        if str(folder) not in (".", "/"):
            names.paths.setdefault(f"{folder}/".casefold(), f"{folder}/")
            names.add("FOLDER", f"{folder}/", {words(str(folder))})
    stem = words(pure.stem)
    if stem and not any(stem in spellings(each) for each in workspace.tables):
        names.add("FILE", path, spellings(pure.stem))


def _prefer_exact(names: NameTable) -> None:
    """Drop possible spellings of other names if one name is spelled exactly so."""
    for way, tags in names.index.items():
        for tag, values in tags.items():
            exact = [v for v in values if words(v[1] if tag == "VALUE" else str(v)) == way]
            if exact:
                tags[tag] = exact


def tokens(prompt: str, names: NameTable, order: tuple[str, ...] = ORDERS[0]) -> list[Token]:
    """Return the prompt in tokens, without politeness."""
    plain = prompt.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    parts = without_politeness(chunks(plain, names.paths), names.words)
    found: list[Token] = []
    at = 0
    while at < len(parts):
        token, length = _next(parts, at, names, order)
        found += [token] if token is not None else []
        at += length
    return _join_neighbors(_units_dropped(found))


def _next(
    chunks: list[Token], at: int, names: NameTable, order: tuple[str, ...]
) -> tuple[Token | None, int]:
    """Return the token that starts here, and how many chunks it takes."""
    first = chunks[at]
    if first.tag in ("FILE", "NOFILE", "FOLDER", "DATE", "NAME"):
        return first, 1
    if first.tag == "QUOTED":
        if path := names.paths.get(first.value.casefold()):
            return Token("FILE", path, first.text), 1
        named = _match_name(words(first.value), first.text, names, order[:-1])
        exact = named is not None and named.tag != "UNKNOWN"
        return (named if exact else Token("QUOTED", first.value, first.text)), 1
    for length in range(min(len(chunks) - at, max(names.longest, 5)), 0, -1):
        run = chunks[at : at + length]
        if any(each.tag not in ("WORD", "NUMBER", "SIGN") for each in run):
            continue
        text = " ".join(each.text for each in run)
        spelled = tuple(str(e.value if e.tag != "NUMBER" else e.text).casefold() for e in run)
        if token := _match_name(spelled, text, names, order):
            return token, length
    if first.tag == "NUMBER":
        return first, 1
    if first.value in STOP_LIST:
        return None, 1
    tag = "TURNING" if first.value in TURNING or first.tag == "SIGN" else "UNKNOWN"
    return Token(tag, first.text, first.text), 1


def _match_name(way: Words, text: str, names: NameTable, order: tuple[str, ...]) -> Token | None:
    tags = names.index.get(way, {})
    for tag in order:
        if tag == "WORD" and way in PHRASES:
            kind, value = PHRASES[way]
            return Token(kind, int(value) if kind == "NUMBER" else value, text)
        if values := tags.get(tag):
            if len(values) > 1:
                return Token("AMBIGUOUS", tuple(values), text)
            return Token(tag, values[0], text)
    return None


def _units_dropped(found: list[Token]) -> list[Token]:
    """Drop units of numbers that are the unit of the column before: `> 4000 g`."""
    kept: list[Token] = []
    unit: Words = ()
    for token in found:
        if token.tag == "COL":
            unit = words(token.value)[-1:]
        is_unit = token.tag == "UNKNOWN" and words(token.text) == unit and set(unit) <= UNITS
        if not (is_unit and kept and kept[-1].tag == "NUMBER"):
            kept.append(token)
    return kept


def _join_neighbors(found: list[Token]) -> list[Token]:
    """Join neighboring unknown words, and a value beside its own column."""
    joined: list[Token] = []
    for token in join_unknown(found):
        last = joined[-1] if joined else None
        if last and _same_column(last, token):
            joined[-1] = last if last.tag == "VALUE" else token
        else:
            joined.append(token)
    return joined


def _same_column(left: Token, right: Token) -> bool:
    pair = {left.tag: left, right.tag: right}
    return set(pair) == {"COL", "VALUE"} and pair["VALUE"].value[0] == pair["COL"].value
