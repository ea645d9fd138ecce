"""Split a prompt into tokens: names of the workspace, words of the vocabulary, what is unknown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ipyagent.explorer.chunks import Token, chunks
from ipyagent.explorer.name_table import WEEKDAYS, NameTable
from ipyagent.explorer.names import (
    UNITS,
    Words,
    correct,
    match_loosely,
    match_parts,
    singular,
    words,
)
from ipyagent.explorer.vocabulary import (
    COUNTED,
    ENTITIES,
    IDLE,
    LONGEST,
    MEASURED,
    MEASUREMENTS,
    MONTHS,
    PHRASES,
    SEXES,
    SUPERLATIVES,
    TURNING,
)
from ipyagent.explorer.workspace import Workspace

# Which reading wins where a name is also a word.
ORDERS = ("names", "words")


@dataclass
class Lexer:
    """Turns chunks into tokens; `corrected` collects the typing errors that it put right."""

    names: NameTable
    order: str = ORDERS[0]
    corrected: dict[str, str] = field(default_factory=dict)
    started: bool = False  # a word was read: a capital is no beginning of a sentence

    def tokens(self, prompt: str) -> list[Token]:
        """Return the prompt in tokens, without idle words."""
        parts = chunks(self._with_columns(prompt), self.names.paths)
        parts = [self._correct(part, is_first=at == 0) for at, part in enumerate(parts)]
        found: list[Token] = []
        at = 0
        while at < len(parts):
            self.started = at > 0
            made, length = self._next(parts, at)
            found += made
            at += length
        return _without_units(found)

    def _with_columns(self, prompt: str) -> str:
        """Return the prompt with typing errors in names like `tottal_bill` put right."""
        known = [c for c in self.names.columns if "_" in c]

        def right(found: re.Match[str]) -> str:
            close = correct(
                found[0].replace("_", "").casefold(), [c.replace("_", "").casefold() for c in known]
            )
            named = [c for c in known if c.replace("_", "").casefold() in close]
            if len(named) != 1 or found[0].casefold() == named[0].casefold():
                return found[0]
            self.corrected[found[0]] = named[0]
            return named[0]

        return re.sub(r"\b[^\W_]+(?:_[^\W_]+)+\b", right, prompt) if known else prompt

    def _next(self, parts: Sequence[Token], at: int) -> tuple[list[Token], int]:
        """Return the tokens that start here, and how many chunks they take."""
        first = parts[at]
        if first.tag == "QUOTED":
            return [self._read_quotation(first)], 1
        if first.tag not in ("WORD", "NUMBER", "SIGN"):
            return [first], 1
        runs = list(_runs(parts, at))
        for run, text, length in runs:
            token = self._exact(run, text)
            if token is None and len(run) > 1 and first.tag == "WORD" and "(" not in text:
                token = self._column_of_words(run, text)
            if token:
                return [token] if token.tag != "IDLE" else [], length
        if first.tag in ("NUMBER", "SIGN"):
            return [first], 1
        word = first.value
        if any(c in self.names.columns for c in COUNTED.get(word, ())):
            return [Token("UNKNOWN", word, first.text)], 1  # how many were sold: rows, or sales?
        own = singular(word) in self.names.entities
        if own and not any(run[-1] in MEASUREMENTS for run, _, _ in runs[:-1]):
            return [Token("ENTITY", True, first.text)], 1
        if word in IDLE or word in ("left", "lost"):
            return [], 1
        for run, text, length in runs:
            if "(" not in text and (token := self._loose(run, text)):
                return [token], length
        like = [value for tag, value in self.names.index.get((word,), []) if tag == "LIKE"]
        if len(like) == 1 and not any((word,) == words(c) for c in self.names.columns):
            return [Token("COL", like[0], first.text)], 1
        if own or singular(word) in ENTITIES:
            return [Token("ENTITY", own, first.text)], 1
        return [Token("UNKNOWN", first.text, first.text)], 1

    def _exact(self, run: Words, text: str) -> Token | None:
        named = self.names.index.get(run, [])
        if len(run) == 1 and (run[0] in IDLE or run in PHRASES):  # `a` is no grade A
            named = [n for n in named if n[0] != "VALUE" or str(n[1][1]) == text]
        tag, value = PHRASES.get(run, ("", ""))
        said = Token(tag, int(value) if tag == "NUMBER" else value, text) if tag else None
        if not said and run in SUPERLATIVES:
            said = Token("BEST", SUPERLATIVES[run], text)
        if not said and len(run) == 1 and run[0] in MONTHS:
            said = Token("MONTH", MONTHS.index(run[0]) + 1, text)
        if (
            len(run) == 1
            and run[0] in IDLE
            and self.order != "names"
            and not any(n[0] == "VALUE" for n in named)
        ):
            return said
        if said and said.tag == "MEASURES":
            said = Token("MEASURES", ("max", MEASURED[value]), text)
        computes = PHRASES.get(run[:1], ("",))[0] in ("STAT", "EXTREME")
        if self.order != "names" and named and len(run) == 2 and computes and named[0][0] == "COL":
            return said  # total volume: the total of TotalVolume
        if not named or (said and self.order != "names"):
            return said
        kinds = {tag for tag, _ in named}
        for tag in ("COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER"):
            if tag not in kinds:
                continue
            values = [value for kind, value in named if kind == tag]
            if tag == "COL" and self._are_rows(run, values):
                return Token("ENTITY", True, text)
            return (
                Token(tag, values[0], text)
                if len(values) == 1
                else Token("AMBIGUOUS", tuple(values), text)
            )
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
        computes = PHRASES.get(run[:1], ("",))[0] in ("STAT", "EXTREME")
        if any((word,) in self.names.index for word in run) or (computes and self.order != "names"):
            return None
        found = match_loosely(run, self.names.columns)
        return Token("COL", found[0], text) if len(found) == 1 else None

    def _loose(self, run: Words, text: str) -> Token | None:
        """Return the column or value that these words may name, if it is one."""
        ends = any(word in IDLE or (word,) in PHRASES for word in (run[0], run[-1]))
        if ends and not (len(run) > 1 and run[-1] in MEASUREMENTS and run[0] not in IDLE):
            return None
        if len(run) == 1 and run[0] in MEASUREMENTS:
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
        return self._loose_value(run, text)

    def _loose_value(self, run: Words, text: str) -> Token | None:
        (word, *more) = run
        values = self.names.table.values if self.names.table is not None else ()
        if more or len(word) < 5:
            return None
        fitting = [e for e in values if len(e[1]) >= 4 and word.startswith(e[1].casefold())]
        return Token("VALUE", fitting[0], text) if len(fitting) == 1 else None

    def _read_quotation(self, quoted: Token) -> Token:
        if path := self.names.paths.get(quoted.value.casefold()):
            return Token("FILE", path, quoted.text)
        exact = [e for e in self.names.columns if e == quoted.value]
        if exact:
            return Token("COL", exact[0], quoted.text)
        named = self._name(words(quoted.value), quoted.text)
        return named or Token("QUOTED", quoted.value, quoted.text)

    def _name(self, run: Words, text: str) -> Token | None:
        order, self.order = self.order, "names"
        token = self._exact(run, text) if run in self.names.index else None
        self.order = order
        return token

    def _correct(self, chunk: Token, *, is_first: bool) -> Token:
        """Return a word with its typing error put right, if it is close to one known word."""
        word = chunk.value
        if chunk.tag != "WORD" or len(word) < 5 or word in _KNOWN or word in self.names.words:
            return chunk
        if match_loosely((word,), self.names.columns):
            return chunk
        vocabulary = () if chunk.text[:1].isupper() and not is_first else _CORRECTED
        for known in (self.names.words, vocabulary):
            close = correct(word, known)
            if len({PHRASES.get((each,), (each, "")) for each in close}) == 1:
                self.corrected[chunk.text] = close[0]
                return replace(chunk, value=close[0])
        return chunk


_SPOKEN = {word for way in (*PHRASES, *SUPERLATIVES) for word in way}
_KNOWN = _SPOKEN | IDLE | TURNING | UNITS | MEASUREMENTS | {*MONTHS, *WEEKDAYS, *SEXES}
_KNOWN |= ENTITIES | {f"{each}s" for each in (*ENTITIES, *MEASUREMENTS)}
_CORRECTED = {word for word in _SPOKEN if len(word) > 4 and word.isalpha()}


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


def name_loaded(tokens: Sequence[Token], workspace: Workspace) -> list[Token]:
    """Let a file that was loaded for this prompt stand for its table."""
    loaded = workspace.loaded
    return [
        Token("TABLE", loaded[t.value], t.text) if t.tag == "FILE" and t.value in loaded else t
        for t in tokens
    ]


def without_stops(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without the signs that end or divide sentences."""
    return [t for t in tokens if not (t.tag == "SIGN" and t.value in ".?!;:")]


def _without_units(found: list[Token]) -> list[Token]:
    """Drop units after numbers: `> 4000 g`, `longer than 30 minutes`."""
    kept: list[Token] = []
    for token in found:
        unit = token.tag in ("UNKNOWN", "AMBIGUOUS") and words(str(token.text))[:1] != ()
        is_unit = unit and words(token.text)[0] in UNITS and len(words(token.text)) == 1
        if not (is_unit and kept and kept[-1].tag == "NUMBER"):
            kept.append(token)
    return kept
