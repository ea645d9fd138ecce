"""The words of a prompt: the vocabulary of `words.toml`, the workspace's names, and the lexer.

Names are columns, their values as people say them, tables, variables and files. The lexer splits a
prompt into tokens: names, words of the vocabulary, what is unknown. Chunks come first: words,
numbers, quotations, signs and paths, of which only paths are looked up.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from posixpath import splitext
from typing import Any

from ipyagent.explorer.frame import Token, has
from ipyagent.explorer.text import (
    UNITS,
    Words,
    correct,
    match_loosely,
    match_parts,
    singular,
    spellings,
    split_name,
    usable,
    words,
)
from ipyagent.explorer.workspace import Table, Workspace

_FILE = files("ipyagent.explorer").joinpath("words.toml")
_WORDS: dict[str, Any] = tomllib.loads(_FILE.read_text("utf-8"))
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


_CHUNK = re.compile(
    r"""
      "(?P<double>[^"\n]*)" | “(?P<curly>[^”\n]*)” | `(?P<back>[^`\n]*)`
    | (?<![\w'])'(?P<single>[^'\n]+)'(?!\w)
    | (?P<date>\d{4}-\d\d-\d\d)(?![\w-])
    | (?P<number>(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])
        |(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w]|\.\d))(?P<percent>\s?%)?
    | (?P<ordinal>\d{1,3})(?:st|nd|rd|th)\b
    | (?P<word>[^\W_]+(?:-[^\W\d_]+)*)
    | (?P<sign>>=|<=|==|!=|[^\w\s])
    """,
    re.VERBOSE,
)
_SHORT = re.compile(r"(?<=\w)'(?:s|d|t|re|ll|ve|m)\b")
_NOT = re.compile(r"\b(?:(can)not|(\w+)n't)\b", re.IGNORECASE)
# The one name that a prompt may bring along is the one that it gives.
_NEW_NAMES = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?:load|import|read)\b.*\b(?:as|into|called|named)\s+"
        r"[`'\"]?(?P<name>[A-Za-z]\w*)[`'\"]?(?=\s*[.!]?\s*\Z)",
        r"\b(?:add|create|make|derive|new)\s(?:.*\b(?:column|called|named)\s+)?[`'\"]?"
        r"(?P<name>[A-Za-z]\w*)[`'\"]?(?=\s*(?:=(?!=)|:|\bas\b|\bwith\b|\bfrom\b))",
        r"\brename\b.+\b(?:to|as|into)\s+[`'\"]?(?P<name>[A-Za-z][\w ]*?)[`'\"]?(?=\s*[.!]?\s*\Z)",
        r"\A\s*(?P<name>[A-Za-z][\w ]{0,40}?)\s*(?==(?!=)[^=]*[-+*/])",
    )
)
_A_PATH = re.compile(
    r"[\w./~-]*\w\.(?:csv|tsv|parquet|xlsx|xls|jsonl?|txt|md|py|ipynb|ya?ml|toml|log|html|pdf)"
    r"|[\w.~-]*/[\w./~-]*\.\w{1,8}",
    re.IGNORECASE,
)
_QUOTES = "\"'`()“”"
_AROUND = f"{_QUOTES}@,;:!?"


def chunks(prompt: str, paths: dict[str, str]) -> list[Token]:
    """Return words, numbers, quotations, signs and paths; only paths are looked up."""
    plain = prompt.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("\n", " . ")
    for pattern in _NEW_NAMES:
        new = pattern.search(plain)
        if new is not None and (usable(new["name"]) or " " in new["name"]):
            before = plain[: new.start("name")].rstrip("`\"'")
            after = plain[new.end("name") :].lstrip("`\"'")
            name = Token("NAME", new["name"], new["name"])
            return [*_words_and_paths(before, paths), name, *_words_and_paths(after, paths)]
    return _words_and_paths(plain, paths)


def _words_and_paths(text: str, paths: dict[str, str]) -> list[Token]:
    """Split text at paths, also those with blanks, then what is between them."""
    found, raw = list[Token](), ""
    spaced = sorted((re.escape(path) for path in paths if " " in path), key=len, reverse=True)
    splits = "|".join([*spaced, r"\s+"])
    for part in re.split(f"({splits})", text, flags=re.IGNORECASE):
        token = _path(part.strip(_AROUND).removesuffix(".").strip(_AROUND), paths)
        if token is None:
            raw += part if raw or not found else part.lstrip(_QUOTES)
            continue
        found += [*_cut(raw.rstrip(_QUOTES)), token]
        raw = " . " if part.endswith((".", "!", "?")) else "," if part.endswith(",") else ""
    return found + _cut(raw)


def _path(written: str, paths: dict[str, str]) -> Token | None:
    if "." not in written and "/" not in written:
        return None
    if path := paths.get(written.casefold()):
        return Token("FOLDER" if path.endswith("/") else "FILE", path, written)
    return Token("NOFILE", written, written) if _A_PATH.fullmatch(written) else None


def _cut(text: str) -> list[Token]:
    found: list[Token] = []
    plain = _SHORT.sub("", _NOT.sub(r"\1\2 not", text))
    for match in _CHUNK.finditer(plain):
        kind, written = str(match.lastgroup), match[0]
        if number := match["number"] or match["ordinal"]:
            digits = number.replace(",", "")
            value = float(digits) if "." in digits else int(digits)
            found.append(Token("NUMBER", value, match["number"] or written))
        elif kind in ("double", "curly", "back", "single"):
            found.append(Token("QUOTED", match[kind], written))
        elif kind == "date":
            found.append(Token("DATE", written, written))
        elif kind == "word":
            found += [Token("WORD", each.casefold(), each) for each in written.split("-")]
        elif written not in "@'\"`{}[]_" and not (
            written == "-" and plain[match.start() - 1 : match.start()].isalnum()
        ):
            found.append(Token("SIGN", written, written))
    return found


ORDERS = ("names", "words")
"""The orders of reading: either wins where a name is also a word."""


@dataclass
class Lexer:
    """Turns chunks into tokens; `corrected` collects the typing errors that it put right."""

    names: NameTable
    order: str = ORDERS[0]
    corrected: dict[str, str] = field(default_factory=dict)

    def tokens(self, prompt: str) -> list[Token]:
        """Return the prompt in tokens, without idle words."""
        parts = chunks(prompt, self.names.paths)
        parts = [self._correct(part, is_first=at == 0) for at, part in enumerate(parts)]
        found: list[Token] = []
        at = 0
        while at < len(parts):
            made, length = self._next(parts, at)
            found += made
            at += length
        return self._tidy(found)

    def _tidy(self, found: Sequence[Token]) -> list[Token]:
        """Drop ends of sentences, and units after numbers; name the tables of loaded files."""
        kept: list[Token] = []
        for token in found:
            is_end = token.tag == "SIGN" and token.value in ".?!;:"
            if not is_end and not (has(kept[-1:], "NUMBER") and _is_unit(token)):
                table = self.names.loaded.get(token.value) if token.tag == "FILE" else None
                kept.append(Token("TABLE", table, token.text) if table else token)
        return kept

    def _next(self, parts: Sequence[Token], at: int) -> tuple[list[Token], int]:
        """Return the tokens that start here, and how many chunks they take."""
        first = parts[at]
        if first.tag == "QUOTED":
            return [self._read_quotation(first)], 1
        if first.tag not in ("WORD", "NUMBER", "SIGN"):
            return [first], 1
        runs = _runs(parts, at)
        for run, text, length in runs:
            token = self._exact(run, text)
            if token is None and len(run) > 1 and first.tag == "WORD" and "(" not in text:
                token = self._column_of_words(run, text)
            if token:
                return [token] if token.tag != "IDLE" else [], length
        if first.tag in ("NUMBER", "SIGN"):
            return [first], 1
        word, text = first.value, first.text
        if any(c in self.names.columns for c in COUNTED.get(word, ())):
            return [Token("UNKNOWN", word, text)], 1  # how many were sold: rows, or sales?
        own = singular(word) in self.names.entities
        if own and not any(run[-1] in MEASUREMENTS for run, _, _ in runs[:-1]):
            return [Token("ENTITY", True, text)], 1
        if word in IDLE:
            return [], 1
        for run, said, length in runs:
            if "(" not in said and (token := self._loose(run, said)):
                return [token], length
        like = [value for tag, value in self.names.index.get((word,), []) if tag == "LIKE"]
        if len(like) == 1 and not any((word,) == words(c) for c in self.names.columns):
            return [Token("COL", like[0], text)], 1
        is_entity = own or singular(word) in ENTITIES
        return [Token("ENTITY", own, text) if is_entity else Token("UNKNOWN", text, text)], 1

    def _exact(self, run: Words, text: str) -> Token | None:
        """Return the name, or else the phrase, that these words are; words first in that order."""
        named = self.names.index.get(run, [])
        is_idle = len(run) == 1 and run[0] in IDLE
        if is_idle or (len(run) == 1 and run in PHRASES):  # `a` is no grade A
            named = [n for n in named if n[0] != "VALUE" or str(n[1][1]) == text]
        said = _phrase(run, text)
        if not named or (is_idle and self.order != "names" and "VALUE" not in dict(named)):
            return said
        computes = len(run) == 2 and _computes(run) and named[0][0] == "COL"
        if self.order != "names" and (said or computes):
            return said  # total volume: the total of TotalVolume
        for tag in ("COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER"):
            if values := [value for kind, value in named if kind == tag]:
                if tag == "COL" and self._are_rows(run, values):
                    return Token("ENTITY", True, text)
                one = len(values) == 1
                return Token(tag if one else "AMBIGUOUS", values[0] if one else tuple(values), text)
        return said

    def _are_rows(self, run: Words, columns: Sequence[str]) -> bool:
        """Return whether the plural of a column that differs in each row stands for the rows."""
        table = self.names.table
        if table is None or len(columns) != 1 or columns[0] not in table.keys:
            return False
        return run[-1:] != words(columns[0])[-1:] and table.kind(columns[0]) == "text"

    def _column_of_words(self, run: Words, text: str) -> Token | None:
        """Return the column that several words shorten to: `years employed` for yrs_employed."""
        if run[0] in IDLE or run[-1] in IDLE or any((word,) in PHRASES for word in run[1:-1]):
            return None
        if all((word,) in PHRASES or word in MEASUREMENTS for word in run):
            return None
        is_named = any((word,) in self.names.index for word in run)
        if is_named or (_computes(run) and self.order != "names"):
            return None
        found = match_loosely(run, self.names.columns)
        return Token("COL", found[0], text) if len(found) == 1 else None

    def _loose(self, run: Words, text: str) -> Token | None:
        """Return the column that these words may name, if it is one."""
        ends = any(word in IDLE or (word,) in PHRASES for word in (run[0], run[-1]))
        measures = run[-1] in MEASUREMENTS and run[0] not in IDLE
        if (ends and not measures) or (len(run) == 1 and (ends or run[0] in MEASUREMENTS)):
            return None
        columns = self.names.columns
        bare = tuple(word for word in run if singular(word) not in MEASUREMENTS) or run
        for way in dict.fromkeys((run, bare)):
            found = match_loosely(way, columns) or match_parts(way, columns)
            if len(way) == 1 and singular(way[0]) in ENTITIES and self.names.table is not None:
                found = [c for c in found if self.names.table.kind(c) in ("text", "bool")]
            if found and len(way) == 1 and len(way[0]) < 3:
                continue
            if len(found) == 1:
                return Token("COL", found[0], text)
            if found:
                return Token("AMBIGUOUS", tuple(found), text)
        return None

    def _read_quotation(self, quoted: Token) -> Token:
        if path := self.names.paths.get(quoted.value.casefold()):
            return Token("FILE", path, quoted.text)
        if quoted.value in self.names.columns:
            return Token("COL", quoted.value, quoted.text)
        run = words(quoted.value)
        lexer = Lexer(self.names)  # a quotation is a name rather than a word
        named = lexer._exact(run, quoted.text) if run in self.names.index else None
        return named or Token("QUOTED", quoted.value, quoted.text)

    def _correct(self, chunk: Token, *, is_first: bool) -> Token:
        """Return a word with its typing error put right, if it is close to one known word."""
        word = chunk.value
        if chunk.tag != "WORD" or len(word) < 5 or word in _KNOWN or word in self.names.words:
            return chunk
        if match_loosely((word,), self.names.columns):
            return chunk
        is_name = chunk.text[:1].isupper() and not is_first
        for spelled in (self.names.words, frozenset() if is_name else _CORRECTED):
            close = sorted(correct(word, spelled))
            if len({PHRASES.get((each,), (each, "")) for each in close}) == 1:
                self.corrected[chunk.text] = close[0]
                return replace(chunk, value=close[0])
        return chunk


_SPOKEN = {word for way in (*PHRASES, *SUPERLATIVES) for word in way}
_KNOWN = _SPOKEN | IDLE | TURNING | UNITS | MEASUREMENTS
_KNOWN |= {*MONTHS, *WEEKDAYS, *SEXES}
_KNOWN |= ENTITIES | {f"{each}s" for each in (*ENTITIES, *MEASUREMENTS)}
_CORRECTED = frozenset(word for word in _SPOKEN if len(word) > 4 and word.isalpha())


def _phrase(run: Words, text: str) -> Token | None:
    """Return the token of a phrase, an adjective, or a month."""
    if run in PHRASES:
        tag, value = PHRASES[run]
        if tag == "MEASURES":
            return Token(tag, ("max", MEASURED[value]), text)
        return Token(tag, int(value) if tag == "NUMBER" else value, text)
    if run in SUPERLATIVES:
        return Token("BEST", SUPERLATIVES[run], text)
    if len(run) == 1 and run[0] in MONTHS:
        return Token("MONTH", MONTHS.index(run[0]) + 1, text)
    return None


def _computes(run: Words) -> bool:
    return PHRASES.get(run[:1], ("",))[0] in ("STAT", "EXTREME")


def _runs(parts: Sequence[Token], at: int) -> list[tuple[Words, str, int]]:
    """Return the runs of words that start here, the longest first, with the chunks they take.

    Signs within a name do not count: `Altitude (m)` is altitude m.
    """
    runs: list[tuple[Words, str, int]] = []
    run: list[str] = []
    text: list[str] = []
    for length, part in enumerate(parts[at : at + LONGEST + 3], 1):
        is_bracket = part.tag == "SIGN" and part.value in "()" and run and len(run) < LONGEST
        if is_bracket and length < len(parts[at:]):
            if part.value == ")" and "(" in text:
                runs[-1] = (runs[-1][0], f"{runs[-1][1]})", length)
            text.append(part.text)
            continue
        if part.tag not in ("WORD", "NUMBER", "SIGN"):
            break
        run.append(str(part.text if part.tag == "NUMBER" else part.value).casefold())
        text.append(part.text)
        runs.append((tuple(run), " ".join(text), length))
        if part.tag == "SIGN":
            break
    return runs[::-1]


def _is_unit(token: Token) -> bool:
    """Return whether this may be the unit of a number: `> 4000 g`, `longer than 30 minutes`."""
    spelled = words(token.text)
    return token.tag in ("UNKNOWN", "AMBIGUOUS") and len(spelled) == 1 and spelled[0] in UNITS
