"""Load a table as its library does, and describe the frame: in the reader's process only."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import lzma
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import BinaryIO, cast

import pandas as pd

from ipyagent.json_types import JsonDict
from ipyagent.tools.file_change import BOM, decode_file
from ipyagent.tools.tables.delimited_calls import (
    CODES,
    ROWS,
    Foreign,
    Options,
    Text,
    Trial,
    choose_call,
    find_first,
    keep_codes,
)
from ipyagent.tools.tables.sample import KINDS, NotTableError, UnreadTableError, split_ending
from ipyagent.values.describe import describe
from ipyagent.values.describe.libraries import pandas_frame, polars_frame
from ipyagent.values.describe.table import COLUMNS, Column, Table

_WHOLE = 2_000_000
"""Bytes of the largest text that is read as a whole; of a larger one, its ends."""
_HEAD, _TAIL = 1_000_000, 64_000
_LARGEST = 64_000_000
"""Bytes of the largest file of a format that is only read as a whole."""
_SHARED_TEXTS = 2_000_000
"""Bytes of the texts in a workbook up to which openpyxl is quick."""
_COUNT_SECONDS = 0.5
_CELLS, _CELL = 60_000, 300
"""Values that are passed on, and characters of a text or label."""
_LINES, _MEMBERS, _SHEETS = 3, 50, 8
_OUTSIDE = ("arrays", "geometry")
"""Formats that may name other files, which their libraries would open."""


def load(request: JsonDict, descriptor: int, is_confined: bool) -> JsonDict:
    """Return the description of the table in an open file; raises NotTableError."""
    packing, ending = split_ending(request["path"])
    kind, family = KINDS[ending]
    if family in _OUTSIDE and not is_confined:
        raise NotTableError("its library could open other files, which is not prevented here")
    file = _File(request["path"], request["size"], descriptor, packing, ending)
    return {"kind": kind, **_LOADERS[family](file)}


class _File:
    """The open file, and what its name says."""

    def __init__(self, path: str, size: int, descriptor: int, packing: str, ending: str) -> None:
        self.path, self.size, self.packing, self.ending = path, size, packing, ending
        self._descriptor = descriptor
        self.place = f"/proc/self/fd/{descriptor}"
        """A path for libraries that open files themselves."""

    def open(self) -> BinaryIO:
        """Return the file from its start, unpacked if it is packed."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        file = os.fdopen(os.dup(self._descriptor), "rb")
        if self.packing == "zip":
            archive = zipfile.ZipFile(file)
            (name,) = archive.namelist()  # as pandas has it
            return cast("BinaryIO", archive.open(name))
        return cast("BinaryIO", _OPENERS[self.packing](file, "rb")) if self.packing else file

    def read(self) -> bytes:
        """Return all of it; raises NotTableError for a large one."""
        with self.open() as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise NotTableError(f"it is larger than {_LARGEST // 10**6} MB")
        return data

    def write_call(self, function: str, options: Options | None = None) -> str:
        """Return the call that loads the file."""
        given = [f"{name}={_write_value(value)}" for name, value in (options or {}).items()]
        return f"{function}({', '.join([repr(self.path), *given])})"


_OPENERS: Mapping[str, Foreign] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}


def _write_value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_write_value(each)}' for key, each in value.items())}}}"
    return "str" if value is str else repr(value)


# a frame as plain data ---------------------------------------------------------------------------


def _describe(frame: Foreign, call: str, total: int | None, **others: object) -> JsonDict:
    """Return a frame's columns and first values as JSON has them."""
    table = frame if isinstance(frame, Table) else pandas_frame(frame)
    if table is None:
        raise NotTableError("its library gives no frame")
    most = max(1, _CELLS // max(1, len(table.columns)))
    return {
        "columns": [_describe_column(each, most) for each in table.columns[:COLUMNS]],
        "width": table.width,
        "total": total,
        "sampled": table.rows,
        "index": [_describe_column(each, most) for each in table.index],
        "levels": [_plain(each) for each in table.levels],
        "call": call,
        **others,
    }


def _describe_column(column: Column, most: int) -> JsonDict:
    return {
        "label": _plain(column.label),
        "dtype": column.dtype[:_CELL],
        "nulls": column.nulls and _attempt(column.nulls),
        "unique": column.unique and _attempt(column.unique),
        "ends": [_plain(each) for each in _attempt(column.ends) or ()],
        "values": [_plain(v) for v in _attempt(lambda: column.values(slice(most))) or ()],
    }


def _attempt(function: Callable[[], Foreign]) -> Foreign:
    try:
        return function()
    except Exception:  # some types of columns cannot do it
        return None


def _plain(value: object) -> object:
    """Return a value as JSON has it, long ones cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value[:20]]
    text = value if isinstance(value, str) else str(value)
    plain = text[:_CELL].encode("utf-8", "replace").decode()
    return None if plain in ("NaT", "<NA>") and not isinstance(value, str) else plain


# text --------------------------------------------------------------------------------------------


def _load_delimited(file: _File) -> JsonDict:
    data, is_whole = _read_ends(file)
    if not data.strip():
        raise NotTableError("it is empty")
    text, found = _decode(data, file)
    options: Options = {"sep": "\t"} if file.ending in ("tsv", "tab") else {}
    lines = text.splitlines()
    sample = text if len(lines) <= ROWS else _cut_middle(text)
    trial = choose_call(Text(sample, pd.read_csv), options) or choose_call(
        Text(text, pd.read_csv), options
    )
    if trial is None:
        raise UnreadTableError("its rows have different numbers of cells")
    total, exact = len(trial.frame), True
    if is_whole and sample is not text:
        whole = Text(text, pd.read_csv)
        trial = whole.attempt(trial.options) or choose_call(whole, options) or trial
        trial = keep_codes(whole.attempt, trial) if CODES.search(text) else trial
        total = len(trial.frame)
    options = {**trial.options, **found}
    if not is_whole:
        counted, exact = _count_rows(file, options)
        total = counted if exact else round(total * file.size / len(data))
    ends = [*lines[:_LINES], *lines[max(_LINES, len(lines) - 1) :]]
    call = file.write_call("pd.read_csv", options)
    known = total if exact or not file.packing else None
    return _describe(trial.frame, call, known, exact=exact, lines=[each[:_CELL] for each in ends])


def _decode(data: bytes, file: _File) -> tuple[str, Options]:
    """Return a text without its mark, and the option that names its encoding, if one has to."""
    decoded = decode_file(data, file.path)
    encoding = decoded.encoding
    if decoded.text.startswith(BOM):  # by which the library knows the order of bytes
        encoding = encoding.removesuffix("-le").removesuffix("-be")
    return decoded.text.removeprefix(BOM), {} if encoding == "utf-8" else {"encoding": encoding}


def _read_ends(file: _File) -> tuple[bytes, bool]:
    """Return the whole file if it is small, else whole lines of its start and of its end."""
    with file.open() as opened:
        data = opened.read(_WHOLE + 1)
        if len(data) <= _WHOLE:
            return data, True
        head, tail = data[: data.rfind(b"\n", 0, _HEAD) + 1], b""
        if not file.packing:
            opened.seek(-_TAIL, os.SEEK_END)
            tail = opened.read(_TAIL)
        return head + tail[tail.find(b"\n") + 1 :], False


def _cut_middle(text: str) -> str:
    """Return the first lines and the last ones."""
    at = 0
    for _ in range(ROWS):
        at = text.find("\n", at) + 1
    start = text.find("\n", max(at, len(text) - _TAIL)) + 1
    return text[:at] + (text[start:] if start else "")


def _count_rows(file: _File, options: Options) -> tuple[int, bool]:
    """Return the number of rows as the library counts them, and whether there was time for all."""
    until, count = time.process_time() + _COUNT_SECONDS, 0
    counting = {**options, "dtype": str, "usecols": [0], "chunksize": 20_000}
    with file.open() as opened:
        for chunk in pd.read_csv(opened, **counting):
            count += len(chunk)
            if time.process_time() > until:
                return count, False
    return count, True


def _load_json(file: _File) -> JsonDict:
    data = file.read()
    text, found = _decode(data, file)
    source = Text(text, pd.read_json)
    tried = [source.attempt(each) for each in _list_forms(text)]
    frames = [each for each in tried if each is not None and isinstance(each.frame, pd.DataFrame)]
    if not frames:
        raise NotTableError("it is not a list of objects, nor another table that pandas reads")
    trial = keep_codes(source.attempt, max(frames, key=lambda each: len(each.numbers)))
    if data.startswith(BOM.encode()):
        found = {"encoding": "utf-8-sig"}
    call = file.write_call("pd.read_json", {**trial.options, **found})
    lines = [each[:_CELL] for each in text.splitlines()[:_LINES]]
    return _describe(trial.frame, call, len(trial.frame), lines=lines)


def _list_forms(text: str) -> list[Options]:
    """Return the forms of tables that a text in JSON may have; settings have none."""
    try:
        found = json.loads(text)
    except ValueError:
        return [{"lines": True}]
    if isinstance(found, list):
        return [{}] if found and all(isinstance(each, dict) for each in found) else []
    values = [*found.values()] if isinstance(found, dict) else []
    if {"columns", "data"} <= {*found}:
        return [{"orient": "split"}]
    shapes = {
        tuple(each) if isinstance(each, dict) else len(each)
        for each in values
        if isinstance(each, dict | list)
    }
    is_table = len(shapes) == 1 and all(isinstance(each, dict | list) for each in values)
    return [{}, {"orient": "index"}] if is_table else []


# other formats -----------------------------------------------------------------------------------


def _load_sheets(file: _File) -> JsonDict:
    engine = None
    if file.ending in ("xlsx", "xlsm"):
        with file.open() as opened, zipfile.ZipFile(opened) as archive:
            parts = (each for each in archive.infolist() if "sharedStrings" in each.filename)
            if sum(each.file_size for each in parts) > _SHARED_TEXTS:
                engine = "calamine"
                if find_spec("python_calamine") is None:
                    raise UnreadTableError("it holds many texts, which python-calamine would read")
    with file.open() as opened, pd.ExcelFile(opened, engine=engine) as book:
        names = [str(each) for each in book.sheet_names]
        shown = [each for each in names if not _is_hidden(book, each)] or names
        sheets = [_load_sheet(file, book, each, each == names[0]) for each in shown[:_SHEETS]]
    first = next((each for each in sheets if each["sampled"]), sheets[0])
    return {**first, "others": [each for each in sheets if each is not first]}


def _is_hidden(book: Foreign, name: str) -> bool:
    state = _attempt(lambda: book.book[name].sheet_state)  # as openpyxl has it
    return state in ("hidden", "veryHidden")


def _load_sheet(file: _File, book: Foreign, name: str, is_first: bool) -> JsonDict:
    grid = book.parse(name, header=None, dtype=object, nrows=ROWS)
    cells = [["" if each != each else str(each) for each in row] for row in grid.values.tolist()]
    rows = [(i, [*filter(None, row)]) for i, row in enumerate(cells) if any(row)]
    first = find_first(rows) if rows else None
    options: Options = {"skiprows": rows[first][0]} if first else {}

    def attempt(tried: Options) -> Trial | None:
        found = _attempt(lambda: Trial(tried, book.parse(name, nrows=ROWS, **tried)))
        return cast("Trial | None", found)

    trial = attempt(options)
    if trial is None:
        raise NotTableError(f"its sheet {name!r} cannot be read")
    trial = keep_codes(attempt, trial)
    exact = len(trial.frame) < ROWS
    # Of a long sheet, what it says of its own size.
    total = len(trial.frame) if exact else _attempt(lambda: int(book.book[name].max_row))
    named = {} if is_first else {"sheet_name": name}
    call = file.write_call("pd.read_excel", {**named, **trial.options})
    kind = f"Excel sheet {name[:_CELL]!r}"
    return _describe(trial.frame, call, total, exact=exact, kind=kind)


def _load_columnar(file: _File) -> JsonDict:
    """Parquet, Feather, ORC: rows and types from the footer, values from the beginning."""
    if find_spec("pyarrow") is None:
        return _load_by_polars(file)
    importlib.import_module("pyarrow").set_cpu_count(1)
    form = {"parquet": "parquet", "pq": "parquet", "orc": "orc"}.get(file.ending, "feather")
    data = importlib.import_module("pyarrow.dataset").dataset(file.place, format=form)
    quietly = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    table = data.head(ROWS, batch_size=ROWS, **quietly)
    table.validate(full=True)
    frame = table.to_pandas(use_threads=False)
    return _describe(frame, file.write_call(f"pd.read_{form}"), data.count_rows(), declared=True)


def _load_by_polars(file: _File) -> JsonDict:
    function = "pl.read_parquet" if file.ending in ("parquet", "pq") else "pl.read_ipc"
    if file.ending == "orc" or find_spec("polars") is None:
        raise UnreadTableError("neither pyarrow nor polars is installed, which read it")
    polars = importlib.import_module("polars")
    scan = getattr(polars, function.removeprefix("pl.").replace("read", "scan"))(file.place)
    total = scan.select(polars.len()).collect().item()
    table = polars_frame(scan.head(ROWS).collect())
    return _describe(table, file.write_call(function), total, declared=True)


def _load_statistics(file: _File) -> JsonDict:
    """Stata, SAS and SPSS."""
    if file.ending in ("sav", "zsav", "por"):
        spss = importlib.import_module("pyreadstat")
        read = spss.read_por if file.ending == "por" else spss.read_sav
        frame, about = read(file.place, row_limit=ROWS, apply_value_formats=True)
        total = about.number_rows or len(frame)
        return _describe(frame, file.write_call("pd.read_spss"), total, declared=True)
    forms = {"sas7bdat": {"encoding": "infer"}, "xpt": {}}
    options = forms.get(file.ending, {})
    with file.open() as opened:
        if file.ending == "dta":
            function, reader = "pd.read_stata", pd.read_stata(opened, chunksize=ROWS)
        else:
            form = "xport" if file.ending == "xpt" else file.ending
            function = "pd.read_sas"
            reader = pd.read_sas(opened, format=form, chunksize=ROWS, **options)
        until, total, exact = time.process_time() + _COUNT_SECONDS, 0, True
        frame = pd.DataFrame()
        for chunk in reader:
            frame, total = (chunk if not total else frame), total + len(chunk)
            if time.process_time() > until:
                exact = False
                break
    known = total if exact else None
    return _describe(frame, file.write_call(function, options), known, declared=True)


def _load_geometry(file: _File) -> JsonDict:
    geopandas = importlib.import_module("geopandas")
    frame = geopandas.read_file(io.BytesIO(file.read()))
    return _describe(frame, file.write_call("geopandas.read_file"), len(frame), declared=True)


def _load_arrays(file: _File) -> JsonDict:
    """NumPy's arrays, NetCDF and HDF5: described as variables are, or listed."""
    if file.ending == "npy":
        numpy, data = importlib.import_module("numpy"), io.BytesIO(file.read())
        function, text = "np.load", describe("array", numpy.load(data), detail=True)
    elif file.ending == "npz":
        with file.open() as opened, zipfile.ZipFile(opened) as archive:
            names = archive.namelist()[:_MEMBERS]
            function, text = "np.load", "\n".join(_read_header(archive, each) for each in names)
    elif file.ending in ("nc", "nc4"):
        xarray = importlib.import_module("xarray")
        function = "xr.open_dataset"
        text = describe("dataset", xarray.open_dataset(file.place), detail=True)
    else:
        h5py = importlib.import_module("h5py")
        function = "h5py.File"
        with file.open() as opened, h5py.File(opened, "r") as store:
            text = "\n".join(_list_store(store))
    return {"text": text, "call": file.write_call(function)}


def _read_header(archive: zipfile.ZipFile, name: str) -> str:
    form = importlib.import_module("numpy.lib.format")
    with archive.open(name) as member:
        version = form.read_magic(member)
        shape, _, dtype = getattr(form, f"read_array_header_{version[0]}_0")(member)
    return f"{name[:_CELL].removesuffix('.npy')}: shape {shape}, {str(dtype)[:_CELL]}"


def _list_store(store: Foreign) -> Iterator[str]:
    """Yield a line for each array; links are not followed."""
    found = dict[str, Foreign]()

    def visit(name: str, item: Foreign) -> bool | None:
        found[name] = item
        return True if len(found) >= _MEMBERS else None

    store.visititems(visit)
    for name, item in found.items():
        if hasattr(item, "shape"):
            yield f"{name[:_CELL]}: shape {item.shape}, {str(item.dtype)[:_CELL]}"


_LOADERS: Mapping[str, Callable[[_File], JsonDict]] = {
    "delimited": _load_delimited,
    "json": _load_json,
    "sheets": _load_sheets,
    "columnar": _load_columnar,
    "statistics": _load_statistics,
    "geometry": _load_geometry,
    "arrays": _load_arrays,
}
