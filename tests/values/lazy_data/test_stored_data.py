"""Databases, and tables and arrays in files, are described by their metadata: nothing is read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anndata
import duckdb
import geopandas as gpd
import h5py
import ibis
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import shapely
import sqlalchemy as sa
import xarray as xr
import zarr

from describing import Counted, line
from ipyagent.values.describe import describe, holds_lazy_data
from ipyagent.values.describe.library_objects import DATABASES, FAR

FRAME = pd.DataFrame({"a": range(1_000), "b": "x"})


# Databases ----------------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Any:
    with duckdb.connect() as connection:
        yield connection


def test_a_duckdb_connection_tells_its_tables_and_views(connection: Any) -> None:
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b DECIMAL(10,2))")
    connection.execute("INSERT INTO t SELECT range, 1 FROM range(100000)")
    connection.execute("CREATE VIEW v AS SELECT a FROM t WHERE b > 0")
    connection.execute("CREATE SCHEMA s; CREATE TABLE s.u (z VARCHAR)")
    assert line(connection) == (
        "DuckDBPyConnection, 2 tables, 1 view [duckdb]: "
        "TABLE t(a INTEGER PRIMARY KEY, b DECIMAL(10,2)), ~100,000 rows; "
        "TABLE s.u(z VARCHAR), ~0 rows; VIEW v AS SELECT a FROM t WHERE (b > 0)"
    )
    assert "\n  TABLE s.u(z VARCHAR), ~0 rows\n" in describe("x", connection, detail=True)


def test_no_function_of_a_view_or_relation_is_called(connection: Any) -> None:
    count = Counted()

    def counted(a: int) -> int:
        count(a)
        return a

    connection.create_function("counted", counted)
    connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    connection.execute("CREATE VIEW v AS SELECT counted(a) AS n FROM t")
    relation = connection.sql("SELECT counted(a) AS n, a FROM t")
    assert line(relation) == (
        "DuckDBPyRelation, 2 columns (n: BIGINT, a: INTEGER), not computed [duckdb]"
    )
    assert "VIEW v AS SELECT counted(a) AS n FROM t" in line(connection)
    assert count.calls == 0
    assert repr(relation)
    assert count.calls  # the naive look runs the query


def test_a_result_that_the_user_has_not_fetched_stays(connection: Any) -> None:
    connection.execute("SELECT 42")
    assert line(connection) == "DuckDBPyConnection, 0 tables [duckdb]"
    assert connection.fetchall() == [(42,)]


def test_a_closed_database_is_described_by_its_type() -> None:
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1 AS a")
    connection.close()
    assert line(connection) == "DuckDBPyConnection"
    assert line(relation).startswith("DuckDBPyRelation")


def test_tables_of_an_attached_database_have_its_name(connection: Any, tmp_path: Path) -> None:
    connection.execute(f"CREATE TABLE t AS SELECT 1 AS a; ATTACH '{tmp_path / 'other.db'}'")
    connection.execute("CREATE TABLE other.u AS SELECT 1 AS b")
    assert line(connection) == (
        "DuckDBPyConnection, 2 tables [duckdb]: "
        "TABLE t(a INTEGER) in memory, ~1 rows; TABLE u(b INTEGER) in other, ~1 rows"
    )


def test_a_database_that_is_elsewhere_is_not_asked_for_its_tables(connection: Any) -> None:
    """No server can be attached here without a network, so rows of the catalog stand for them."""
    rows = "('duckdb', NULL), ('duckdb', '/a.db'), ('duckdb', 's3://b/a.db'), ('postgres', 'db=x')"
    query = f"SELECT {FAR} FROM (VALUES {rows}) AS databases(type, path)"
    assert connection.execute(query).fetchall() == [(None,), (False,), (True,), (True,)]
    assert FAR in DATABASES


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # of ibis
def test_tables_of_ibis_and_sqlalchemy_tell_the_columns_that_they_hold() -> None:
    backend = ibis.duckdb.connect()
    backend.raw_sql("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    table = backend.table("t")
    assert line(table.filter(table.a > 1).mutate(c=table.a * 2)).endswith(
        "(a: int32, b: string, c: int64), not computed [ibis]"
    )
    metadata = sa.MetaData()
    people = sa.Table(
        "people",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(30)),
    )
    assert line(people) == (
        "Table, 2 columns (id: INTEGER key, name: VARCHAR(30)), of people, not queried [sqlalchemy]"
    )
    assert line(metadata) == "MetaData, 1 table [sqlalchemy]: people(id, name)"


def test_an_engine_is_described_without_its_password_and_not_connected() -> None:
    engine = sa.create_engine("sqlite:////no/such/folder/x.db")
    assert line(engine) == "Engine, sqlite:////no/such/folder/x.db [sqlalchemy]"
    url = sa.URL.create("sqlite", "me", "s3cret-words", "host", database="x")
    engine.url = url
    assert "s3cret-words" not in line(engine)


# Tables in files ----------------------------------------------------------------------------------


def test_arrows_tables_and_files_tell_schema_rows_and_size(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": range(1_000), "b": ["x"] * 1_000}), path)
    columns = "2 columns (a: int64, b: string)"
    table = pq.read_table(path)
    assert line(table).startswith(f"Table, {columns}, 1,000 rows, ~")
    dataset = pads.dataset(tmp_path)
    assert line(dataset).startswith(f"FileSystemDataset, {columns}, 1 file, not read")
    path.unlink()
    assert line(dataset) == f"FileSystemDataset, {columns}, 1 file, not read [pyarrow]"
    reader = table.to_reader(100)
    assert line(reader) == f"RecordBatchReader, {columns}, not read [pyarrow]"
    assert reader.read_next_batch().num_rows == 100  # no batch is missing
    assert not holds_lazy_data([table, FRAME])
    assert holds_lazy_data([FRAME, dataset])


# Arrays -------------------------------------------------------------------------------------------


def test_an_hdf5_file_tells_its_tree(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("group/data", (1_000, 10), "f4", chunks=(100, 10))
        file["link"] = h5py.SoftLink("/group")
        file["elsewhere"] = h5py.ExternalLink("/no/such/file.h5", "/x")
        data = "shape (1,000, 10), float32, ~40.0 kB, chunks (100, 10)"
        assert line(file) == (
            f"File in {str(tmp_path / 'x.h5')!r}, mode r+ [h5py]: elsewhere (link); "
            f"group/data: {data}; link (link)"
        )
        assert line(file["group"]).endswith(f": data: {data}")
        assert line(file["group/data"]).endswith(f"mode r+, {data}, not read [h5py]")
    assert line(file) == "File, closed [h5py]"


def test_nobody_waits_for_a_thread_that_reads_hdf5(tmp_path: Path) -> None:
    from h5py._objects import phil

    reading, done = threading.Event(), threading.Event()

    def read() -> None:
        with phil:
            reading.set()
            done.wait()

    with h5py.File(tmp_path / "x.h5", "w") as file:
        thread = threading.Thread(target=read)
        thread.start()
        reading.wait()
        text = line(file)
        done.set()
        thread.join()
    assert text == "File, in use by another thread [h5py]"


class OpenFile:
    """A file of the user's class, which HDF5 would call."""

    def __init__(self, path: Path) -> None:
        self.file, self.calls = path.open("w+b"), 0

    def __getattr__(self, name: str) -> object:
        self.calls += 1
        return getattr(self.file, name)


def test_a_file_that_is_an_object_of_the_users_is_not_read(tmp_path: Path) -> None:
    opened = OpenFile(tmp_path / "x.h5")
    with opened.file, h5py.File(opened, "w") as file:
        file.create_dataset("data", (3,), "f4")
        before = opened.calls
        assert line(file).endswith("mode r+, fileobj [h5py]")
        assert opened.calls == before


def test_a_zarr_group_tells_where_it_is_and_an_array_its_shape_and_chunks(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "z")
    group.create_array("a/b", shape=(100, 10), dtype="f4", chunks=(10, 10))
    assert line(group) == f"Group '/', in {str(tmp_path / 'z')!r} [zarr]"
    array: Any = group["a/b"]
    assert line(array).startswith("Array, shape (100, 10), float32, ~4.0 kB, chunks (10, 10), in ")
    assert line(zarr.open_group(zarr.storage.MemoryStore())) == "Group '/', in a MemoryStore [zarr]"


def test_a_store_of_the_users_own_class_is_not_asked() -> None:
    class Store(zarr.storage.MemoryStore):
        pass

    group = zarr.open_group(Store())
    group.create_array("q", shape=(3,), dtype="i4")
    assert line(group) == "Group '/', in a Store [zarr]"


def test_xarrays_objects_tell_dimensions_types_and_what_is_not_loaded(tmp_path: Path) -> None:
    values = xr.Dataset(
        {"t": (("x", "y"), np.zeros((3, 4)))}, coords={"x": [1, 2, 3], "when": ("x", [1, 2, 3])}
    )
    values.to_zarr(tmp_path / "x.zarr", consolidated=False)
    assert line(values) == (
        "Dataset (x: 3, y: 4), ~144 B [xarray]: t (x, y): float64; when (x): int64; x (x): int64"
    )
    lazy = xr.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False)
    assert line(lazy).startswith("Dataset (x: 3, y: 4), ~144 B [xarray]: t (x, y): float64, not")
    assert line(lazy.t) == "DataArray t (x: 3, y: 4), float64, not loaded, ~96 B [xarray]"
    dask = xr.open_zarr(tmp_path / "x.zarr", consolidated=False)
    assert line(dask.t) == (
        "DataArray t (x: 3, y: 4), float64, chunks (3, 4), not computed, ~96 B [xarray]"
    )


# Objects of professions ---------------------------------------------------------------------------


def test_annotated_data_networks_and_geometry_tell_what_they_hold() -> None:
    obs = pd.DataFrame({"cell type": ["a"] * 2_000}, index=[f"c{n}" for n in range(2_000)])
    counts = sp.random_array((2_000, 500), density=0.01, format="csr")
    data = anndata.AnnData(np.zeros((2_000, 500), "f4"), obs=obs, layers={"counts": counts})
    assert line(data) == (
        "AnnData, 2,000 observations × 500 variables [anndata]: "
        "X: shape (2,000, 500), float32, ~4.0 MB; obs: cell type; layers: counts"
    )
    assert line(data[:10]).startswith("AnnData, 10 observations × 500 variables")
    club = nx.karate_club_graph()
    assert line(club) == (
        "Graph, 34 nodes, 78 edges [networkx]: nodes with club; edges with weight"
    )
    for kind in (nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph):
        other = kind([(1, 1), (1, 2), (2, 1), (2, 3)])
        assert f"3 nodes, {other.number_of_edges()} edges" in line(other)
    places = gpd.GeoDataFrame({"a": [1]}, geometry=[shapely.Point(0, 0)], crs=4326)
    assert line(places) == (
        "DataFrame, 1 rows × 2 columns (a: int64, geometry: GeometryDtype) [geometry in EPSG:4326]"
    )


# Broken objects -----------------------------------------------------------------------------------


def test_broken_objects_never_raise(tmp_path: Path) -> None:
    kinds: list[Any] = [
        h5py.File, h5py.Dataset, zarr.Group, zarr.Array,
        xr.Dataset, xr.DataArray, pl.LazyFrame, sa.Table, sa.Engine, np.memmap,
    ]  # fmt: skip
    for kind in kinds:
        try:
            broken = kind.__new__(kind)
        except Exception:
            continue
        for detail in (False, True):
            assert describe("x", broken, detail=detail).startswith("x: ")
