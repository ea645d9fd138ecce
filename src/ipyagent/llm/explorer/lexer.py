"""A prompt, cut into tokens: names of the workspace, words of the vocabulary, and the rest."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from ipyagent.llm.explorer.names import Words, spellings, usable, words
from ipyagent.llm.explorer.vocabulary import AFTER, AMID, BEFORE, PHRASES, STOP_LIST, TURNING
from ipyagent.llm.explorer.workspace import Table, Workspace

# Which reading wins where a name is also a word, or two names are spelled alike.
ORDERS: tuple[tuple[str, ...], ...] = (
    ("COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER", "WORD"),
    ("TABLE", "FILE", "COL", "VALUE", "VAR", "FOLDER", "WORD"),
    ("WORD", "COL", "VALUE", "TABLE", "FILE", "VAR", "FOLDER"),
)

_CHUNK = re.compile(
    r"""
      "(?P<double>[^"\n]*)" | “(?P<curly>[^”\n]*)” | `(?P<back>[^`\n]*)`
    | (?<![\w'])'(?P<single>[^'\n]+)'(?!\w)
    | (?P<date>\d{4}-\d\d-\d\d)(?![\w-])
    | (?P<number>(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])
        |(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w]|\.\d))(?P<percent>%)?
    | (?P<ordinal>\d{1,3})(?:st|nd|rd|th)\b
    | (?P<word>[^\W_]+(?:'(?:s|d|t|re|ll|ve|m)\b)?)
    | (?P<sign>>=|<=|==|!=|[^\w\s])
    """,
    re.VERBOSE,
)
# The one name that a prompt may bring along is the one that it gives.
_NEW_TABLE = re.compile(
    r"\b(?:load|import|read)\b.*\b(?:as|into|called|named)\s+[`'\"]?(?P<name>[A-Za-z]\w*)[`'\"]?"
    r"(?=\s*[.!]?\s*\Z)",
    re.IGNORECASE | re.DOTALL,
)
_NEW_COLUMN = re.compile(
    r"\b(?:add|create|make|derive)\s(?:.*\b(?:column|called|named)\s+)?[`'\"]?"
    r"(?P<name>[A-Za-z]\w*)[`'\"]?(?=\s*(?:=(?!=)|:|\bas\b|\bwith\b|\bfrom\b))",
    re.IGNORECASE | re.DOTALL,
)
_A_PATH = re.compile(
    r"[\w./~-]*\w\.(?:csv|tsv|parquet|xlsx|xls|jsonl?|txt|md|py|ipynb|ya?ml|toml|log|html|pdf)"
    r"|[\w.~-]*/[\w./~-]*\.\w{1,8}",
    re.IGNORECASE,
)
_SEPARATORS = frozenset("@'\"`(){}[]")


@dataclass(frozen=True)
class Token:
    """A piece of a prompt. `text` is how it was written; UNKNOWN is what nothing accounts for."""

    tag: str
    value: Any
    text: str


@dataclass
class Names:
    """The names that a prompt may use, by their spellings."""

    index: dict[Words, dict[str, list[Any]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    paths: dict[str, str] = field(default_factory=dict)

    def add(self, tag: str, value: Any, ways: set[Words]) -> None:
        """Know that `value` may be written in these ways."""
        for way in ways:
            if value not in self.index[way][tag]:
                self.index[way][tag].append(value)

    @property
    def words(self) -> frozenset[str]:
        """All words that names hold."""
        return frozenset(word for way in self.index for word in way)

    @property
    def longest(self) -> int:
        """The number of words of the longest name."""
        return max((len(way) for way in self.index), default=0)


def names_of(workspace: Workspace, table: Table | None) -> Names:
    """The names of a workspace, with the columns and values of one table."""
    names = Names()
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


def _add_file(names: Names, path: str, workspace: Workspace) -> None:
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


def _prefer_exact(names: Names) -> None:
    """Where one name is spelled so itself, others that merely could be are dropped."""
    for way, tags in names.index.items():
        for tag, values in tags.items():
            exact = [v for v in values if words(v[1] if tag == "VALUE" else str(v)) == way]
            if exact:
                tags[tag] = exact


def tokens(prompt: str, names: Names, order: tuple[str, ...] = ORDERS[0]) -> list[Token]:
    """The prompt in tokens, without politeness."""
    plain = prompt.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    chunks = _polite_parts_dropped(_chunks(plain, names), names.words)
    found: list[Token] = []
    at = 0
    while at < len(chunks):
        token, length = _next(chunks, at, names, order)
        found += [token] if token is not None else []
        at += length
    return _joined(found)


def _chunks(prompt: str, names: Names) -> list[Token]:
    """Words, numbers, quotations, signs and paths; nothing is looked up but paths."""
    new = _NEW_TABLE.search(prompt) or _NEW_COLUMN.search(prompt)
    if new is None or not usable(new["name"]):
        return _parts(prompt, names)
    before, after = prompt[: new.start("name")], prompt[new.end("name") :]
    name = Token("NAME", new["name"], new["name"])
    return [*_parts(before.rstrip("`\"'"), names), name, *_parts(after.lstrip("`\"'"), names)]


def _parts(prompt: str, names: Names) -> list[Token]:
    found: list[Token] = []
    for part in re.split(r"(\s+)", prompt):
        bare = part.strip("\"'`@,;:!?()").removesuffix(".")
        if token := _path(bare, names):
            found.append(token)
            found += [Token("SIGN", ",", ",")] * part.endswith(",")
        elif found and found[-1].tag == "RAW":
            found[-1] = Token("RAW", None, found[-1].text + part)
        else:
            found.append(Token("RAW", None, part))
    return [c for each in found for c in (_cut(each.text) if each.tag == "RAW" else [each])]


def _path(written: str, names: Names) -> Token | None:
    if "." not in written and "/" not in written:
        return None
    if path := names.paths.get(written.casefold()):
        return Token("FOLDER" if path.endswith("/") else "FILE", path, written)
    return Token("NOFILE", written, written) if _A_PATH.fullmatch(written) else None


def _cut(text: str) -> list[Token]:
    found: list[Token] = []
    for match in _CHUNK.finditer(text):
        kind, written = str(match.lastgroup), match[0]
        if match["percent"]:
            found.append(_number(match["number"]))
            found.append(Token("SIGN", "%", "%"))
        elif kind in ("double", "curly", "back", "single"):
            found.append(Token("QUOTED", match[kind], written))
        elif kind == "number":
            found.append(_number(written))
        elif kind == "ordinal":
            found.append(Token("NUMBER", int(match["ordinal"]), written))
        elif kind == "date":
            found.append(Token("DATE", written, written))
        elif kind == "word":
            found.append(Token("WORD", written.casefold(), written))
        elif not _mere_separator(match, text):
            found.append(Token("SIGN", written, written))
    return found


def _mere_separator(match: re.Match[str], text: str) -> bool:
    """Whether a sign only holds words together or ends the prompt."""
    hyphen = match[0] == "-" and text[match.start() - 1 : match.start()].isalnum()
    ends = match[0] in ".?!" and not text[match.end() :].strip(" \n\t.?!")
    return match[0] in _SEPARATORS or hyphen or ends


def _number(written: str) -> Token:
    plain = written.replace(",", "")
    return Token("NUMBER", float(plain) if "." in plain else int(plain), written)


def _polite_parts_dropped(chunks: list[Token], in_names: frozenset[str]) -> list[Token]:
    """The chunks without idle words, unless names hold them, and without polite phrases."""
    idle = STOP_LIST - in_names
    kept = [each for each in chunks if not (each.tag == "WORD" and each.value in idle)]
    while (said := _said(kept)) not in PHRASES:
        start, end = _politeness(said)
        if start == end:
            break
        kept = kept[:start] + kept[end:]
    return kept


def _said(chunks: list[Token]) -> Words:
    return tuple(str(each.value) if each.tag in ("WORD", "SIGN") else "" for each in chunks)


def _politeness(said: Words) -> tuple[int, int]:
    """Where a phrase stands that can be left out; an empty place if there is none."""
    if said and said[0] in (",", ":"):
        return 0, 1
    if said and said[-1] in (",", ".", "?", "!"):
        return len(said) - 1, len(said)
    for phrase in BEFORE:
        n = len(phrase)
        if said[:n] == phrase and not any(said[:more] in PHRASES for more in range(n + 1, 7)):
            return 0, n
    for phrase in AMID:
        for i in range(len(said)):
            if said[i : i + len(phrase)] == phrase:
                return i, i + len(phrase)
    for phrase in AFTER:
        if len(said) > len(phrase) and said[-len(phrase) :] == phrase:
            return len(said) - len(phrase), len(said)
    return 0, 0


def _next(
    chunks: list[Token], at: int, names: Names, order: tuple[str, ...]
) -> tuple[Token | None, int]:
    """The token that starts here, and how many chunks it takes."""
    first = chunks[at]
    if first.tag in ("FILE", "NOFILE", "FOLDER", "DATE", "NAME"):
        return first, 1
    if first.tag == "QUOTED":
        if path := names.paths.get(first.value.casefold()):
            return Token("FILE", path, first.text), 1
        named = _named(words(first.value), first.text, names, order[:-1])
        exact = named is not None and named.tag != "UNKNOWN"
        return (named if exact else Token("QUOTED", first.value, first.text)), 1
    for length in range(min(len(chunks) - at, max(names.longest, 5)), 0, -1):
        run = chunks[at : at + length]
        if any(each.tag not in ("WORD", "NUMBER", "SIGN") for each in run):
            continue
        text = " ".join(each.text for each in run)
        spelled = tuple(str(e.value if e.tag != "NUMBER" else e.text).casefold() for e in run)
        if token := _named(spelled, text, names, order):
            return token, length
    if first.tag == "NUMBER":
        return first, 1
    if first.value in STOP_LIST:
        return None, 1
    tag = "TURNING" if first.value in TURNING or first.tag == "SIGN" else "UNKNOWN"
    return Token(tag, first.text, first.text), 1


def _named(way: Words, text: str, names: Names, order: tuple[str, ...]) -> Token | None:
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


def _joined(found: list[Token]) -> list[Token]:
    """Neighbouring unknown words as one; a value beside its own column as one."""
    joined: list[Token] = []
    for token in found:
        last = joined[-1] if joined else None
        if last and last.tag == token.tag == "UNKNOWN":
            joined[-1] = Token("UNKNOWN", f"{last.text} {token.text}", f"{last.text} {token.text}")
        elif last and _same_column(last, token):
            joined[-1] = last if last.tag == "VALUE" else token
        else:
            joined.append(token)
    return joined


def _same_column(left: Token, right: Token) -> bool:
    pair = {left.tag: left, right.tag: right}
    return set(pair) == {"COL", "VALUE"} and pair["VALUE"].value[0] == pair["COL"].value
