"""Texts that a user decides on, drawn so that nothing hides, floods the page or deceives.

Code gets colors by Pygments: short elements around pieces of a text that stays as it was. Only a
few languages are known, whose lexers neither guess nor take more than linear time: whoever wrote
the code may have chosen its language too.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from ipyagent.plaintext import plural, strip_escapes, visible

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_EMPTY_LINES, _BLANKS, _SAME, _MIXED, _STACKED, _TURNS = 3, 40, 3, 40, 8, 8
"""How many of a kind are drawn one by one; more in a row become one mark."""

_BLANK = "\t \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_FLOOD = re.compile(f"[{_BLANK}]{{{_BLANKS + 1},}}")
_MAY_FLOOD = re.compile(r" {41}|(?:\n *){4}|^(?: *\n){3}")
_NOTHING = re.compile(f"[{_BLANK}]*")
_FAINT = re.compile(f"[^!-~]{{{_TURNS + 1},}}")
_NAME = re.compile(r"[^\W\d](?:[\w.]*\w)?")
_PART = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")

_LOOKALIKES = frozenset(
    # Cyrillic
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0475"
    "\u04cf\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0423\u0406\u0408"
    "\u0405\u04ae\u04c0\u050c\u051a\u051c\u0474"
    # Greek
    "\u03bf\u03bd\u03f2\u03f3\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
    "\u03a4\u03a5\u03a7\u037f"
)
"""Letters that are drawn like Latin ones (Unicode TS 39, confusables.txt)."""


def reveal(text: str) -> str:
    """Return the text with hidden characters, floods and look-alikes made visible.

    A newline ends a line, a tab is a blank; every other control is spelled out: ⟨U+000D⟩. More than
    3 empty lines, 40 blanks or 3 equal hidden characters in a row are counted in one mark, and so
    are those that alternate. Letters that look Latin and are not are spelled out in names that also
    have Latin letters.
    """
    if text.isascii() and (text.isprintable() or text.replace("\n", "").isprintable()):
        is_short = len(text) <= _BLANKS and "\n" not in text
        if is_short or not _MAY_FLOOD.search(text):
            return text
    return _reveal(text, signs="")


def reveal_diff(text: str) -> str:
    """Return a unified diff as `reveal` does; empty lines are counted by their sign."""
    return _reveal(text, signs="+- ")


def _reveal(text: str, signs: str) -> str:
    end = "\n" if text.endswith("\n") else ""
    rows: list[str] = []
    kinds = ((line, *_kind_of_line(line, signs)) for line in text.removesuffix("\n").split("\n"))
    for (sign, shows_nothing), group in groupby(kinds, lambda each: (each[1], bool(each[2]))):
        lines, _, nouns = zip(*group, strict=True)
        if shows_nothing and len(lines) > _EMPTY_LINES:
            noun = nouns[0] if len(set(nouns)) == 1 else "lines that show nothing"
            rows.append(f"{sign}⟨{len(lines):,} {noun}⟩")
        else:
            rows += map(_reveal_line, lines)
    return "\n".join(rows) + end


def _kind_of_line(line: str, signs: str) -> tuple[str, str]:
    """Return the sign of a line that shows nothing, and its noun; empty for all others."""
    sign = line[:1] if signs and line[:1] in signs else ""
    body = line[len(sign) :]
    if body.isascii() and body.isprintable() and not body.isspace() and body:
        return "", ""
    if _NOTHING.fullmatch(body):
        return sign, "empty lines"
    if all(char in "\t " or _kind(char) == "hidden" or char.isspace() for char in body):
        return sign, "lines of invisible characters"
    return "", ""


def _reveal_line(line: str) -> str:
    if line.isascii() and line.isprintable() and "  " not in line:
        return line
    if not line.isascii():
        line = _FAINT.sub(_mark_turns, _NAME.sub(_mark_lookalikes, line))
    line = _FLOOD.sub(lambda match: f"⟨{len(match[0]):,} blanks⟩", line)
    return "".join(_spelt(line))


def _mark_turns(match: re.Match[str]) -> str:
    """Count alternating kinds of nothing, or next to nothing, as one."""
    parts = []
    for is_faint, chars in groupby(match[0], lambda char: bool(_faintness(char))):
        run = "".join(chars)
        turns = sum(1 for _ in groupby(run, _faintness)) if is_faint else 0
        parts.append(f"⟨{len(run):,} characters that show nothing⟩" if turns > _TURNS else run)
    return "".join(parts)


def _spelt(line: str) -> Iterator[str]:
    """Yield the line in pieces, with those spelled out that could hide."""
    start = 0
    for match in re.finditer(r"[^\t -~]+", line):
        yield line[start : match.start()]
        for kind, group in groupby(match[0], _kind):
            yield _run_of(kind, "".join(group))
        start = match.end()
    yield line[start:]


def _run_of(kind: str, run: str) -> str:
    """Return the mark for consecutive characters of one kind."""
    most = {"hidden": _SAME, "combining": _STACKED}.get(kind)
    if most is None or len(run) <= most:
        return visible(run)
    if len(set(run)) == 1:
        return f"⟨{len(run):,} × U+{ord(run[0]):04X}⟩"  # noqa: RUF001
    if kind == "hidden" and len(run) <= _MIXED:
        return visible(run)
    noun = "invisible characters" if kind == "hidden" else "combining marks"
    return f"⟨{len(run):,} {noun}⟩"


@lru_cache(maxsize=4_096)
def _kind(char: str) -> str:
    if visible(char) != char:
        return "hidden"
    return "combining" if unicodedata.category(char) in ("Mn", "Me") else ""


def _faintness(char: str) -> str:
    return "blank" if _NOTHING.fullmatch(char) else _kind(char)


def _mark_lookalikes(match: re.Match[str]) -> str:
    name = match[0]
    return _PART.sub(_mark_part, name) if not name.isascii() and _LATIN.search(name) else name


def _mark_part(match: re.Match[str]) -> str:
    """Spell out look-alikes among the letters between underscores, dots and digits.

    One Greek letter by itself is a symbol. If another letter is plainly not Latin, the whole cannot
    be mistaken for Latin.
    """
    part = match[0]
    foreign = {char for char in part if not _LATIN.match(char)}
    symbol = len(part) == 1 and "\u0370" <= part <= "\u03ff"
    if symbol or not foreign or not foreign <= _LOOKALIKES:
        return part
    return "".join(f"⟨U+{ord(char):04X}⟩" if char in foreign else char for char in part)


LINE = 60
"""Characters of arguments, and of output, that fit into a summary line."""

MAX_CHARS, MAX_LINES = 5_000, 40
"""How much of an output a terminal shows at once."""


def clean_output(text: str) -> str:
    """Return a program's output as a terminal leaves it, hidden characters made visible.

    Only for output: in a call it would hide overwritten text, which runs all the same.
    """
    return visible(strip_escapes(text))


def first_line(text: str, width: int = LINE) -> str:
    """Return the first line of an output with something on it, cut to fit."""
    text = strip_escapes(text)
    return shorten(next((line for line in text.split("\n") if line.strip()), ""), width)


def shorten(text: str, width: int = LINE) -> str:
    """Return text in one line of at most `width` characters."""
    head = text[: 8 * width]
    line = " ".join(reveal(head).split())
    return line if len(line) <= width and head == text else f"{line[: width - 1]}…"


def clip_output(text: str, where: str) -> str:
    """Return text cut to one screen, with a note on how much more there is and where."""
    kept = "\n".join(text[:MAX_CHARS].split("\n")[:MAX_LINES])
    if kept == text:
        return text
    rest = text[len(kept) :]
    lines = rest.count("\n")
    more = plural(lines, "more line") if lines else f"{len(rest):,} more characters"
    return f"{kept}\n… {more}; the full text is {where}"


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

_GAP = re.compile(r"\s{400}")
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
    if name is None or len(code) > _LONGEST or _GAP.search(code):
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
