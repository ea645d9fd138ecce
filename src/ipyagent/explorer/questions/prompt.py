"""Split a prompt into sentences, the form of the answer, and the files that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_LABEL = re.compile(
    r"^\s*(?:question|constraints?|(?:answer |output )?format|file(?: ?name)?|data|task|note)s?"
    r"\s*:\s*",
    re.IGNORECASE | re.MULTILINE,
)
_SLOT = re.compile(r"@(?P<name>\w+)\[(?P<held>[^\]\[\n]*)\]")
_END = re.compile(r"(?<=[.?!;])[\"'”)]*\s+|\n+")
_OPENING = re.compile(r"\s[\"'`“\u2018]$")  # of the next name
_QUOTES = "\"'`“”\u2018\u2019"
_DESCRIBES = re.compile(r"^(?:and |or )?(?:where|here|both|each|all|the|with)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Slot:
    """A part of the answer's form: `@name[held]`, and the sentences about it."""

    name: str
    held: str
    about: str = ""


@dataclass(frozen=True)
class Prompt:
    """A prompt: its sentences, the form of the answer with its description, the files."""

    sentences: tuple[str, ...]
    slots: tuple[Slot, ...] = ()
    description: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def asks_for_form(text: str) -> bool:
    """Return whether the answer is wanted in a form such as `@mean[value]`."""
    return _SLOT.search(text) is not None


def read_prompt(text: str, files: Iterable[str]) -> Prompt:
    """Return the parts of a prompt; names of files, also with spaces, are taken out of it."""
    text, named = _take_files(text, files)
    text = _LABEL.sub("\n", text)
    found = list(_SLOT.finditer(text))
    if not found:
        return Prompt(tuple(_sentences(text)), files=tuple(named))
    before = text[: found[0].start()]
    after = _SLOT.sub("\n", text[found[0].start() :])
    held = [match["held"].strip(_QUOTES + " ") for match in found]
    names = {each.casefold() for match in found for each in (match["name"], *held)}
    sentences, description = list(_sentences(before)), list[str]()
    for each in _sentences(after):
        described = _mentions(each, names) or _DESCRIBES.match(each)
        (description if described or _is_rounding(each) else sentences).append(each)
    about = _about_each(" ".join(description), held)
    slots = [Slot(m["name"], h, about[h]) for m, h in zip(found, held, strict=True)]
    return Prompt(tuple(sentences), tuple(slots), tuple(description), tuple(named))


def _take_files(text: str, files: Iterable[str]) -> tuple[str, list[str]]:
    """Return the text without the names of files, and their paths."""
    spelled = {name: path for path in files for name in (path, PurePosixPath(path).name)}
    named: dict[str, None] = {}
    for name in sorted(spelled, key=len, reverse=True):
        pattern = rf"(?<![\w/.-])[{_QUOTES}]?(?:\./)?{re.escape(name)}[{_QUOTES}]?(?![\w/-])"
        text, count = re.subn(pattern, " this file ", text, flags=re.IGNORECASE)
        if count:
            named.setdefault(spelled[name])
    return text, list(named)


def _sentences(text: str) -> Iterable[str]:
    for each in _END.split(text):
        plain = each.strip(" \t,;:-*•")
        if any(c.isalnum() for c in plain):
            yield plain


def _mentions(sentence: str, names: set[str]) -> bool:
    plain = sentence.casefold()
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", plain) for name in names)


def _is_rounding(sentence: str) -> bool:
    return bool(re.match(r"(?:round|with|to)?\W*\w+ (?:decimal|digit)", sentence, re.IGNORECASE))


def _about_each(description: str, held: Iterable[str]) -> dict[str, str]:
    """Return the piece of the description that belongs to each name, from its mention on."""
    starts: list[tuple[int, int, str]] = []
    for name in held:
        if found := re.search(rf"(?<!\w){re.escape(name)}(?!\w)[{_QUOTES}]?", description):
            starts.append((found.start(), found.end(), name))
    starts.sort()
    ends = [*(start for start, _, _ in starts[1:]), len(description)]
    cut = zip(starts, ends, strict=False)
    pieces = {name: _OPENING.sub("", description[s:end]) for (_, s, name), end in cut}
    return {name: pieces.get(name, description) for name in held}
