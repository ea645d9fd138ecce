"""Patterns of files, matched against paths that were already listed; they open no file."""

from __future__ import annotations

from ipyagent.errors import InvalidArgumentsError, PathTraversalError
from ipyagent.globs import path_pattern
from ipyagent.plaintext import spell


class FilePattern:
    """A glob. Without a slash it matches names, with a slash whole relative paths."""

    def __init__(self, pattern: str) -> None:
        if ".." in pattern.split("/") or pattern.startswith(("/", "~")):
            raise PathTraversalError(
                f"the pattern {spell(pattern)!r} escapes the workspace; use one relative to path"
            )
        if len(pattern) > 200 or "\0" in pattern:
            raise InvalidArgumentsError("the pattern is too long or contains a NUL character")
        self.spans_folders = "/" in pattern
        """True if it names folders, and so also matches what lies in them."""
        self._pattern = path_pattern(pattern)

    def matches(self, path: str) -> bool:
        """Return whether a relative path matches."""
        return self._pattern.match(f"{path}/") is not None
