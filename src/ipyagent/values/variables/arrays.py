"""Arrays of numpy in a snapshot: copies, put back in place."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from typing_extensions import override

from ipyagent.plaintext import plural
from ipyagent.redaction import Secrecy
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.variables.parts import CELLS_INSIDE, Part, is_equal

SAMPLED = 2**28
"""Bytes of an array that are read for its checksum."""

COMPARED = 100_000
"""Cells with different objects that are compared by value."""

OBJECTS = 10_000
"""Cells that are looked into if they hold objects."""


def is_array(value: object) -> bool:
    """Return whether the value is exactly a numpy array; subclasses run code of their own."""
    return type(value) is getattr(sys.modules.get("numpy"), "ndarray", None)


def views_of_same_memory(
    values: Iterable[object], others: Iterable[tuple[str, object]]
) -> Iterator[str]:
    """Yield the names of arrays that are views of the memory of an array among the values."""
    owners = {id(find_owner(each)) for each in values if is_array(each)}
    if owners:
        for name, value in others:
            if is_array(value) and id(find_owner(value)) in owners:
                yield name


def find_owner(array: Any) -> Any:
    """Return the array, or other object, that owns the memory of an array."""
    while is_array(array) and array.base is not None:
        array = array.base
    return array


class ArrayPart(Part):
    """An array's cells."""

    is_value = True  # an array that stands for one that was freed is as good
    state: Any

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.state, self.nbytes = value, value.nbytes

    @override
    def list_inside(self) -> Iterable[tuple[str, object]]:
        return ((CELLS_INSIDE, each) for each in _list_objects(self.state))

    @override
    def copy(self, *, wholly: bool) -> None:
        self.state = _copy_array(self.state)

    @cached_property
    @override
    def mark(self) -> object:
        return _checksum(self.state)

    @override
    def describe(self, now: ArrayPart, secret: Secrecy) -> str:
        return _summarize_arrays(self.state, now.state)

    @override
    def find(self, live: Mapping[int, object]) -> object:
        # At its address is the array, or its views' owner, or another one.
        address = self.identity.address
        owners = (find_owner(each) for each in live.values() if is_array(each))
        found = live.get(address, next((each for each in owners if id(each) == address), None))
        return found if is_array(found) else None

    @override
    def put_back(self, value: Any) -> None:
        if value.shape == self.state.shape and value.dtype == self.state.dtype:
            with suppress(ValueError):  # it is a view of memory that is read-only
                value.flags.writeable = True
                value[...] = self.state
                value.flags.writeable = self.state.flags.writeable

    @override
    def replace(self, value: object) -> object:
        is_back = value is not None and self.compare(ArrayPart(value)) is None
        return value if is_back else _copy_array(self.state)

    @override
    def release(self) -> None:
        super().release()
        self.state = None

    @override
    def size(self, *, is_live: bool) -> int:
        return 0 if self.state is None else int(self.nbytes)


def _checksum(array: Any) -> object:
    """Return a checksum of an array; objects in it count by their identity, large ones in part."""
    if array.dtype.hasobject and array.dtype.names:
        return tuple(_checksum(array[name]) for name in array.dtype.names)
    part = array[:: 1 + array.nbytes // SAMPLED] if array.ndim else array
    data = _pointers_of(part) if array.dtype.kind == "O" else part
    flat = sys.modules["numpy"].ascontiguousarray(data).reshape(-1).view("u1")
    return array.shape, str(array.dtype), zlib.crc32(flat)


def _list_objects(array: Any) -> list[object]:
    """Return the objects in the cells of an array, or in their fields."""
    if not array.dtype.hasobject or array.size > OBJECTS:
        return []
    cells = array.ravel()
    fields = [cells[name] for name in array.dtype.names] if array.dtype.names else [cells]
    return [object_ for field in fields for object_ in field.tolist()]


def _copy_array(array: Any) -> Any:
    """Return a copy in the same order of memory, read-only if the array is."""
    made = array.copy(order="K")
    made.flags.writeable = array.flags.writeable
    return made


def _summarize_arrays(before: Any, after: Any) -> str:
    """Return how two arrays differ: shape, type, and the number of changed values."""
    parts = []
    if before.shape != after.shape:
        parts.append(f"shape {before.shape} → {after.shape}")
    if before.dtype != after.dtype:
        parts.append(f"{one_line(str(before.dtype))} → {one_line(str(after.dtype))}")
    if not parts and (count := count_differences(before, after)) != 0:
        parts.append(f"{count_values(count)} changed")
    if before.flags.writeable != after.flags.writeable:
        parts.append("made writable" if after.flags.writeable else "made read-only")
    return " · ".join(parts)


def count_values(count: int | None) -> str:
    """Return a number of values in words; None: it is not known."""
    return "values" if count is None else plural(count, "value")


def count_differences(one: Any, other: Any) -> int | None:
    """Return in how many cells two arrays of one shape and type differ; None if too many to say."""
    if one.dtype.kind == "O":
        return _count_objects(one, other)
    if one.dtype.kind == "V":
        return None if one.tobytes() != other.tobytes() else 0
    numpy = sys.modules["numpy"]
    changed = one != other
    if one.dtype.kind in "fcmM" and changed.any():  # only NaN and NaT are unequal to themselves
        changed &= (one == one) | (other == other)
    return int(numpy.count_nonzero(changed))


def _count_objects(one: Any, other: Any) -> int | None:
    at = sys.modules["numpy"].nonzero(_pointers_of(one) != _pointers_of(other))
    if len(at[0]) > COMPARED:
        return None
    pairs = zip(one[at].tolist(), other[at].tolist(), strict=True)
    return sum(not is_equal(left, right) for left, right in pairs)


def _pointers_of(array: Any) -> object:
    """Return the addresses of the objects in an array, as an array of numbers."""
    numpy = sys.modules["numpy"]
    interface = {**array.__array_interface__, "typestr": numpy.dtype("intp").str}
    interface.pop("descr", None)
    # The array must live as long as what is made of it.
    return numpy.asarray(SimpleNamespace(__array_interface__=interface, array=array))


def is_same_memory(one: Any, other: Any) -> bool:
    """Return whether two arrays are views of the same bytes, in the same order."""
    left, right = one.__array_interface__, other.__array_interface__
    return bool(
        left["data"][0] == right["data"][0]
        and one.strides == other.strides
        and one.shape == other.shape
        and one.dtype == other.dtype
    )
