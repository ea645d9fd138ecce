"""Arrays that are stored somewhere, in words: shape, type, size, chunks, and no value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ipyagent.kernel.describe.metadata import (
    dtype_text,
    shape_text,
    size_text,
)
from ipyagent.kernel.describe.preview import preview
from ipyagent.kernel.describe.safe_inspect import own_attributes
from ipyagent.redaction import Secrecy


class ArrayMetadata(Protocol):
    """The members of numpy's, h5py's and zarr's arrays that read no value."""

    @property
    def shape(self) -> Sequence[object] | None:
        """Its sizes; None for an empty dataset of HDF5."""
        ...

    @property
    def dtype(self) -> object:
        """The type of its elements."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size without compression."""
        ...


def array_text(array: ArrayMetadata, chunks: Sequence[object] | None = None) -> str:
    """Return the metadata of an array on one line."""
    if array.shape is None:  # HDF5's empty dataset
        return f"empty, {dtype_text(array.dtype, 'numpy')}"
    facts = [f"shape {shape_text(array.shape)}", dtype_text(array.dtype, "numpy")]
    facts.append(size_text(array.nbytes))
    if chunks:
        facts.append(f"chunks {shape_text(chunks)}")
    return ", ".join(facts)


def memory_map(value: ArrayMetadata, secret: Secrecy, detail: bool) -> str:
    """Describe an array of numpy that is mapped from a file: nothing of it is loaded."""
    held = own_attributes(value)
    file, mode = held.get("filename"), held.get("mode") or held.get("_mode")
    place = f" in {preview(str(file))}" if type(file) is str or isinstance(file, Path) else ""
    mode_text = f", mode {mode}" if type(mode) is str else ""
    return f"memmap, {array_text(value)}{place}{mode_text}, not loaded"
