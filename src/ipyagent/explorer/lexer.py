"""The lexer: a prompt becomes tokens, from the words of `words.toml` and the workspace's names.

Names are columns and their values, tables, variables, files and folders. A word that is none of
these becomes UNKNOWN, and the prompt will be declined.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import takewhile
from posixpath import splitext
from typing import Any

from ipyagent.explorer.text import Words, singular, usable, without_unit, words
from ipyagent.json_types import JsonDict
from ipyagent.schema.tables import ColumnFacts, TableFacts, WorkspaceFacts


@dataclass(frozen=True)
class Token:
    """A piece of a prompt; `text` is the original spelling."""

    tag: str
    value: Any
    text: str


Named = tuple[str, Any]
"""A tag, and a value: a column's name, or column and value."""

_FILE = files("ipyagent.explorer").joinpath("words.toml")
_WORDS: JsonDict = tomllib.loads(_FILE.read_text("utf-8"))


def _read_phrases() -> dict[Words, Named]:
    """Return the tag and the value of each phrase, by its words."""
    found: dict[Words, Named] = {}
    for line in _WORDS["phrases"].strip().splitlines():
        kind, _, ways = line.partition(" = ")
        tag, _, value = kind.partition(":")
        for way in ways.split("|"):
            found.setdefault(tuple(way.split()), (tag, value))
    found |= {(word,): ("NUMBER", n) for n, word in enumerate(_WORDS["numbers"].split())}
    found |= {(word,): ("IDLE", "") for word in _WORDS["idle"].split()}
    return {**found, ("=",): ("EQ", ""), ("==",): ("EQ", "")}


PHRASES = _read_phrases()
_LONGEST = max(map(len, PHRASES))
_SUPERLATIVES = {
    form: (end, measures.split())
    for line in _WORDS["superlatives"].strip().splitlines()
    for form, end, measures in [re.split(r" (max|min) ", line)]
    for form in form.split()
}
_YES = (("yes", "no"), ("true", "false"), ("y", "n"))

_CHUNK = re.compile(
    r"""
      "(?P<double>[^"\n]*)" | “(?P<curly>[^”\n]*)” | `(?P<back>[^`\n]*)`
    | (?<![\w'])'(?P<single>[^'\n]+)'(?!\w)
    | (?P<path>[\w~./-]*[\w~-]\.[A-Za-z]\w{0,6}\b | [\w.~-]+/[\w./~-]*)
    | (?P<date>\d{4}-\d\d-\d\d)(?![\w-])
    | (?P<number>(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)
        |(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?!\w|\.\d))
    | (?P<ordinal>\d{1,3})(?:st|nd|rd|th)\b
    | (?P<word>[^\W_]+)(?:['\u2019](?:s|d|re|ll|ve|m)\b)?
    | (?P<sign>>=|<=|==|!=|[^\w\s])
    """,
    re.VERBOSE,
)
_TEXT_OR_TABLE = re.compile(
    r"(?i).*\.(csv|tsv|parquet|xlsx?|jsonl?|txt|md|py|ipynb|ya?ml|toml|log|html|pdf|gz|zip)"
)
# The one name that a prompt may bring along is the one that it gives.
_NEW_NAMES = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?:load|import|read)\b.*\b(?:as|into|called|named)\s+"
        r"[`'\"]?(?P<name>[A-Za-z]\w*)[`'\"]?(?=\s*[.!]?\s*\Z)",
        r"\b(?:add|create|make|derive|new)\s(?:.*\b(?:column|called|named)\s+)?[`'\"]?"
        r"(?P<name>[A-Za-z]\w*)[`'\"]?(?=\s*(?:=(?!=)|:|\bas\b))",
        r"\brename\b.+\b(?:to|as|into)\s+[`'\"]?(?P<name>[A-Za-z][\w ]*?)[`'\"]?(?=\s*[.!]?\s*\Z)",
        r"\A\s*(?P<name>[A-Za-z][\w ]{0,40}?)\s*(?==(?!=)[^=]*[-+*/])",
    )
)


def is_table_path(path: str) -> bool:
    """Return whether a file of this name can be loaded as a table."""
    return bool(re.fullmatch(r"(?i).*\.((csv|tsv)(\.(gz|bz2|xz|zip))?|parquet|xlsx|jsonl?)", path))


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return the folders of the files and those around them."""
    parts = [path.split("/")[:-1] for path in paths]
    return {"/".join(each[:n]) for each in parts for n in range(1, len(each) + 1)}


def truth_of(column: ColumnFacts) -> tuple[object, object] | None:
    """Return the values for yes and no of a column of truth."""
    if column.kind == "bool":
        return True, False
    values = {each.casefold(): each for each in column.choices}
    return next(((values[y], values[n]) for y, n in _YES if {*values} == {y, n}), None)


@dataclass
class Names:
    """The names that a prompt may use, by their words; exact spellings hide looser ones."""

    facts: WorkspaceFacts
    table: TableFacts | None
    index: dict[Words, list[Named]] = field(default_factory=dict)
    entities: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for spell in (self._spell_exactly, self._spell_without_units, self._spell_in_part):
            level: dict[Words, list[Named]] = {}
            for way, named in spell():
                if way and way not in self.index and named not in level.setdefault(way, []):
                    level[way].append(named)
            self.index |= {way: named for way, named in level.items() if named}
        for each in filter(None, [self.table]):
            stem = words(splitext(each.path.rpartition("/")[2])[0])
            keys = [words(c.name) for c in self.columns if c.is_key]
            self.entities |= {*words(each.variable), *stem, *(w for key in keys for w in key[:1])}

    @property
    def columns(self) -> tuple[ColumnFacts, ...]:
        """The columns of the table."""
        return (self.table and self.table.columns) or ()

    def _spell_exactly(self) -> Iterator[tuple[Words, Named]]:
        tables = {each.variable for each in self.facts.tables if each.variable}
        for column in self.columns:
            yield words(column.name), ("COL", column.name)
            yield ("".join(words(column.name)),), ("COL", column.name)
            for value in column.choices:
                yield words(value), ("VALUE", (column.name, value))
        for name in self.facts.variables:
            yield words(name), ("TABLE" if name in tables else "VAR", name)
        for path in self.facts.files:
            stem = words(splitext(path.rpartition("/")[2])[0])
            if stem not in map(words, tables):
                yield stem, ("FILE", path)
        for folder in folders_of(self.facts.files):
            yield words(folder), ("FOLDER", folder)

    def _spell_without_units(self) -> Iterator[tuple[Words, Named]]:
        for column in self.columns:
            plain = without_unit(words(column.name))
            yield plain, ("COL", column.name)
            yield tuple(w for w in plain if w not in ("is", "has")), ("COL", column.name)
            for said, means in _WORDS["values"].items():
                for value in column.choices:
                    if value.casefold() in means.split():
                        yield (said,), ("VALUE", (column.name, value))

    def _spell_in_part(self) -> Iterator[tuple[Words, Named]]:
        """Yield the head of a name, such as `bill` for total_bill, and words with its meaning."""
        for column in self.columns:
            plain = without_unit(words(column.name))
            for n in range(1, len(plain)):
                if len(plain[-1]) > 2 and plain[-1].isalpha():
                    yield plain[n:], ("COL", column.name)
            if "of" in plain[1:]:
                yield plain[: plain.index("of")], ("COL", column.name)
            for said, meant in _WORDS["synonyms"].items():
                if plain[-1:] == (meant,):
                    yield (said,), ("COL", column.name)

    def find(self, spelled: Words) -> list[Named]:
        """Return what these words name."""
        return self.index.get(tuple(map(singular, spelled)), [])


def _spell(named: Named) -> str:
    tag, value = named
    return str(value[1] if tag == "VALUE" else value).rpartition("/")[2].split(".")[0].casefold()


def split(prompt: str, facts: WorkspaceFacts) -> list[Token]:
    """Return words, numbers, quotations, signs and paths."""
    plain = prompt.replace("\n", " . ")
    for pattern in _NEW_NAMES:
        new = pattern.search(plain)
        if new is not None and (usable(new["name"]) or " " in new["name"]):
            before, after = plain[: new.start("name")], plain[new.end("name") :]
            name = Token("NAME", new["name"], new["name"])
            return [*_cut(before.rstrip("`\"'"), facts), name, *_cut(after.lstrip("`\"'"), facts)]
    return _cut(plain, facts)


def _cut(text: str, facts: WorkspaceFacts) -> list[Token]:
    spaced = sorted((re.escape(each) for each in facts.files if " " in each), key=len, reverse=True)
    found: list[Token] = []
    for part in re.split(f"({'|'.join(spaced) or '(?!)'})", text, flags=re.IGNORECASE):
        if path := _find_path(part, facts):
            found.append(Token("FILE", path, part))
        else:
            found += [_read_chunk(each, facts) for each in _CHUNK.finditer(part)]
    return [each for each in found if not (each.tag == "SIGN" and each.value in "@'\"`{}[]_()…“”")]


def _find_path(written: str, facts: WorkspaceFacts) -> str | None:
    plain = written.casefold().removeprefix("./")
    ways = ((path, (path.casefold(), path.casefold().rpartition("/")[2])) for path in facts.files)
    return next((path for path, names in ways if plain in names), None) if plain else None


def _read_chunk(chunk: re.Match[str], facts: WorkspaceFacts) -> Token:
    kind, written = str(chunk.lastgroup), chunk[0]
    if number := chunk["number"] or chunk["ordinal"]:
        digits = number.replace(",", "")
        return Token("NUMBER", float(digits) if "." in digits else int(digits), written)
    if kind == "back" or kind in ("double", "curly", "single"):
        path = _find_path(chunk[kind], facts)
        return Token("FILE", path, written) if path else Token("QUOTED", chunk[kind], written)
    if kind == "path":
        folder = written.strip("/")
        if path := _find_path(written, facts):
            return Token("FILE", path, written)
        if folder in folders_of(facts.files):
            return Token("FOLDER", folder, written)
        is_path = "/" in written or _TEXT_OR_TABLE.fullmatch(written)
        return Token("NOFILE" if is_path else "UNKNOWN", written, written)
    if kind == "word":
        return Token("WORD", chunk["word"].casefold(), chunk["word"])
    if written == "-" and chunk.string[chunk.start() - 1 : chunk.start()].isalnum():
        return Token("SIGN", "_", written)  # of two words that belong together
    return Token("DATE" if kind == "date" else "SIGN", written, written)


ORDERS = ("names", "words")
"""The orders of reading: either wins where a name is also a word."""


@dataclass
class Lexer:
    """Turns a prompt into tokens."""

    names: Names
    order: str = ORDERS[0]

    def read(self, prompt: str) -> list[Token]:
        """Return the prompt in tokens, without idle words."""
        parts = split(prompt, self.names.facts)
        units = {words(each.name)[-1] for each in self.names.columns if words(each.name)}
        found: list[Token] = []
        at = 0
        while at < len(parts):
            token, length = self._next(parts, at)
            is_unit = token.tag == "UNKNOWN" and singular(token.text.casefold()) in units
            if token.tag != "IDLE" and not (is_unit and found and found[-1].tag == "NUMBER"):
                found.append(token)
            at += length
        return found

    def _next(self, parts: list[Token], at: int) -> tuple[Token, int]:
        """Return the token that starts here, and how many parts it takes."""
        first = parts[at]
        if first.tag == "QUOTED":
            return self._read_quotation(first), 1
        if first.tag not in ("WORD", "NUMBER", "SIGN"):
            return first, 1
        ahead = parts[at : at + _LONGEST + 4]
        plain = takewhile(lambda token: token.tag in ("WORD", "NUMBER", "SIGN"), ahead)
        spelled = tuple(str(each.value) for each in plain)
        ways = (self._as_name, self._as_phrase)
        for length in range(len(spelled), 0, -1):
            text = " ".join(each.text for each in ahead[:length])
            for find in ways if self.order == "names" else ways[::-1]:
                if named := find(spelled[:length], text):
                    return Token(*named, text), length
        if first.tag == "NUMBER":
            return first, 1
        if first.tag == "SIGN":
            is_stop = first.value in ".?!;:"
            return Token("STOP" if is_stop else "UNKNOWN", first.value, first.text), 1
        return self._read_word(first), 1

    def _as_phrase(self, spelled: Words, text: str) -> Named | None:
        return PHRASES.get(spelled)

    def _as_name(self, spelled: Words, text: str) -> Named | None:
        if len(spelled) == 1 and spelled[0].isdecimal():
            return None
        named = self.names.find(spelled)
        named = [each for each in named if _spell(each) == text.casefold()] or named
        if len(named) > 1:
            return "AMBIGUOUS", tuple(named)
        if not named:
            return None
        tag, value = named[0]
        if spelled in PHRASES and tag == "VALUE" and text != value[1]:
            return None  # an article is not a grade A
        if tag in ("FILE", "FOLDER") and PHRASES.get(spelled, ("",))[0] == "IDLE":
            return None  # nor the file a.ipynb
        column = next((c for c in self.names.columns if tag == "COL" and c.name == value), None)
        is_plural = text.casefold().endswith("s") and spelled[-1] != words(str(value))[-1]
        if column and is_plural and (truth := truth_of(column)):
            return "VALUE", (value, truth[0])
        return tag, value

    def _read_quotation(self, token: Token) -> Token:
        """Return a name in quotes as a name, other text as a value."""
        for column in self.names.columns:
            if column.name == token.value:
                return Token("COL", column.name, token.text)
        named = self.names.find(words(token.value))
        if len(named) == 1 and named[0][0] in ("COL", "VALUE", "TABLE", "VAR"):
            return Token(*named[0], token.text)
        return token

    def _read_word(self, word: Token) -> Token:
        """Return a word that is neither a name nor one of a phrase."""
        if singular(word.value) in self.names.entities:
            return Token("ROWS", "", word.text)
        if word.value in _SUPERLATIVES:
            end, measures = _SUPERLATIVES[word.value]
            columns = [
                each.name
                for each in self.names.columns
                if each.kind == "number" and {*words(each.name)} & {*measures}
            ]
            if len(columns) == 1:
                return Token("SUPERLATIVE", (end, columns[0]), word.text)
        return Token("UNKNOWN", word.value, word.text)
