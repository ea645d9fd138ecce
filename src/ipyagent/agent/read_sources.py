"""The sources other than the user that a model has read, in the order of reading."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from ipyagent.kernel.prose import is_prose, prose_in, prose_of_line

CONTEXT = "<context>"


class ReadSources:
    """The sources of a conversation, such as "a.txt" or "values of df"."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._prose: dict[str, frozenset[str]] = {}
        self._replaced: dict[str, int] = {}

    @property
    def names(self) -> AbstractSet[str]:
        """All sources, the newest last; a live view."""
        return self._names.keys()

    def add(self, sources: str) -> None:
        """Add sources, one on a line."""
        self._names |= dict.fromkeys(line for line in sources.split("\n") if line)

    def add_context(self, text: str) -> None:
        """Add the context of a prompt: names and values that contain prose, each value once."""
        for name, prose in _prose_in_context(text):
            if not prose <= self._prose.get(name, frozenset()):
                count = self._replaced[name] = self._replaced.get(name, -1) + 1
                times = "" if count < 2 else f" {count} times"
                self.add(f"{name} (replaced{times})" if count else name)
                self._prose[name] = prose


def _prose_in_context(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the sources in a context, each with its prose."""
    part = ""
    files: list[str] = []
    mentions: list[str] = []
    tables: list[str] = []
    for line in text.splitlines():
        # Cells of tables can look like a heading, so nothing follows them.
        if part != "Tables:" and line in {"Variables:", "Files:", "Mentioned with @:", "Tables:"}:
            part = line
        elif part == "Variables:":
            source, prose = prose_of_line(line)
            if prose:
                yield source, prose
        elif part == "Files:" and is_prose(line.removeprefix("- ").rpartition("  ")[0]):
            files.append(line)
        elif part == "Tables:":
            tables.append(line)
        elif part == "Mentioned with @:":
            mentions.append(line)
    if files:
        yield "names of files", frozenset(files)
    if prose := prose_in("\n".join(mentions)):
        yield "values that the prompt mentions", prose
    if prose := prose_in("\n".join(tables)):
        yield "tables beside the prompt", prose
