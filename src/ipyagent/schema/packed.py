"""Compact collections: the newest records as objects, older ones as text or unread until needed.

A long session has thousands of records, and uses the last few.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar
from weakref import ReferenceType, ref

from ipyagent.schema.base import Model

M = TypeVar("M", bound=Model)


class Packed(Mapping[str, M], Generic[M]):
    """Records of one kind by their ids, in the order in which they were put.

    A record that is still referenced elsewhere is returned as that very object, with everything
    that is never serialized. `read` returns a record that was only announced.
    """

    def __init__(self, kind: type[M], live: int, read: Callable[[str], M] | None = None) -> None:
        self._kind, self._most, self._read = kind, live, read
        self._live: dict[str, M] = {}
        self._texts: dict[str, bytes | None] = {}
        self._references: dict[str, ReferenceType[M]] = {}

    def put(self, record_id: str, record: M) -> None:
        """Add a record as the newest; one with the same id is replaced."""
        self.drop(record_id)
        self._texts[record_id] = None
        self._live[record_id] = record
        while len(self._live) > self._most:
            self._pack(next(iter(self._live)))

    def announce(self, record_id: str) -> None:
        """Add the id of a record as the newest, which is read when it is asked for."""
        self._texts[record_id] = None

    def drop(self, record_id: str) -> None:
        """Remove a record, if present."""
        for known in (self._texts, self._live, self._references):
            known.pop(record_id, None)

    def __getitem__(self, record_id: str) -> M:
        if record_id in self._live:
            return self._live[record_id]
        if (reference := self._references.get(record_id)) and (record := reference()):
            return record
        text = self._texts[record_id]
        if text is not None:
            record = self._kind.model_validate_json(zlib.decompress(text))
        elif self._read is not None:
            record = self._read(record_id)
        else:
            raise KeyError(record_id)
        self._hold(record_id, record)
        return record

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._texts))

    def __reversed__(self) -> Iterator[str]:
        return reversed(tuple(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

    def _pack(self, record_id: str) -> None:
        record = self._live.pop(record_id)
        self._texts[record_id] = zlib.compress(record.model_dump_json().encode(), 1)
        self._hold(record_id, record)

    def _hold(self, record_id: str, record: M) -> None:
        def forget(_: object) -> None:
            references.pop(record_id, None)

        references = self._references
        references[record_id] = ref(record, forget)
