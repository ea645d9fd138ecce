"""Split a prompt into words, numbers, quotations, signs and paths; only paths are looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ipyagent.explorer.names import usable

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
_AROUND = "\"'`@,;:!?()“”"


@dataclass(frozen=True)
class Token:
    """A piece of a prompt. `text` is the original spelling; UNKNOWN: nothing accounts for it."""

    tag: str
    value: Any
    text: str


def chunks(prompt: str, paths: dict[str, str]) -> list[Token]:
    """Return words, numbers, quotations, signs and paths; only paths are looked up."""
    plain = prompt.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("\n", " . ")
    for pattern in _NEW_NAMES:
        new = pattern.search(plain)
        if new is not None and (usable(new["name"]) or " " in new["name"]):
            before, after = plain[: new.start("name")], plain[new.end("name") :]
            name = Token("NAME", new["name"], new["name"])
            return [
                *_parts(before.rstrip("`\"'"), paths),
                name,
                *_parts(after.lstrip("`\"'"), paths),
            ]
    return _parts(plain, paths)


def _parts(prompt: str, paths: dict[str, str]) -> list[Token]:
    found: list[Token] = []
    text = prompt
    while text:
        at, path = min(
            ((text.casefold().find(p), p) for p in paths if " " in p and p in text.casefold()),
            default=(-1, ""),
        )
        head, text = (text, "") if at < 0 else (text[:at], text[at + len(path) :])
        if path:
            head, text = head.rstrip(_AROUND), text.lstrip(_AROUND)
        found += _words_and_paths(head, paths)
        if path:
            found.append(Token("FILE", paths[path], path))
    return found


def _words_and_paths(text: str, paths: dict[str, str]) -> list[Token]:
    found: list[Token] = []
    raw = ""
    for part in re.split(r"(\s+)", text):
        bare = part.strip(_AROUND).removesuffix(".").strip(_AROUND)
        token = _path(bare, paths)
        if token is None:
            raw += part
            continue
        found += [*_cut(raw.rstrip("\"'`(“")), token]
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
        if match["number"]:
            found.append(_number(match["number"]))
        elif kind in ("double", "curly", "back", "single"):
            found.append(Token("QUOTED", match[kind], written))
        elif kind == "ordinal":
            found.append(Token("NUMBER", int(match["ordinal"]), written))
        elif kind == "date":
            found.append(Token("DATE", written, written))
        elif kind == "word":
            found += [Token("WORD", each.casefold(), each) for each in written.split("-")]
        elif written not in "@'\"`{}[]_" and not _joins(match, plain):
            found.append(Token("SIGN", written, written))
    return found


def _joins(match: re.Match[str], text: str) -> bool:
    return match[0] == "-" and text[match.start() - 1 : match.start()].isalnum()


def _number(written: str) -> Token:
    plain = written.replace(",", "")
    return Token("NUMBER", float(plain) if "." in plain else int(plain), written)
