"""Phantom plans: a reply that announces actions and calls nothing.

Whoever reads it thinks that something will happen, or waits for a question that never comes. The
signs are of form rather than of language: a tool that is named but was not called, a heading "Plan"
with a numbered list below, a request to answer "yes". A wrong guess costs one more request and
never an answer; what explains, offers, asks or reports is left alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from ipyagent.agent import lexicon
from ipyagent.agent.lexicon import among, beginnings, words


def announces(text: str, offered: AbstractSet[str], called: AbstractSet[str]) -> bool:
    """Whether `text` announces actions; `offered` and `called` are names of tools."""
    if not offered:
        return False
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    prose = _FENCE.sub("\n", plain)
    sentences = [each for each in _END.split(prose) if each.strip()]
    return (
        _names_a_tool(sentences, offered - called)
        or _has_headed_plan(prose, reports=bool(called))
        or any(_asks_for_a_yes(each) for each in sentences)
    )


def _names_a_tool(sentences: list[str], uncalled: AbstractSet[str]) -> bool:
    # A name of one word, such as "search", may be just that word.
    names = "|".join(re.escape(name.casefold()) for name in uncalled if "_" in name)
    if not names:
        return False
    mention = re.compile(rf"(?<![\w./-])(?:{names})(?![\w/-]|\.\w)", re.ASCII)
    calls = re.compile(rf"\s*\d+[.)]\s*`?({names})`?(?=$|[ (][^:]*$)", re.ASCII)
    if len({found[1] for each in sentences if (found := calls.match(each))}) > 1:
        return True
    return any(
        _announces_a_call(_QUOTED.sub(" ", each.replace("`", "")), mention) for each in sentences
    )


def _announces_a_call(sentence: str, mention: re.Pattern[str]) -> bool:
    found = mention.findall(sentence)
    if not found or _QUESTION.search(sentence) or _DENIES.search(sentence):
        return False
    return bool(_INTENDS.search(sentence)) and not _TEACHES.search(sentence)


def _asks_for_a_yes(sentence: str) -> bool:
    if _ELSEWHERE.search(sentence):
        return False
    return bool(_REPLY_YES.search(sentence) or _ASKS_LEAVE.search(sentence))


def _has_headed_plan(prose: str, *, reports: bool) -> bool:
    for title, item in _headed([line for line in prose.splitlines() if line.strip()]):
        said = frozenset(re.findall(r"[\w']+", title)) - _BESIDE_PLAN
        if said and said <= _PLAN:
            return True
        # Steps are also what a person is told to take, or what was done.
        if said and said <= _STEPS and not reports and "`" not in item:
            return not _FOR_THE_PERSON.search(item)
    return False


def _headed(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Lines that may be a heading, with the first item of the list below."""
    for at, line in enumerate(lines):
        title, colon, rest = line.partition(":")
        # Between a heading and its list there may be a line that leads over.
        for item in (rest if colon else "", *lines[at + 1 : at + 3]):
            if _ITEM.match(item):
                yield title.partition("(")[0], item
                break


_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)")
_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“”\n]*[“”]|「[^」\n]*」|^\s*>.*"
)
_END = re.compile(r"(?<=\D[.!?…]\s)|(?<=[。!?])(?=[^\x00-\x7f])|\n")
_QUESTION = re.compile(r"\?\W*$")
_ITEM = re.compile(r"\s*(?:[*_]{0,2}\d+[.)、]|(?:step|paso|schritt|étape|步骤|第)\s*[\d一二三]+)")

_INTENDS, _DENIES, _TEACHES, _ELSEWHERE, _FOR_THE_PERSON = (
    re.compile(words(each))
    for each in (
        lexicon.INTENDS,
        lexicon.DENIES,
        lexicon.TEACHES,
        lexicon.ELSEWHERE,
        lexicon.FOR_THE_PERSON,
    )
)
_PLAN, _STEPS, _BESIDE_PLAN = map(among, (lexicon.PLAN, lexicon.STEPS, lexicon.BESIDE_PLAN))

_MARKS = r"[\s\"'“”«»„「」*`_]*"
_REPLY_YES = re.compile(
    rf"(?:{words(lexicon.REPLY)})[\s\w:,]{{0,12}}?{_MARKS}(?:{words(lexicon.YES)})"
    rf"(?:{_MARKS}[.!。]?\s*$|.{{0,40}}?(?:{beginnings(lexicon.STARTS)}))"
)
_ASKS_LEAVE = re.compile(words(lexicon.ASKS_LEAVE))
