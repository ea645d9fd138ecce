"""Captures of numpy arrays: copies, as far as the allowance reaches."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.variables.captures import Capture, Live, Undone, is_equal
from ipyagent.phrases import plural
from ipyagent.redaction import Secrecy

SAMPLED = 2**28
"""Bytes of an array that are read for its checksum."""

OBJECTS = 100_000
"""Cells with different objects that are compared by value."""


def is_array(value: object) -> bool:
    """Return whether the value is exactly a numpy array; subclasses run code of their own."""
    return type(value) is getattr(sys.modules.get("numpy"), "ndarray", None)


def holds_objects(array: object) -> bool:
    """Return whether there are objects in the cells of an array."""
    return bool(sys.modules["numpy"].asarray(array).dtype.hasobject)


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


class ArrayChecksum(Capture):
    """An array's checksum: enough to see whether it is as a call left it."""

    def __init__(self, value: object) -> None:
        super().__init__(value, held=False)
        self._checksum = _checksum(value)

    @override
    def is_left(self, value: object, undone: Undone) -> bool:
        # An array that stands for one that was freed is as good.
        return is_array(value) and _checksum(value) == self._checksum

    @override
    def matches(self, found: Capture) -> bool:
        if isinstance(found, ArrayCapture):
            return _checksum(found.state) == self._checksum
        return isinstance(found, ArrayChecksum) and found._checksum == self._checksum


def _checksum(array: Any) -> object:
    """Return a checksum of an array; objects in it count by their identity, large ones in part."""
    part = array[:: 1 + array.nbytes // SAMPLED] if array.ndim else array
    data = _pointers_of(part) if array.dtype.kind == "O" else part
    flat = sys.modules["numpy"].ascontiguousarray(data).reshape(-1).view("u1")
    return array.shape, str(array.dtype), zlib.crc32(flat)


class ArrayCapture(Capture):
    """An array's content. The array itself is not referred to: its owner may resize it."""

    def __init__(self, value: object, cells: Capture | None = None) -> None:
        """`cells`: the state of the objects in its cells."""
        super().__init__(value, held=False)
        self.state, self._cells = _copy_array(value), cells

    @override
    def read(self, value: object) -> object:
        return value if is_array(value) else None

    @override
    def differences(self, before: Any, after: Any, secret: Secrecy) -> str:
        return _summarize_arrays(before, after)

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        summary = super().summarize(value, secret)
        is_changed = not summary and self._cells is not None and self._cells.was_changed()
        return "objects in cells changed" if is_changed else summary

    @override
    def is_left(self, value: object, undone: Undone) -> bool:
        return is_array(value) and not self.is_changed(value)

    @override
    def matches(self, found: Capture) -> bool:
        return isinstance(found, ArrayCapture) and not self.is_changed(found.state)

    @override
    def restore(self, live: Live, problems: list[str]) -> object:
        if self.is_inside and self._cells is not None:
            self._cells.restore(live, problems)
        # The array was not referred to: at its address is it, or its views' owner, or another.
        address = self.identity.address
        owners = (find_owner(each) for each in live.values() if is_array(each))
        array = live.get(address, next((each for each in owners if id(each) == address), None))
        is_put_back = is_array(array) and (
            not self.is_changed(array) or (self.is_inside and self._put_back(array))
        )
        return array if is_put_back else _copy_array(self.state)

    def _put_back(self, array: Any) -> bool:
        """Restore the array in place; return whether that is possible."""
        if array.shape != self.state.shape or array.dtype != self.state.dtype:
            return False
        try:
            array.flags.writeable = True
        except ValueError:  # it is a view of memory that is read-only
            return False
        array[...] = self.state
        array.flags.writeable = self.state.flags.writeable
        return True

    @override
    def size(self, live: Collection[int]) -> int:
        return int(self.state.nbytes)


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
    count = int(numpy.count_nonzero(one != other))
    if count and one.dtype.kind in "fcmM":  # nothing is unequal to itself but NaN and NaT
        is_missing = numpy.isnat if one.dtype.kind in "mM" else numpy.isnan
        count -= int(numpy.count_nonzero(is_missing(one) & is_missing(other)))
    return count


def _count_objects(one: Any, other: Any) -> int | None:
    at = sys.modules["numpy"].nonzero(_pointers_of(one) != _pointers_of(other))
    if len(at[0]) > OBJECTS:
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
