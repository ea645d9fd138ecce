"""The runs of a session: the newest live, older ones loaded on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from ipyagent.schema import Run
from ipyagent.schema.packed import Packed

LIVE = 3
"""Runs with the parts that are never recorded, such as the objects that tools returned."""


class RunList(Sequence[Run]):
    """Runs by position, oldest first, and by id."""

    def __init__(
        self, unread: Iterable[str] = (), read: Callable[[str], Run] | None = None
    ) -> None:
        """`read` returns the runs whose ids are `unread`, each when it is asked for."""
        self._runs = Packed(Run, LIVE, read)
        for run_id in unread:
            self._runs.announce(run_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, oldest first; nothing is loaded."""
        return tuple(self._runs)

    def add(self, run: Run) -> None:
        """Add a run as the newest; a plan was in the list already while it waited."""
        self._runs.put(run.id, run)

    def get(self, run_id: str | None) -> Run | None:
        """Return the run with that id, or None."""
        return self._runs[run_id] if run_id is not None and run_id in self._runs else None

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> list[Run]: ...
    def __getitem__(self, place: int | slice) -> Run | list[Run]:
        if isinstance(place, slice):
            return [self._runs[each] for each in self.ids[place]]
        return self._runs[self.ids[place]]

    def __iter__(self) -> Iterator[Run]:
        return (self._runs[each] for each in self.ids)

    def __len__(self) -> int:
        return len(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Archive({len(self)} runs)"
