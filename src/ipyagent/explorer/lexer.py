"""Split a prompt into tokens: names of the workspace, words of the vocabulary, what is unknown.

Chunks come first: words, numbers, quotations, signs and paths, of which only paths are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ipyagent.explorer import vocabulary as known
from ipyagent.explorer.frame import Token, has
from ipyagent.explorer.names import (
    UNITS,
    Words,
    correct,
    match_loosely,
    match_parts,
    singular,
    usable,
    words,
)
from ipyagent.explorer.vocabulary import ENTITIES, IDLE, MEASUREMENTS, PHRASES, NameTable

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
    found: list[Token] = []
    raw = ""
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
        if any(c in self.names.columns for c in known.COUNTED.get(word, ())):
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


_SPOKEN = {word for way in (*PHRASES, *known.SUPERLATIVES) for word in way}
_KNOWN = _SPOKEN | IDLE | known.TURNING | UNITS | MEASUREMENTS
_KNOWN |= {*known.MONTHS, *known.WEEKDAYS, *known.SEXES}
_KNOWN |= ENTITIES | {f"{each}s" for each in (*ENTITIES, *MEASUREMENTS)}
_CORRECTED = frozenset(word for word in _SPOKEN if len(word) > 4 and word.isalpha())


def _phrase(run: Words, text: str) -> Token | None:
    """Return the token of a phrase, an adjective, or a month."""
    if run in PHRASES:
        tag, value = PHRASES[run]
        if tag == "MEASURES":
            return Token(tag, ("max", known.MEASURED[value]), text)
        return Token(tag, int(value) if tag == "NUMBER" else value, text)
    if run in known.SUPERLATIVES:
        return Token("BEST", known.SUPERLATIVES[run], text)
    if len(run) == 1 and run[0] in known.MONTHS:
        return Token("MONTH", known.MONTHS.index(run[0]) + 1, text)
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
    for length, part in enumerate(parts[at : at + known.LONGEST + 3], 1):
        is_bracket = part.tag == "SIGN" and part.value in "()" and run and len(run) < known.LONGEST
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
