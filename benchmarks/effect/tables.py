"""The tables of the tasks: files that packages ship, as people have them in a folder."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

SHIPPED = {
    "penguins.csv": ("palmerpenguins", "data/penguins.csv"),
    "penguins raw.csv": ("palmerpenguins", "data/penguins-raw.csv"),
    **{
        name: ("vega_datasets", f"_data/{name}")
        for name in (
            *("airports.csv", "burtin.json", "cars.json", "crimea.json", "driving.json"),
            *("iowa-electricity.csv", "la-riots.csv", "ohlc.json", "seattle-weather.csv"),
            *("stocks.csv", "us-employment.csv", "wheat.json"),
        )
    },
}
"""Copied as they are: name, package, path in the package."""

CONVERTED = {"barley.tsv": ("_data/barley.json", "\t"), "iris.csv": ("_data/iris.json", ",")}
"""Written from JSON with that separator."""


def write_tables(folder: Path) -> None:
    """Write all tables into the folder."""
    for name, (package, path) in SHIPPED.items():
        shutil.copyfile(_package_folder(package) / path, folder / name)
    for name, (path, separator) in CONVERTED.items():
        rows = json.loads((_package_folder("vega_datasets") / path).read_text())
        pd.DataFrame(rows).to_csv(folder / name, sep=separator, index=False)


def loading_code(name: str) -> str:
    """Return the expression by which pandas reads that file."""
    if name.endswith(".json"):
        return f'pd.read_json("{name}")'
    return f'pd.read_csv("{name}"{", sep=chr(9)" if name.endswith(".tsv") else ""})'


def _package_folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The tables need the package {package}: pip install {package}")
    return Path(spec.origin).parent
