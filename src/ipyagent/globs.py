"""Glob patterns, in one dialect for paths and names everywhere.

`*` is any text, `?` one character, `[ab]`, `[a-z]` and `[!a]` one of, or none of, some characters.
In a path these stay within one name, and `**` is any number of folders. A path pattern without a
slash is about names in any folder; `folder/` is the folder and all that lies in it. Braces, and a
bracket that is never closed, mean themselves. Case matters; callers fold both sides where it
should not.

Matching takes time in proportion to the text: a pattern may come from a stranger's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

_WILDCARD = re.compile(r"\*+|\?")
_WILDCARD_OR_CLASS = re.compile(r"\*+|\?|\[(?P<negated>!?+)(?P<members>\]?+[^\]]*)\]")


@lru_cache(maxsize=1000)
def text_pattern(glob: str, *, classes: bool = True) -> re.Pattern[str]:
    """Compile a pattern for a whole text; without `classes` brackets mean themselves."""
    return re.compile(_translate(glob, ".", classes) + r"\Z", re.DOTALL)


def any_text_pattern(globs: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern for a whole text that matches any of `globs`."""
    return re.compile("|".join(_translate(glob, ".", True) + r"\Z" for glob in globs), re.DOTALL)


def literal_text(glob: str) -> str:
    """Return the literal part of a pattern, without wildcards and classes."""
    return "".join(text for text, _ in _split(glob, classes=True))


@lru_cache(maxsize=1000)
def path_pattern(glob: str, *, below: bool = False, classes: bool = True) -> re.Pattern[str]:
    """Compile a pattern for a whole path followed by a slash.

    With `below`, what lies in a matching folder matches, too, and patterns without a root reach
    paths outside the workspace.
    """
    if "/" not in glob:
        glob = f"**/{glob}"
    runs: list[str] = [""]
    for part in re.sub(r"/\Z", "/**", glob.removeprefix("./")).split("/"):
        if part == "**":
            runs.append("")
        else:
            runs[-1] += ("(?=[^/])" if part else "") + _translate(part, "[^/]", classes) + "/"
    folder = "(?:[^/]*/)" if below else "(?:[^/]+/)"
    first, *others = runs
    if not others:
        return re.compile(first + (r".*\Z" if below else r"\Z"), re.DOTALL)
    *middle, last = others
    deep = "".join(f"(?>{folder}*?{run})" for run in middle if run)
    return re.compile(f"{first}{deep}{folder}*{last}" + (r".*\Z" if below else r"\Z"), re.DOTALL)


def _translate(glob: str, one: str, classes: bool) -> str:
    """Return a regular expression; `one` is the expression for one character.

    Every piece between stars has a fixed length, so taking it where it comes first is always
    right, and nothing is tried twice.
    """
    pieces = [""]
    for text, token in _split(glob, classes):
        pieces[-1] += re.escape(text)
        if token is None:
            break
        if token[0].startswith("*"):
            pieces.append("")
        elif token[0] == "?":
            pieces[-1] += one
        else:
            pieces[-1] += _character_class(token["members"], bool(token["negated"]), one)
    first, *others = pieces
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{one}*?{piece})" for piece in middle if piece) + f"{one}*{last}"


def _split(glob: str, classes: bool) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield every token with the text before it, and last the text that is left."""
    closed = glob.rfind("]") + 1 if classes else 0
    # Behind the last bracket that closes no class is looked for: that would take long.
    tokens = chain(_WILDCARD_OR_CLASS.finditer(glob, 0, closed), _WILDCARD.finditer(glob, closed))
    end = 0
    for token in tokens:
        yield glob[end : token.start()], token
        end = token.end()
    yield glob[end:], None


def _character_class(members: str, negated: bool, one: str) -> str:
    """Return the expression for one character that is, or is not, among `members`."""
    accepted = ""
    at = 0
    while at < len(members):
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            low, high = members[at], members[at + 2]
            if low <= high:
                accepted += f"{re.escape(low)}-{re.escape(high)}"
            at += 3
        else:
            accepted += re.escape(members[at])
            at += 1
    if not accepted:
        return one if negated else "(?!)"
    return f"(?={one})[{'^' if negated else ''}{accepted}]"
