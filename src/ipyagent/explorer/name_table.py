"""The names that a prompt may use: columns, their values as people say them, tables, files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from ipyagent.explorer.names import Words, singular, spellings, split_name, words
from ipyagent.explorer.vocabulary import MONTHS, POSITIVE, SEXES, SYNONYMS
from ipyagent.explorer.workspace import Table, Workspace

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass
class NameTable:
    """The names that a prompt may use, by their spellings; `paths` by theirs."""

    table: Table | None = None
    index: dict[Words, list[tuple[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    paths: dict[str, str] = field(default_factory=dict)
    entities: set[str] = field(default_factory=set)  # what rows of this very table are

    def add(self, tag: str, value: object, ways: set[Words]) -> None:
        """Add a value with its possible spellings."""
        for way in ways:
            if (tag, value) not in self.index[way]:
                self.index[way].append((tag, value))

    @cached_property
    def words(self) -> frozenset[str]:
        """The words in the names, which a typing error may be corrected to."""
        own = {w for way in self.index for w in way}
        return frozenset(own | {singular(w) for w in own} | self.entities)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        return tuple((self.table and self.table.columns) or {})


def names_of(workspace: Workspace, table: Table | None) -> NameTable:
    """Return the names of a workspace, with the columns and values of one table."""
    names = NameTable(table)
    for name in workspace.variables:
        tag = "TABLE" if name in workspace.tables else "VAR"
        names.add(tag, name, spellings(name) if tag == "TABLE" else {words(name)})
    for path in workspace.files:
        _add_file(names, path)
    if table is not None:
        for column in table.columns or {}:
            names.add("COL", column, spellings(column))
            for word, other in SYNONYMS:
                if split_name(column) == (other,) or other in split_name(column)[1:]:
                    names.add("LIKE", column, spellings(word))
        for column, value in table.values:
            if len(words(value)) > 1 or not value[:1].isdigit() or value.isdigit():
                names.add("VALUE", (column, value), spellings(value))
        _add_loose_values(names, table)
        for stem in (
            *words(table.name),
            *words(PurePosixPath(table.path).stem),
            *_key_stems(table),
        ):
            names.entities.add(singular(stem))
    for way, found in names.index.items():  # one that is spelled exactly so hides the others
        exact = [each for each in found if _spell(each) == way]
        if exact:
            names.index[way] = exact
    return names


def _spell(named: tuple[str, Any]) -> Words:
    return words(str(named[1][1] if named[0] == "VALUE" else named[1]))


def _key_stems(table: Table) -> list[str]:
    """Return what the identifiers of rows are called: `order` for order_id."""
    keys = [
        each for each in table.columns or {} if each in table.keys or words(each)[-1:] == ("id",)
    ]
    return [word for each in keys for word in words(each)[:1]]


def _add_loose_values(names: NameTable, table: Table) -> None:
    """Add values as people say them: women for F, Saturdays for Sat, smokers for smoker."""
    for column, value in table.values:
        plain = value.casefold()
        for word, meanings in SEXES.items():
            if plain in meanings:
                names.add("VALUE", (column, value), {(word,)})
        for name in (*WEEKDAYS, *MONTHS):
            if len(plain) >= 3 and name.startswith(plain):
                names.add("VALUE", (column, value), {(name,), (f"{name}s",)})
    for column in table.columns or {}:
        pair = _truth(table, column)
        stem = tuple(w for w in words(column) if w not in ("is", "has", "had", "was"))
        if pair is not None and stem:
            ways = spellings("_".join(stem))
            for way in ways - {words(column)}:
                names.index[way] = [("VALUE", (column, pair[0]))]
            names.add("VALUE", (column, pair[1]), {("non", *way) for way in ways})
            if stem[-1].endswith("er"):  # how many smoke
                verb = stem[-1].removesuffix("r")
                names.add("VALUE", (column, pair[0]), {(verb,), (f"{verb}s",), (f"{verb}d",)})


def _truth(table: Table, column: str) -> tuple[object, object] | None:
    """Return the values for yes and for no, of a column of truth."""
    if table.kind(column) == "bool":
        return True, False
    values = {value.casefold(): value for value in table.values_of(column)}
    for yes, no in POSITIVE.items():
        if set(values) == {yes, no}:
            return values[yes], values[no]
    return None


def _add_file(names: NameTable, path: str) -> None:
    pure = PurePosixPath(path)
    for way in (path, f"./{path}", pure.name):
        names.paths.setdefault(way.casefold(), path)
    for folder in pure.parents:
        if str(folder) not in (".", "/"):
            names.paths.setdefault(f"{folder}/".casefold(), f"{folder}/")
            names.add("FOLDER", f"{folder}/", {words(str(folder))})
    if (stem := words(pure.stem)) and not any(
        tag == "TABLE" for tag, _ in names.index.get(stem, [])
    ):
        names.add("FILE", path, spellings(pure.stem))
