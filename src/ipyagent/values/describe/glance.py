"""The tables among the variables that a prompt is about, described as tables in files are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import secrecy
from ipyagent.values.describe import describe, is_table
from ipyagent.values.describe.libraries import column_labels, table_of
from ipyagent.values.describe.metadata import try_or_none
from ipyagent.values.describe.safe_inspect import one_line

_MOST_NAMED, _MOST_MEANT = 3, 2
"""Tables that are described: by their names, else by the names of their columns."""
_MOST_TEXT = 20_000
_SHORTEST = 3
"""Letters of a column's name; shorter ones are words of any prompt."""
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def describe_named_tables(
    prompt: str, variables: Mapping[str, object], limit: int, *, or_only: bool
) -> dict[str, str]:
    """Describe the tables that a prompt names, or else the columns of, in `limit` bytes each.

    If it names none, the only one may be meant.
    """
    words = _split(prompt[:_MOST_TEXT])
    tables = {name: value for name, value in variables.items() if is_table(type(value))}
    named = [name for name in variables if len(name) > 1 and _names(words, name)]
    chosen = [name for name in named if name in tables or table_of(variables[name])][:_MOST_NAMED]
    if not chosen:
        counts = {name: _count_columns(words, value) for name, value in tables.items()}
        most = max(counts.values(), default=0)
        meant = [name for name, count in counts.items() if count == most > 0]
        chosen = meant[-_MOST_MEANT:] or ([*tables] if or_only and len(tables) == 1 else [])
    return {name: _describe(name, variables[name], limit) for name in chosen}


def _split(text: str) -> str:
    """Return the words of a text in small letters, with blanks around each."""
    return f" {_BETWEEN.sub(' ', text).casefold().strip()} "


def _names(words: str, name: str) -> bool:
    """Return whether a text has the words of a name, also in the plural or the singular."""
    form = _split(name).strip()
    forms = filter(None, (form, f"{form}s", form.removesuffix("s")))
    # Not all scripts have blanks between words.
    return any(map(words.__contains__, [f" {each} " if each.isascii() else each for each in forms]))


def _count_columns(words: str, table: object) -> int:
    labels = try_or_none(lambda: column_labels(table)) or ()
    texts = (each for each in labels if type(each) is str and len(each.strip()) >= _SHORTEST)
    return sum(_names(words, each) for each in texts)


def _describe(name: str, value: object, limit: int) -> str:
    table = try_or_none(lambda: table_of(value))
    if table is None:
        return describe(name, value, detail=True).encode()[:limit].decode(errors="ignore")
    text = replace(table, secret=secrecy(name)).detail(limit)
    return strip_escapes(f"{one_line(name)}: {text}")
