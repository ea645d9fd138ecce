"""Diffs as HTML, with the words marked in which lines differ."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from ipyagent.ui.reveal import reveal_diff
from ipyagent.ui.sanitize import escape

_SIGNS: Final = {"+": "added", "-": "removed"}
_WORDS: Final = re.compile(r"\w+|\s+|.", re.DOTALL)

_LONG_LINE = 2_000
"""Characters of a line that is still compared word by word."""


def diff_html(text: str) -> str:
    """Return a unified diff with changed words marked; lines above its first hunk name files."""
    files, hunk, rest = reveal_diff(text).partition("\n@@")
    lines = f"{hunk}{rest}".splitlines(keepends=True) if hunk else files.splitlines(keepends=True)
    signs = groupby(lines, lambda line: _SIGNS.get(line[:1], ""))
    groups = [(sign, [*group]) for sign, group in signs]
    parts = [escape(files if hunk else "")]
    for place, (sign, group) in enumerate(groups):
        others = _counterparts(groups, place)
        html = "".join(map(_mark_words, group, others) if others else map(escape, group))
        parts.append(f'<span class="ia-diff-{sign}">{html}</span>' if sign else html)
    return f"<pre><code>{''.join(parts)}</code></pre>"


def _counterparts(groups: list[tuple[str, list[str]]], place: int) -> list[str]:
    """Return the lines that replace those at a place, or are replaced by them, if as many."""
    sign, lines = groups[place]
    at = place + {"removed": 1, "added": -1}.get(sign, 0)
    other, others = groups[at] if 0 <= at < len(groups) else ("", [])
    return others if {sign, other} == {*_SIGNS.values()} and len(others) == len(lines) else []


def _mark_words(line: str, other: str) -> str:
    """Return a line as HTML with the words marked that another line has not."""
    if max(len(line), len(other)) > _LONG_LINE:
        return escape(line)
    own, others = _WORDS.findall(line[1:]), _WORDS.findall(other[1:])
    begin = _count_equal(own, others)
    end = len(own) - _count_equal(own[begin:][::-1], others[begin:][::-1])
    before, changed, after = map("".join, (own[:begin], own[begin:end], own[end:]))
    is_other_line = begin == 0 and not after.strip()
    changed = escape(changed) if is_other_line or not changed else f"<b>{escape(changed)}</b>"
    return f"{line[0]}{escape(before)}{changed}{escape(after)}"


def _count_equal(one: list[str], other: list[str]) -> int:
    """Return how many words at the beginning of both are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
