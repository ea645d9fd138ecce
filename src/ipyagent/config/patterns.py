"""Patterns over texts and paths: `*` is any text, `?` one character, `**` any folders.

Matching takes time in proportion to what is matched: a pattern may come from a stranger's folder.
"""

from __future__ import annotations

import os
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import NamedTuple

MAX_PATTERN = 300


def text_pattern(glob: str) -> re.Pattern[str]:
    """What a whole text has to be."""
    return re.compile(_starred(glob, ".") + r"\Z", re.DOTALL)


def path_pattern(glob: str, *, below: bool) -> re.Pattern[str]:
    """What a path has to be, and a slash behind it; `below`: what lies in such a folder fits, too.

    Without a slash in it a pattern is about names, wherever they are.
    """
    if "/" not in glob:
        glob = f"**/{glob}"
    runs: list[str] = [""]
    for part in re.sub(r"/\Z", "/**", glob.removeprefix("./")).split("/"):
        if part == "**":
            runs.append("")
        else:
            runs[-1] += ("(?=[^/])" if part else "") + _starred(part, "[^/]") + "/"
    # Relative patterns are about the workspace; only what forbids may also speak of elsewhere.
    folder = "(?:[^/]*/)" if below else "(?:[^/]+/)"
    first, *others = runs
    if not others:
        return re.compile(first + (r".*\Z" if below else r"\Z"), re.DOTALL)
    *middle, last = others
    deep = "".join(f"(?>{folder}*?{run})" for run in middle if run)
    return re.compile(f"{first}{deep}{folder}*{last}" + (r".*\Z" if below else r"\Z"), re.DOTALL)


def check_path_pattern(glob: str) -> str:
    """The pattern; raises ValueError where it can be about nothing that a path looks like."""
    if ".." in re.split(r"[/\\]", glob) or glob.startswith("~"):
        raise ValueError("write a path from the workspace's root, or a whole one from /")
    return glob


def _starred(glob: str, one: str) -> str:
    """A regular expression. Each piece is taken where it comes first, which is always right."""
    first, *others = ("".join(one if c == "?" else re.escape(c) for c in piece)
                      for piece in re.split(r"\*+", glob))  # fmt: skip
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{one}*?{piece})" for piece in middle if piece) + f"{one}*{last}"


def folded(text: str) -> str:
    """The text without what a look does not tell apart: case, width, invisible characters."""
    if text.isascii() and text.isprintable():
        return text.lower()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in plain if unicodedata.category(c) not in {"Cf", "Cc", "Mn"})


def folded_path(path: str) -> str:
    """The path that some file system takes this one for."""
    parts = folded(path).replace("\\", "/").split("/")
    return "/".join(part.split(":")[0].rstrip(". ") or part for part in parts)


class Spellings(NamedTuple):
    """A path in the ways in which it can be written, each with a slash behind it.

    `named` is what was said, `real` what links lead to; both from the root, where they lie there,
    and absolute. `alike` are those and what some file system would take for them.
    """

    named: tuple[str, ...]
    real: tuple[str, ...]

    @property
    def alike(self) -> frozenset[str]:
        """All of them, folded."""
        every = {folded_path(each) for each in {*self.named, *self.real}}
        return frozenset(every | {_normal(each) + "/" for each in every})


def spellings(path: str, root: Path | None) -> Spellings:
    """How a path from `root`, or a whole one, can be written; None: a root that is nowhere."""
    if root is None:
        named = _forms(_normal(os.path.join("/workspace", path)), ("/workspace",))  # noqa: PTH118
        return Spellings(named, named)
    start = os.path.abspath(root)  # noqa: PTH100 - as texts, which is faster than paths
    roots = _roots(start)
    full = os.path.join(start, path)  # noqa: PTH118 - links are followed before it is normalised
    try:
        real = os.path.realpath(full)
    except (OSError, ValueError):  # no name that a file could have
        return Spellings(_forms(_normal(full), roots), ())
    return Spellings(_forms(_normal(full), roots), _forms(_normal(real), roots))


@cache
def _roots(root: str) -> tuple[str, ...]:
    """The root as it is called and as it really is; an opened workspace does not move."""
    return tuple({_normal(root), _normal(os.path.realpath(root))})


def _forms(full: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    inside = {full[len(root.rstrip("/")) + 1 :] or "." for root in roots if _lies_in(full, root)}
    return (f"{full}/", *(f"{each}/" for each in inside))


def _lies_in(full: str, root: str) -> bool:
    return full == root or full.startswith(root.rstrip("/") + "/")


def _normal(path: str) -> str:
    plain = os.path.normpath(path).replace(os.sep, "/")
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain
