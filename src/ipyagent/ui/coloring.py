"""Code in colors, by Pygments: short elements around pieces of a text that stays as it was.

Only a few languages are known, whose lexers neither guess nor take more than linear time: whoever
wrote the code may have chosen its language too.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_LANGUAGES: Final = {
    "python3": "python python3 py ipython ipython3",
    "bash": "bash sh shell zsh",
    "diff": "diff patch",
    "json": "json",
    "sql": "sql",
}
"""The names of each language, by that of its lexer."""

_LEXERS: Final = {name: lexer for lexer, all_ in _LANGUAGES.items() for name in all_.split()}

_LONGEST = 20_000
"""Characters of code in colors: that many take 0.05 s."""

_FLOOD = re.compile(r"\s{400}")
"""Blanks in a row, which the lexer of Python reads again and again."""

_KINDS = re.compile(
    r"""Token\.(?:
        (?P<b>Keyword|Operator\.Word) | (?P<samp>Literal\.String) | (?P<data>Literal\.Number)
        | (?P<i>Comment) | (?P<var>Name\.(?:Builtin|Class|Decorator|Function|Tag))
        | (?P<ins>Generic\.Inserted) | (?P<del>Generic\.Deleted)
    )""",
    re.VERBOSE,
)
"""The kinds of pieces that have a color, each with its element.

Spans with classes would make code in a notebook twice as long, and have no look without a style.
"""

_FENCED = re.compile(r'(?<=<pre><code class="language-)([\w+#-]+)">([^<]*)(?=</code></pre>)')


def find_lexer(code: str, language: str) -> Lexer | None:
    """Return the lexer of a language; None if that is not known, or if it would take long."""
    name = _LEXERS.get(language.lower())
    if name is None or len(code) > _LONGEST or _FLOOD.search(code):
        return None
    from pygments.lexers import get_lexer_by_name  # it takes 0.05 s, once there is code

    return get_lexer_by_name(name, stripnl=False)


@lru_cache(maxsize=32)
def color_code(code: str, language: str) -> str:
    """Return HTML that shows exactly this code, in colors; "" if it is to stay as it is."""
    lexer = find_lexer(code, language)
    if lexer is None:
        return ""
    pieces: list[tuple[int, str]] = []
    # Some lexers know a line only by its end.
    for begin, kind, text in lexer.get_tokens_unprocessed(f"{code}\n"):
        found = _KINDS.match(str(kind))
        tag = (found and found.lastgroup) or ""
        if text != " " and (not pieces or tag != pieces[-1][1]):
            pieces.append((begin if pieces else 0, tag))
    parts = []
    for (begin, tag), (end, _) in pairwise([*pieces, (len(code), "")]):
        text = html.escape(code[begin:end], quote=False)
        parts.append(f"<{tag}>{text}</{tag}>" if tag and text else text)
    return "".join(parts)


def color_fences(safe: str) -> str:
    """Return HTML from behind the gate with its blocks of code in colors."""

    def color(found: re.Match[str]) -> str:
        language, code = found.groups()
        return f'{language}">{color_code(html.unescape(code), language) or code}'

    return _FENCED.sub(color, safe)
