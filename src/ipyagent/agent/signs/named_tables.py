"""Table files that a prompt names: with or without `@`, folder and ending."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ipyagent.tools.tables.inspect import table_ending

MOST = 3
"""Tables that are described beside a prompt."""
_MOST_TEXT = 20_000
_SHORTEST = 3
"""Letters of a name without its ending that is looked for; shorter ones are words of any text."""
_SEPARATORS = re.compile(r"[\s_-]+")


def find_named_tables(prompt: str, paths: Sequence[str]) -> list[str]:
    """Return up to MOST of the paths that the prompt names, in its order.

    A path counts more than a name, and a name more than its stem.
    """
    text = _normalize(prompt[:_MOST_TEXT])
    places = _find_forms(text, paths)
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
