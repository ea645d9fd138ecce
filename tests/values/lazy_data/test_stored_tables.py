"""Files that only other libraries read: each described, and none of them leads elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import orc

from ipyagent.tools.tables import describe_table
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
DATASET = xr.Dataset({"t": (("lat", "lon"), np.zeros((2, 3)))})


def describe(path: Path) -> str:
    return describe_table(Workspace(path.parent), path.name)


def write_places(path: Path) -> None:
    points = geopandas.points_from_xy([1, 2], [3, 4])
    geopandas.GeoDataFrame(FRAME, geometry=points, crs="EPSG:4326").to_file(path)


def write_store(path: Path) -> None:
    with h5py.File(path, "w") as store:
        store["group/values"] = np.zeros((3, 4))


WRITERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "t.parquet": (FRAME.to_parquet, "2 rows × 2 columns"),
    "t.feather": (FRAME.to_feather, "2 rows × 2 columns"),
    "t.orc": (lambda path: orc.write_table(pa.table({"a": [1, 2]}), path), "2 rows × 1 columns"),
    "t.geojson": (write_places, "2 rows × 3 columns"),
    "t.gpkg": (write_places, "2 rows × 3 columns"),
    "t.nc": (DATASET.to_netcdf, "(lat: 2, lon: 3)"),
    "t.h5": (write_store, "group/values: shape (3, 4), float64"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_that_a_library_reads_is_described(tmp_path: Path, name: str) -> None:
    write, said = WRITERS[name]
    write(tmp_path / name)
    text = describe(tmp_path / name)
    assert said in text
    assert "read with: " in text


@pytest.mark.parametrize("name", ["t.nc", "t.h5", "t.gpkg", "t.geojson"])
def test_a_file_that_names_another_one_does_not_show_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "ws").mkdir()
    path, outside = tmp_path / "ws" / name, tmp_path / "outside"
    if path.suffix in (".nc", ".h5"):
        np.full(4, 1234.5).tofile(outside)
        with h5py.File(path, "w") as store:
            store.create_dataset("t", (4,), "f8", external=[(str(outside), 0, 32)])
            store["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "secret")
        with h5py.File(tmp_path / "other.h5", "w") as store:
            store["secret"] = np.zeros(7)
        with h5py.File(path) as store:
            assert store["t"][0] == 1234.5, "a plain reader does"
    else:
        write_places(tmp_path / "outside.geojson")
        source = f"<SrcDataSource>{tmp_path / 'outside.geojson'}</SrcDataSource>"
        layer = f'<OGRVRTLayer name="outside">{source}</OGRVRTLayer>'
        path.write_text(f"<OGRVRTDataSource>{layer}</OGRVRTDataSource>")
        assert len(geopandas.read_file(path)) == 2, "a plain reader does"
    try:
        text = describe(path)
    except NotTableError:
        return
    assert "1234.5" not in text
    assert "secret" not in text
    assert "2 rows" not in text


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_do_no_harm(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name][0](path)
    whole, choose = path.read_bytes(), random.Random(name)
    for _ in range(12):
        data = bytearray(whole)
        for _ in range(choose.choice((1, 3, 20))):
            data[choose.randrange(len(data))] = choose.randrange(256)
        path.unlink()
        path.write_bytes(data[: choose.choice((len(data), choose.randrange(len(data))))])
        try:
            assert describe(path).startswith(name)
        except NotTableError:
            continue
    path.unlink()
    WRITERS[name][0](path)
    assert WRITERS[name][1] in describe(path)
