"""A prompt in chunks: words, numbers, quotations, signs and paths; and without politeness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ipyagent.explorer.names import Words, usable
from ipyagent.explorer.vocabulary import AFTER, AMID, BEFORE, PHRASES, STOP_LIST

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
    r"\b(?:add|create|make|derive|new)\s(?:.*\b(?:column|called|named)\s+)?[`'\"]?"
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


def chunks(prompt: str, paths: dict[str, str]) -> list[Token]:
    """Words, numbers, quotations, signs and paths; nothing is looked up but paths."""
    new = _NEW_TABLE.search(prompt) or _NEW_COLUMN.search(prompt)
    if new is None or not usable(new["name"]):
        return _parts(prompt, paths)
    before, after = prompt[: new.start("name")], prompt[new.end("name") :]
    name = Token("NAME", new["name"], new["name"])
    return [*_parts(before.rstrip("`\"'"), paths), name, *_parts(after.lstrip("`\"'"), paths)]


def _parts(prompt: str, paths: dict[str, str]) -> list[Token]:
    found: list[Token] = []
    for part in re.split(r"(\s+)", prompt):
        bare = part.strip("\"'`@,;:!?()").removesuffix(".")
        if token := _path(bare, paths):
            found.append(token)
            found += [Token("SIGN", ",", ",")] * part.endswith(",")
        elif found and found[-1].tag == "RAW":
            found[-1] = Token("RAW", None, found[-1].text + part)
        else:
            found.append(Token("RAW", None, part))
    return [c for each in found for c in (_cut(each.text) if each.tag == "RAW" else [each])]


def _path(written: str, paths: dict[str, str]) -> Token | None:
    if "." not in written and "/" not in written:
        return None
    if path := paths.get(written.casefold()):
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


def without_politeness(chunks: list[Token], in_names: frozenset[str]) -> list[Token]:
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
    for phrase in AFTER:
        if len(said) > len(phrase) and said[-len(phrase) :] == phrase:
            return len(said) - len(phrase), len(said)
    for phrase in AMID:
        for i in range(len(said)):
            if said[i : i + len(phrase)] == phrase:
                return i, i + len(phrase)
    return 0, 0
