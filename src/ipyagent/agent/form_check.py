"""The form that a prompt asks for, and whether an answer has it.

A false reminder costs a request and the user's patience, so only what is asked for in so many words
counts: only JSON, a Markdown table, a number of decimals. In doubt nothing is asked for, and an
answer that asks back or cannot answer is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

REMINDER = """\
Your answer lacks the form that the user asked for: {form}. Give your whole answer again, ending \
in exactly that form. If you cannot, say why.\
"""


@dataclass(frozen=True)
class Form:
    """A form of answers: its name, and how to tell that an answer has it."""

    name: str
    is_in: Callable[[str], bool]


def find_missing_form(prompt: str, answer: str) -> str | None:
    """Return the name of a form that the prompt asks for and the answer lacks."""
    if not answer.strip() or _DECLINES.search(answer) or answer.rstrip().endswith("?"):
        return None
    prose = _CODE.sub(" ", prompt)
    return next((form.name for form in _find_forms(prose) if not form.is_in(answer)), None)


def _find_forms(prompt: str) -> Iterator[Form]:
    """Yield the forms that the prompt asks for."""
    if (asked := _JSON.search(prompt)) and not _IN_A_FILE.search(prompt):
        kind = (asked["kind"] or asked["kind2"] or "").casefold()
        expected = dict if kind == "object" else list if kind in ("array", "list") else object
        yield Form(f"JSON ({kind})" if kind else "JSON", lambda answer: _has_json(answer, expected))
    if _TABLE.search(prompt) and not _IN_A_FILE.search(prompt):
        yield Form("a Markdown table", lambda answer: bool(_ROW.search(answer)))
    if (asked := _DECIMALS.search(prompt)) and not _ELSEWHERE.search(prompt):
        places = _NUMBERS.get(asked["count"].casefold(), asked["count"])
        yield Form(f"numbers with {places} decimals", _has_decimals(int(places)))


def _has_json(answer: str, kind: type) -> bool:
    """Return whether the answer, or what it quotes as code, is JSON of that kind."""
    for text in (answer, *(each["code"] for each in _BLOCK.finditer(answer))):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, kind if kind is not object else (dict, list)):
            return True
    return False


def _has_decimals(places: int) -> Callable[[str], bool]:
    """Return a check that is passed too where no number has a fraction: it may be an integer."""

    def check(answer: str) -> bool:
        fractions = [each["fraction"] for each in _NUMBER.finditer(answer)]
        # A number may have lost its last zeros; one with more digits was not rounded.
        return not fractions or any(len(each) <= places for each in fractions)

    return check


_CODE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)")
_BLOCK = re.compile(r"(?ms)^[ \t]*```\w*[ \t]*\n(?P<code>.*?)^[ \t]*```")

_JSON = re.compile(
    r"\b(?:answer|respond|reply|response|output|return|give)\b[^.?!\n]{0,40}?"
    r"\b(?:only|just|in|as|with|with only|valid|a|an)\s+(?:valid\s+|a\s+|an\s+|single\s+)*"
    r"JSON\b(?:\s+(?P<kind>object|array|list))?"
    r"|\b(?:only|just)\s+(?:valid\s+|a\s+)?JSON\b(?:\s+(?P<kind2>object|array|list))?"
    r"(?!\s+(?:files?|columns?|data|lines?|parsers?|schema|keys?|fields?))",
    re.IGNORECASE,
)
_FILES = (
    r"write|save|store|export|dump|load|read|parse|convert|function|script|files?|database|API|"
    r"endpoint|def"
)
_OTHER_PLACES = r"plot|columns?|cell|variable|SQL|request"


def _elsewhere(words: str) -> re.Pattern[str]:
    """Return the pattern of words that put the form into something else than the answer."""
    names = r"\bto_\w+|\.(?:json|csv|md|html|txt|ipynb|py)\b"
    return re.compile(rf"\b(?:{words})\b|{names}", re.IGNORECASE)


_IN_A_FILE = _elsewhere(_FILES)
_ELSEWHERE = _elsewhere(f"{_FILES}|{_OTHER_PLACES}")
_TABLE = re.compile(
    r"\b(?:answer|respond|reply|give|present|summari[sz]e|list|report|return|format)\b"
    r"[^.?!\n]{0,60}?\b(?:as|in|with)\s+(?:a\s+)?(?:short\s+|small\s+|markdown\s+)*table\b"
    r"|\bmarkdown table\b",
    re.IGNORECASE,
)
_ROW = re.compile(
    r"(?m)^\s*\|?.*\S\s*\|.*\n\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$|<table"
)
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_DECIMALS = re.compile(
    r"\b(?:round(?:ed|ing)?|to|with|use|give|exactly)\b[^.?!\n]{0,40}?"
    r"\b(?P<count>one|two|three|four|five|six|[1-6])[ -]"
    r"(?:decimals?|decimal\s+(?:places?|digits?))\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*\.(?P<fraction>\d+)(?![\w]|\.\d)")
_DECLINES = re.compile(
    r"\b(?:cannot|can't|could not|couldn't|unable|not able|not possible|impossible|no such|"
    r"not found|does not exist|doesn't exist|there is no|denied|"
    r"declined|which (?:one|column|table))\b",
    re.IGNORECASE,
)
