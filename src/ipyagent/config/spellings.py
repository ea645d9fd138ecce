"""Spellings of texts and paths that a user, or some file system, takes for the same."""

from __future__ import annotations

import os
import unicodedata
from functools import cache
from pathlib import Path
from typing import NamedTuple


def fold_text(text: str) -> str:
    """Normalize text that looks the same: case, width, invisible characters."""
    if text.isascii() and text.isprintable():
        return text.lower()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in plain if unicodedata.category(c) not in {"Cf", "Cc", "Mn"})


def fold_path(path: str) -> str:
    """Normalize a path that some file system takes for the same."""
    parts = fold_text(path).replace("\\", "/").split("/")
    return "/".join(part.split(":")[0].rstrip(". ") or part for part in parts)


class PathSpellings(NamedTuple):
    """The ways in which one path can be written, each with a slash at its end.

    `lexical` is the path as given, `real` the path with links resolved; both relative to the root
    if they lie there, and absolute. `folded_forms` are these and what some file system takes for
    the same.
    """

    lexical: tuple[str, ...]
    real: tuple[str, ...]

    @property
    def folded_forms(self) -> frozenset[str]:
        """All spellings, folded."""
        every = {fold_path(each) for each in {*self.lexical, *self.real}}
        return frozenset(every | {_normalize_path(each) + "/" for each in every})


def path_spellings(path: str, root: Path | None) -> PathSpellings:
    """Return the spellings of a path, relative to `root` or absolute; None: no root."""
    if root is None:
        forms = _path_forms(_normalize_path(os.path.join("/workspace", path)), ("/workspace",))  # noqa: PTH118
        return PathSpellings(forms, forms)
    start = os.path.abspath(root)  # noqa: PTH100 - as texts, which is faster than paths
    roots = _root_spellings(start)
    full = os.path.join(start, path)  # noqa: PTH118 - links are followed before it is normalised
    try:
        real = os.path.realpath(full)
    except (OSError, ValueError):  # no name that a file could have
        return PathSpellings(_path_forms(_normalize_path(full), roots), ())
    return PathSpellings(
        _path_forms(_normalize_path(full), roots), _path_forms(_normalize_path(real), roots)
    )


@cache
def _root_spellings(root: str) -> tuple[str, ...]:
    """Return the root as given and with links resolved; an opened workspace does not move."""
    return tuple({_normalize_path(root), _normalize_path(os.path.realpath(root))})


def _path_forms(full: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    inside = {full[len(root.rstrip("/")) + 1 :] or "." for root in roots if _is_under(full, root)}
    return (f"{full}/", *(f"{each}/" for each in inside))


def _is_under(full: str, root: str) -> bool:
    return full == root or full.startswith(root.rstrip("/") + "/")


def _normalize_path(path: str) -> str:
    plain = os.path.normpath(path).replace(os.sep, "/")
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain
