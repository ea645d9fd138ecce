"""Split a prompt into words, numbers, quotations, signs and paths, without politeness."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """A piece of a prompt. `text` is the original spelling; UNKNOWN: nothing accounts for it."""

    tag: str
    value: Any
    text: str


def chunks(prompt: str, paths: dict[str, str]) -> list[Token]:
    """Return words, numbers, quotations, signs and paths; only paths are looked up."""
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
    """Return whether a sign only joins words or ends the prompt."""
    hyphen = match[0] == "-" and text[match.start() - 1 : match.start()].isalnum()
    ends = match[0] in ".?!" and not text[match.end() :].strip(" \n\t.?!")
    return match[0] in _SEPARATORS or hyphen or ends


def _number(written: str) -> Token:
    plain = written.replace(",", "")
    return Token("NUMBER", float(plain) if "." in plain else int(plain), written)


def without_politeness(chunks: list[Token], in_names: frozenset[str]) -> list[Token]:
    """Return the chunks without idle words, unless names contain them, and polite phrases."""
    idle = STOP_LIST - in_names
    kept = [each for each in chunks if not (each.tag == "WORD" and each.value in idle)]
    while (phrase_words := _plain_words(kept)) not in PHRASES:
        start, end = _politeness(phrase_words)
        if start == end:
            break
        kept = kept[:start] + kept[end:]
    return kept


def _plain_words(chunks: list[Token]) -> Words:
    return tuple(str(each.value) if each.tag in ("WORD", "SIGN") else "" for each in chunks)


def _politeness(phrase_words: Words) -> tuple[int, int]:
    """Return the span of a phrase that can be left out; an empty span if there is none."""
    if phrase_words and phrase_words[0] in (",", ":"):
        return 0, 1
    if phrase_words and phrase_words[-1] in (",", ".", "?", "!"):
        return len(phrase_words) - 1, len(phrase_words)
    for phrase in BEFORE:
        n = len(phrase)
        if phrase_words[:n] == phrase and not any(
            phrase_words[:more] in PHRASES for more in range(n + 1, 7)
        ):
            return 0, n
    for phrase in AFTER:
        if len(phrase_words) > len(phrase) and phrase_words[-len(phrase) :] == phrase:
            return len(phrase_words) - len(phrase), len(phrase_words)
    for phrase in AMID:
        for i in range(len(phrase_words)):
            if phrase_words[i : i + len(phrase)] == phrase:
                return i, i + len(phrase)
    return 0, 0


def join_unknown(found: Iterable[Token]) -> list[Token]:
    """Return the tokens, unknown words that follow each other as one."""
    joined: list[Token] = []
    for token in found:
        last = joined[-1] if joined else None
        if last and last.tag == token.tag == "UNKNOWN":
            joined[-1] = Token("UNKNOWN", f"{last.text} {token.text}", f"{last.text} {token.text}")
        else:
            joined.append(token)
    return joined
