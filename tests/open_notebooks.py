"""A page in memory that has notebooks open, as the contract of `kernel/pages.py` says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipyagent.errors import PageError
from ipyagent.kernel.pages import OpenNotebooks


@dataclass
class MemoryPage:
    """Answers requests about its notebooks; `books[None]` is the kernel's own."""

    books: dict[str | None, list[dict[str, Any]]]
    clients: tuple[str, ...] = ("tab",)
    notebooks: tuple[str, ...] = ("nb.ipynb",)
    answers: bool = True
    asked: list[str] = field(default_factory=list)
    before_change: Callable[[], object] = lambda: None
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def request(
        self, what: str, path: str | None = None, client: str | None = None, **details: Any
    ) -> Any:
        self.asked.append(what)
        if not self.answers:
            raise PageError("the page with the notebook does not answer; is it open?")
        if what == "open":
            return {"paths": [*self.notebooks, *filter(None, self.books)]}
        if what != "cells":
            self.before_change()
        own = None if path in self.notebooks else path
        return getattr(self, f"_{what}")(self.books[own], **details)

    def _cells(self, book: list[dict[str, Any]]) -> Any:
        return {"path": "nb.ipynb", "cells": [dict(cell) for cell in book]}

    def _insert(self, book: list[dict[str, Any]], index: int, kind: str, source: str) -> Any:
        book.insert(index, cell(f"new{next(self._ids)}", source, kind))
        return {"id": book[index]["id"], "index": index}

    def _replace(self, book: list[dict[str, Any]], id: str, before: str, source: str) -> Any:  # noqa: A002
        self._of(book, id, before)["source"] = source
        return {}

    def _remove(self, book: list[dict[str, Any]], id: str, before: str) -> Any:  # noqa: A002
        book.remove(self._of(book, id, before))
        return {}

    def _outputs(self, book: list[dict[str, Any]], id: str, before: str, **new: Any) -> Any:  # noqa: A002
        self._of(book, id, before).update(new)
        return {}

    def _of(self, book: list[dict[str, Any]], name: str, before: str) -> dict[str, Any]:
        found = next((each for each in book if each["id"] == name), None)
        if found is None:
            raise PageError("the cell is gone")
        if found["source"] != before:
            raise PageError("the cell has changed since it was read")
        return found


def cell(name: str, source: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    empty = {"execution_count": None, "outputs": []}
    return {"id": name, "kind": kind, "source": source, **empty, **more}


def desktop(*pages: MemoryPage, folder: Path = Path(), **more: Any) -> OpenNotebooks:
    """What is around a run in the cell "agent"."""
    return OpenNotebooks(
        pages=lambda: list(pages), **{"folder": folder, "cell_id": "agent", "number": 7, **more}
    )
