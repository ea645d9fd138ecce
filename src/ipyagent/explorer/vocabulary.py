"""The words and names that a prompt may use: the vocabulary of `words.toml`, and the workspace's.

Names are columns, their values as people say them, tables, variables and files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from posixpath import splitext
from typing import Any

from ipyagent.explorer.names import Words, singular, spellings, split_name, words
from ipyagent.explorer.workspace import Table, Workspace

_WORDS: dict[str, Any] = tomllib.loads(
    files("ipyagent.explorer").joinpath("words.toml").read_text("utf-8")
)
IDLE, ENTITIES, MEASUREMENTS, TURNING = (
    frozenset(_WORDS[name].split()) for name in ("idle", "entities", "measurements", "turning")
)
MONTHS = tuple(_WORDS["months"]["names"].split())
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MEASURED = {verb: tuple(columns.split()) for verb, columns in _WORDS["measured"].items()}
COUNTED = {word: tuple(columns.split()) for word, columns in _WORDS["counted"].items()}
SEXES = {word: (sex, sex[0]) for sex, said in _WORDS["sexes"].items() for word in said.split()}


def _read_phrases() -> dict[Words, tuple[str, str]]:
    """Return the tag and the value of each phrase, by its words."""
    found: dict[Words, tuple[str, str]] = {}
    for line in _WORDS["phrases"].strip().splitlines():
        kind, _, ways = line.partition(" = ")
        tag, _, value = kind.partition(":")
        for way in ways.split("|"):
            found.setdefault(tuple(way.replace("'s", "").split()), (tag, value))
    found |= {(word,): ("NUMBER", str(n)) for n, word in enumerate(_WORDS["numbers"].split())}
    return {**found, ("=",): ("EQ", ""), ("==",): ("EQ", "")}


def _read_adjectives() -> dict[Words, tuple[str, Words]]:
    """Return the end that an adjective means, and the columns that may measure it."""
    found: dict[Words, tuple[str, Words]] = {}
    for line in _WORDS["adjectives"].strip().splitlines():
        end = "max" if " max " in line else "min"
        forms, _, measures = line.partition(f" {end} ")
        for form in forms.split():
            regular = form.endswith(("er", "est")) or form in ("best", "worst", "worse")
            for way in [(form,)] if regular else [("most", form), ("more", form)]:
                found[way] = (end, tuple(measures.split()))
    return {**found, ("least", "expensive"): ("min", ("price", "cost"))}


PHRASES = _read_phrases()
LONGEST = max(map(len, PHRASES))
SUPERLATIVES = _read_adjectives()

Named = tuple[str, Any]
"""A tag, and a name."""


@dataclass
class NameTable:
    """The names that a prompt may use, by their spellings; `paths` by theirs."""

    table: Table | None = None
    index: dict[Words, list[Named]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    loaded: dict[str, str] = field(default_factory=dict)  # path to table, in this very run
    entities: frozenset[str] = frozenset()  # what rows of this very table are
    words: frozenset[str] = frozenset()
    """The words in the names, which a typing error may be corrected to."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        return tuple((self.table and self.table.columns) or {})

    def with_names(self, names: Iterable[tuple[Iterable[Words], Named, bool]]) -> NameTable:
        """Return the table with more names; one that is `alone` hides others of its spellings."""
        own: dict[Words, list[Named]] = {}
        for ways, named, alone in names:
            for way in ways:
                before = [] if alone else own.get(way) or self.index.get(way, [])
                if named not in before:
                    own[way] = [*before, named]
        for way, found in own.items():  # one that is spelled exactly so hides the others
            own[way] = [each for each in found if _spell(each) == way] or found
        said = {word for way in own for word in way}
        known = self.words | said | {singular(word) for word in said}
        return replace(self, index={**self.index, **own}, words=known)


@lru_cache(64)
def names_of(workspace: Workspace, table: Table | None) -> NameTable:
    """Return the names of a workspace, with the columns and values of one table."""
    if table is not None:
        keys = [c for c in table.columns or {} if c in table.keys or words(c)[-1:] == ("id",)]
        stems = words(table.name) + words(splitext(table.path.rpartition("/")[2])[0])
        stems += tuple(word for each in keys for word in words(each)[:1])  # `order` for order_id
        rows = frozenset(map(singular, stems))
        names = names_of(workspace, None).with_names(_names_in(table))
        return replace(names, table=table, entities=rows, words=names.words | rows)
    paths: dict[str, str] = {}
    for path in workspace.files:
        for way in (path, f"./{path}", path.rpartition("/")[2]):
            paths.setdefault(way.casefold(), path)
    paths |= {folder.casefold(): folder for folder in _folders(workspace)}
    return NameTable(paths=paths, loaded=workspace.loaded).with_names(_names_beside(workspace))


def _spell(named: Named) -> Words:
    return words(str(named[1][1] if named[0] == "VALUE" else named[1]))


def _names_beside(workspace: Workspace) -> Iterator[tuple[Iterable[Words], Named, bool]]:
    """Yield the names of tables, variables, files and folders, with their spellings."""
    for name in workspace.variables:
        if name in workspace.tables:
            yield spellings(name), ("TABLE", name), False
        else:
            yield [words(name)], ("VAR", name), False
    tables = {way for name in workspace.tables for way in spellings(name)}
    for folder in _folders(workspace):
        yield [words(folder)], ("FOLDER", folder), False
    for path in workspace.files:
        stem = splitext(path.rpartition("/")[2])[0]
        if words(stem) not in tables:
            yield spellings(stem), ("FILE", path), False


def _folders(workspace: Workspace) -> list[str]:
    """Return the folders of the files and those around them, each with a slash at its end."""
    found: dict[str, None] = {}
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in workspace.files):
        while folder and f"{folder}/" not in found:
            found[f"{folder}/"] = None
            folder = folder.rpartition("/")[0]
    return list(found)


def _names_in(table: Table) -> Iterator[tuple[Iterable[Words], Named, bool]]:
    """Yield columns and values, also as people say them: women for F, smokers for smoker."""
    for column in table.columns or {}:
        yield spellings(column), ("COL", column), False
        for word, other in _WORDS["synonyms"].items():
            if split_name(column) == (other,) or other in split_name(column)[1:]:
                yield spellings(word), ("LIKE", column), False
    for column, value in table.values:
        if len(words(value)) > 1 or not value[:1].isdigit() or value.isdigit():
            yield spellings(value), ("VALUE", (column, value)), False
    for column, value in table.values:
        plain = value.casefold()
        said = [word for word, sexes in SEXES.items() if plain in sexes]
        days = [d for d in (*WEEKDAYS, *MONTHS) if len(plain) >= 3 and d.startswith(plain)]
        said += [word for day in days for word in (day, f"{day}s")]
        yield [(word,) for word in said], ("VALUE", (column, value)), False
    for column in table.columns or {}:
        stem = tuple(w for w in words(column) if w not in ("is", "has", "had", "was"))
        if (pair := _truth(table, column)) and stem:
            ways = spellings("_".join(stem))
            yield ways - {words(column)}, ("VALUE", (column, pair[0])), True
            yield [("non", *way) for way in ways], ("VALUE", (column, pair[1])), False
            if stem[-1].endswith("er"):  # how many smoke
                verb = stem[-1].removesuffix("r")
                smoke = [(verb,), (f"{verb}s",), (f"{verb}d",)]
                yield smoke, ("VALUE", (column, pair[0])), False


def _truth(table: Table, column: str) -> tuple[object, object] | None:
    """Return the values for yes and for no, of a column of truth."""
    if table.kind(column) == "bool":
        return True, False
    values = {value.casefold(): value for value in table.values_of(column)}
    pairs = (("yes", "no"), ("true", "false"), ("y", "n"), ("1", "0"))
    return next(((values[y], values[n]) for y, n in pairs if {*values} == {y, n}), None)
