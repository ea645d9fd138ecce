"""The parts of a card as HTML: texts, folds, figures and tables, and diffs with marked words."""

from __future__ import annotations

import base64
import re
from itertools import groupby
from typing import Final

from ipyagent.plaintext import reveal_prose
from ipyagent.ui import plain_text as words, transcript
from ipyagent.ui.reveal import clean_output, color_code, reveal, reveal_diff
from ipyagent.ui.sanitize import (
    escape,
    formula_html,
    image_source,
    markdown_to_html,
    safe_html,
    says_something,
)

NO_MATH: Final = "tex2jax_ignore mathjax_ignore"
"""Dollars are dollars: MathJax would set what stands between two of them, and obey \\href in it."""

_LANGUAGE: Final = re.compile(r"[a-z+#]{1,20}")


def element(tag: str, name: str, html: str, public: str = "") -> str:
    """Return an element of the card, or "" if nothing is in it."""
    return f'<{tag} class="ia-{name}"{public}>{html}</{tag}>' if html else ""


def text_element(tag: str, name: str, text: str) -> str:
    """Return a text as an element of the card, or ""."""
    return element(tag, name, escape(text)) if text else ""


def media_html(media: transcript.Media) -> str:
    """Return a figure or another rich output as HTML."""
    return _image(media) if isinstance(media, transcript.Image) else _display(media)


def _display(display: transcript.Display) -> str:
    mime = words.richest(display)
    content = display.data.get(mime, "")
    match mime:
        case "text/html":
            # Some objects are drawn by scripts alone: then there is nothing left to see.
            safe = safe_html(content)
            plain = clean_output(display.data.get("text/plain", ""))
            shown = element("div", "markdown ia-display", safe)
            return shown if says_something(safe) else pre(plain)
        case "text/markdown":
            return element("div", "markdown", markdown_to_html(content))
        case "image/svg+xml":
            data = base64.b64encode(content.encode()).decode()
            return _figure(f"data:{mime};base64,{data}", display.label)
        case "image/png" | "image/jpeg":
            return _image(transcript.Image(media_type=mime, data=content, label=display.label))
        case "text/plain" | "text/latex":
            plain = pre(clean_output(content))
            formula = formula_html(reveal_prose(display.data.get("text/latex", "")))
            # Only one of both is shown.
            return element("div", "latex", formula + plain) if formula else plain
    return note_html(words.unknown_display_text(display))


def _image(image: transcript.Image) -> str:
    url = image_source(image)
    if url is None:
        return note_html(words.refused_image_text(image))
    return _figure(url, image.label)


def _figure(url: str, label: str) -> str:
    return f'<p><img src="{url}" alt="{escape(reveal(label))}"></p>'


def fold_html(fold: transcript.Fold) -> str:
    """Return a text of others behind its title."""
    return details(escape(fold.title), pre(fold.text), is_open=fold.is_open)


def note_html(text: str) -> str:
    """Return a remark of others as HTML, or ""."""
    return text_element("p", "note", reveal(text)) if text else ""


def with_inline_code(text: str) -> str:
    """Return our own text as HTML: backticks mark code in it."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def details(summary: str, body: str, attributes: str = "", *, is_open: bool = False) -> str:
    """Return HTML that is opened by its summary."""
    body = f"<blockquote>\n{body}\n</blockquote>\n" if body else ""
    attributes = f" {attributes}" if attributes else ""
    return f"<details{attributes}{' open' * is_open}><summary>{summary}</summary>\n{body}</details>"


def pre(text: str, language: str = "") -> str:
    """Return text of others as it was written, code in colors, or ""."""
    name = f' class="language-{language}"' if _LANGUAGE.fullmatch(language) else ""
    shown = reveal(text)
    code = (language and color_code(reveal_prose(shown), language)) or escape(shown)
    return f"<pre><code{name}>{code}</code></pre>" if text.strip() else ""


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
