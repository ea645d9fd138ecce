"""Glob patterns, matched against paths that were already found: no pattern reaches a file."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ipyagent.errors import InvalidArgumentsError, PathTraversalError
from ipyagent.tools.names import shown


class Glob:
    """A pattern. Without a slash it is about names, with one about whole relative paths."""

    def __init__(self, pattern: str) -> None:
        self._parts = pattern.split("/")
        if ".." in self._parts or pattern.startswith(("/", "~")):
            raise PathTraversalError(
                f"the pattern {shown(pattern)!r} escapes the workspace; use one relative to path"
            )
        if len(pattern) > 200 or "\0" in pattern:
            raise InvalidArgumentsError("the pattern is too long or contains a NUL character")
        self.deep = len(self._parts) > 1
        """Whether it speaks of folders, and so of what lies in them."""

    def matches(self, path: str) -> bool:
        """Whether a relative path fits."""
        names = path.split("/")
        if not self.deep:
            return fnmatchcase(names[-1], self._parts[0])
        # reached[n]: the first n names fit the parts so far. No backtracking, whatever the pattern.
        reached = [True] + [False] * len(names)
        for part in self._parts:
            if part == "**":
                first = reached.index(True) if True in reached else len(reached)
                reached = [n >= first for n in range(len(reached))]
            else:
                steps = zip(reached, names, strict=False)
                reached = [False, *(before and fnmatchcase(name, part) for before, name in steps)]
        return reached[-1]
