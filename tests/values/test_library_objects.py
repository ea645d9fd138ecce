"""Objects of libraries are described by rows: the gate has few of these libraries, so small ones
with the same members stand for others, which `tests/values/lazy_data` tests as they are."""

from __future__ import annotations

import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from describing import line
from ipyagent.values.describe import describe, holds_lazy_data, is_table
from ipyagent.values.describe.library_objects import ROWS

Library = Any  # the function below, which takes the members of each class by name


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Return a function that puts a library in place: classes with their members by name."""

    def install(module: str, **classes: Any) -> SimpleNamespace:
        loaded = sys.modules.get(module) or ModuleType(module)
        monkeypatch.setitem(sys.modules, module, loaded)
        made = {}
        for name, members in classes.items():
            bases = members.pop("bases", ())
            made[name] = type(name, bases, {**members, "__module__": module})
            monkeypatch.setattr(loaded, name, made[name], raising=False)
        return SimpleNamespace(**made)

    return install


def make(cls: type, **held: Any) -> Any:
    value = object.__new__(cls)
    vars(value).update(held)
    return value


# Matrices, networks, objects with data ------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_a_sparse_matrix_tells_its_shape_and_how_much_it_stores(form: str, kind: str) -> None:
    dense = np.diag(np.arange(1.0, 9.0))[:, :6]
    value = getattr(sp, f"{form}_{kind}")(dense)
    text = line(value)
    assert text.startswith(f"{form}_{kind}, shape (8, 6), float64")
    assert form in ("lil", "dia") or f", {value.nnz} stored values" in text
    assert not holds_lazy_data([value])


def graph(library: Library, name: str, adjacent: Any, **held: Any) -> Any:
    lib = library("networkx", Graph={})
    cls = (
        lib.Graph
        if name == "Graph"
        else getattr(library("networkx", **{name: {"bases": (lib.Graph,)}}), name)
    )
    nodes = {each: {"club": 1} for each in adjacent}
    return make(cls, _node=nodes, _adj=adjacent, **held)


def test_a_network_tells_nodes_edges_and_their_attributes(library: Library) -> None:
    edge = {"weight": 2}
    simple = graph(library, "Graph", {1: {1: edge, 2: edge}, 2: {1: edge}})
    assert line(simple) == (
        "Graph, 2 nodes, 2 edges [networkx]: nodes with club; edges with weight"
    )
    one_way = graph(library, "DiGraph", {1: {1: edge, 2: edge}, 2: {}}, _succ={})
    assert line(one_way).startswith("DiGraph, 2 nodes, 2 edges")
    several = graph(library, "MultiGraph", {1: {2: {0: edge, 1: edge}}, 2: {1: {0: edge, 1: edge}}})
    assert line(several).startswith("MultiGraph, 2 nodes, 2 edges")
    large = graph(library, "Graph", {n: dict.fromkeys(range(400), edge) for n in range(400)})
    assert line(large).startswith("Graph, 400 nodes [networkx]")


class Unhashed:
    def __hash__(self) -> int:
        assert not ARMED, "it was hashed"
        return 1


ARMED: list[int] = []


def test_no_node_of_a_network_is_hashed(library: Library) -> None:
    one, two = Unhashed(), Unhashed()
    value = graph(library, "Graph", {one: {two: {}}, two: {one: {}}})
    ARMED.append(1)
    try:
        assert line(value).startswith("Graph, 2 nodes, 1 edge")
    finally:
        ARMED.clear()


def test_annotated_data_tell_size_columns_and_layers(library: Library) -> None:
    cls = library("anndata", AnnData={}).AnnData
    obs, var = pd.DataFrame({"cell type": ["a"] * 3}), pd.DataFrame(index=range(2))
    parts = {
        "_obs": obs,
        "_var": var,
        "_obsm": {"pca": 1},
        "_layers": SimpleNamespace(_data={"c": 1}),
    }
    value = make(cls, _X=np.zeros((3, 2), "f4"), **parts)
    assert line(value) == (
        "AnnData, 3 observations × 2 variables [anndata]: X: shape (3, 2), float32, ~24 B; "
        "obs: cell type; layers: c; obsm: pca"
    )
    value._X = sp.csr_matrix((3, 2))
    assert "X: csr_matrix, shape (3, 2), float64, 0 stored values" in line(value)
    assert "\n  obs: cell type\n" in describe("x", value, detail=True)


def test_a_tensor_tells_shape_type_and_device(library: Library) -> None:
    lib = library("torch", Tensor={}, dtype={"__str__": lambda self: "torch.float32"})
    value = make(lib.Tensor, shape=(2, 3), dtype=lib.dtype(), nbytes=24, device="cpu")
    assert line(value) == "Tensor, shape (2, 3), torch.float32, ~24 B, cpu [torch]"


class Model:
    def __init__(self) -> None:
        self.alpha, self._note = 0.5, "x"
        self.weights = np.zeros((4, 2))
        self._parts = {"left": pd.DataFrame({"a": [1]})}
        self._options = {"alpha": 1}


def test_an_object_tells_the_tables_and_arrays_that_it_holds() -> None:
    assert line(Model()) == (
        "Model (test_library_objects), attributes: alpha; weights: ndarray, shape (4, 2), float64; "
        "_parts: dict, 1 item = {'left': <DataFrame>}"
    )
    assert describe("x", Model(), detail=True).splitlines()[1:] == [
        "weights: ndarray, shape (4, 2), float64",
        "_parts: dict, 1 item = {'left': <DataFrame>}",
    ]


def test_a_column_of_geometry_tells_its_projection() -> None:
    frame = pd.DataFrame({"a": [1, 2], "at": pd.array([1, 2], dtype="Int64")})
    assert "geometry" not in line(frame)
    array = frame._mgr.arrays[-1]
    array._crs = SimpleNamespace(srs="EPSG:4326")
    assert line(frame).endswith("[geometry in EPSG:4326]")


# Lazy and stored data -----------------------------------------------------------------------------


def hdf5(library: Library) -> SimpleNamespace:
    hard = library("h5py", HardLink={}).HardLink
    library("h5py._objects")
    file = SimpleNamespace(filename="x.h5", mode="r", driver="sec2")

    def look(self: Any, name: str, *, getlink: bool = False) -> Any:
        return SimpleNamespace() if name == "link" else hard()

    node = {"file": file, "get": look, "name": "/g", "__bool__": lambda self: True}
    return library(
        "h5py",
        Group={**node, "bases": (dict,)},
        Dataset={**node, "shape": (9,), "dtype": "f4", "nbytes": 36, "chunks": (3,)},
    )


def test_an_hdf5_group_tells_its_tree_and_gives_the_lock_back(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib, lock = hdf5(library), threading.Lock()
    monkeypatch.setattr(sys.modules["h5py._objects"], "phil", lock, raising=False)
    inner = lib.Group(data=lib.Dataset())
    text = "shape (9,), f4, ~36 B, chunks (3,)"
    for _ in range(2):
        assert line(lib.Group(inner=inner, empty=lib.Group(), link=1)) == (
            f"Group '/g' in 'x.h5', mode r [h5py]: inner/data: {text}; empty/; link (link)"
        )
        assert line(lib.Dataset()) == f"Dataset '/g' in 'x.h5', mode r, {text}, not read [h5py]"
        assert not lock.locked()
    with lock:
        assert line(lib.Dataset()) == "Dataset, in use by another thread [h5py]"
    lib.Dataset.shape = property(lambda self: 1 / 0)
    assert line(lib.Dataset()) == "Dataset"
    assert not lock.locked()


def test_labelled_arrays_tell_dimensions_variables_and_what_is_not_loaded(library: Library) -> None:
    lib = library("xarray", Dataset={}, DataArray={}, Backed={"__init__": lambda self: None})
    sys.modules["xarray"].Backed.__module__ = "xarray.backends"
    library("xarray.backends")
    sys.modules["xarray.backends"].Backed = lib.Backed
    backed = make(lib.Backed, dtype=np.dtype("f4"), shape=(3, 4), array=None)

    def variable(dims: str, data: Any) -> Any:
        return SimpleNamespace(dims=tuple(dims), _data=data)

    variables = {
        "x": variable("x", np.arange(3)),
        "t": variable("xy", np.zeros((3, 4))),
        "far": variable("xy", backed),
    }
    assert line(make(lib.Dataset, sizes={"x": 3, "y": 4}, variables=variables)) == (
        "Dataset (x: 3, y: 4), ~168 B [xarray]: t (x, y): float64; "
        "far (x, y): float32, not loaded; x (x): int64"
    )
    array = make(lib.DataArray, name="far", variable=variables["far"])
    assert line(array) == "DataArray far (x: 3, y: 4), float32, not loaded, ~48 B [xarray]"
    array.variable = variable("x", SimpleNamespace(shape=(3,)))
    assert line(array) == "DataArray [xarray]"


def test_the_partitions_of_a_dask_table_are_known_or_left_out(library: Library) -> None:
    lib = library("dask._expr", Expr={"divisions": property(lambda self: pytest.fail("computed"))})
    frame = library("dask.dataframe", DataFrame={"columns": ["a"], "dtypes": ["int64"]}).DataFrame
    unknown = make(frame, expr=make(lib.Expr))
    assert line(unknown) == "DataFrame, 1 columns (a: int64), not computed [dask]"
    known = make(frame, expr=make(lib.Expr))
    vars(known.expr)["divisions"] = (0, 5, 9)
    assert line(known) == "DataFrame, 1 columns (a: int64), 2 partitions, not computed [dask]"
    assert "divisions: 0 to 9" in describe("x", known, detail=True)
    assert is_table(frame)


def test_a_subclass_of_each_type_is_not_asked(library: Library) -> None:
    for row in ROWS:
        asked = property(lambda self: pytest.fail("it was asked"))
        lib = library(row.module, **{row.name: {"shape": asked, "columns": asked, "expr": asked}})
        cls = getattr(lib, row.name)
        own = type(row.name, (cls,), {"__module__": row.module})
        assert line(object.__new__(own)).startswith(row.name)
