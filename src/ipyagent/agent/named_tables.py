"""Table files that a prompt names: with or without `@`, in any spelling that is near enough."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from ipyagent.tools.tables.inspect import table_ending

MOST = 3
"""Tables that are described beside a prompt."""
_MOST_TEXT = 20_000
_MOST_WORDS = 500
"""Words that are compared letter by letter with names."""
_SHORTEST = 3
"""Letters of a name without its ending that is looked for; shorter ones are words of any text."""
_SHORTEST_MISSPELT = 5
_SEPARATORS = re.compile(r"[\s_-]+")
_WORD = re.compile(r"\w+")


def find_named_tables(prompt: str, paths: Sequence[str]) -> list[str]:
    """Return up to MOST of the paths that the prompt names, in its order.

    A path counts more than a name, a name more than its stem, and anything more than a spelling
    that differs by a letter.
    """
    text = _normalize(prompt[:_MOST_TEXT])
    places = _find_forms(text, paths)
    if not places:
        places = _find_misspelt(text, paths)
    return sorted(places, key=lambda path: (places[path], path))[:MOST]


def _normalize(text: str) -> str:
    """Return the text in lower case, with blanks, underscores and hyphens as one blank."""
    return _SEPARATORS.sub(" ", text.casefold()).strip()


def _list_forms(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a prompt can name each path."""
    for path in paths:
        for form in dict.fromkeys((path, _name(path), _stem(path))):
            normal = _normalize(form)
            if len(normal) >= _SHORTEST:
                yield normal, path


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path)[: -len(table_ending(path) or "") - 1]


def _find_forms(text: str, paths: Sequence[str]) -> dict[str, int]:
    """Return the paths that the text names, with their places; longer names win."""
    by_form: dict[str, list[str]] = {}
    for form, path in _list_forms(paths):
        if form in text:
            by_form.setdefault(form, []).append(path)
    named: dict[str, int] = {}
    for form in sorted(by_form, key=len, reverse=True):
        whole = re.compile(rf"(?<![\w/]){re.escape(form)}(?![\w/]|\.\w)")
        if match := whole.search(text):
            for path in by_form[form]:
                named.setdefault(path, match.start())
            text = whole.sub(lambda found: "\0" * len(found[0]), text)
    return named


def _find_misspelt(text: str, paths: Sequence[str]) -> dict[str, int]:
    """Return the paths whose stem differs by a letter from a word, or from several in a row."""
    words = list(islice(_WORD.finditer(text), _MOST_WORDS))
    runs: dict[int, dict[int, list[tuple[int, str]]]] = {}
    found: dict[str, int] = {}
    for path in paths:
        stem = _normalize(_stem(path))
        count = len(_WORD.findall(stem))
        if len(stem) < _SHORTEST_MISSPELT or not count:
            continue
        if count not in runs:
            runs[count] = _list_runs(text, words, count)
        near = (runs[count].get(len(stem) + more, ()) for more in (-1, 0, 1))
        places = [start for start, run in chain(*near) if differ_by_a_letter(run, stem)]
        if places:
            found[path] = min(places)
    return found


def _list_runs(
    text: str, words: Sequence[re.Match[str]], count: int
) -> dict[int, list[tuple[int, str]]]:
    """Return all runs of so many words with their places, by their length."""
    runs: dict[int, list[tuple[int, str]]] = {}
    for n in range(len(words) - count + 1):
        start, end = words[n].start(), words[n + count - 1].end()
        runs.setdefault(end - start, []).append((start, text[start:end]))
    return runs


def differ_by_a_letter(one: str, other: str) -> bool:
    """Return whether one letter was changed, added, left out or exchanged with the next."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    # The length of the common beginning, found without a look at each letter.
    places = range(min(len(one), len(other)))
    start = bisect_left(places, True, key=lambda n: one[: n + 1] != other[: n + 1])
    rest, wanted = one[start:], other[start:]
    exchanged = rest[:2] == wanted[1::-1] and len(wanted) > 1 and rest[2:] == wanted[2:]
    return exchanged or rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:]
