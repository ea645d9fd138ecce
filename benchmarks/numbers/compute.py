"""Run the code of `scenes.yaml`, and write the text of each result to `results.yaml` beside it.

    .venv-lazy/bin/python benchmarks/numbers/compute.py [FOLDER]

A scene is a prompt and the code of the calls that a model made. A call is run as a cell of a
notebook is: what it prints, and the value of its last line, are its result. Needs what `make lazy`
installs (statsmodels, scikit-learn, polars, duckdb), with palmerpenguins and vega-datasets.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

HERE = Path(__file__).parent


def run_cell(code: str, namespace: dict[str, Any]) -> str:
    """Return what a cell prints, with the value of its last line."""
    tree = ast.parse(code)
    last = tree.body[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not isinstance(last, ast.Expr):
            exec(code, namespace)
        else:
            exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), namespace)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
            if value is not None:
                print(value if isinstance(value, pd.DataFrame | pd.Series) else repr(value))
    return printed.getvalue().strip("\n")


def compute(folder: Path) -> None:
    """Write the results of a folder's scenes."""
    pd.set_option("display.width", 100, "display.max_columns", 12)
    scenes = yaml.safe_load((folder / "scenes.yaml").read_text())
    results = {}
    for scene in scenes:
        namespace: dict[str, Any] = {"pd": pd, "np": np, "rng": np.random.default_rng(7)}
        texts = [run_cell(code, namespace) for code in scene["calls"]]
        results[scene["id"]] = ["\n".join(line.rstrip() for line in t.split("\n")) for t in texts]
        print(f"=== {scene['id']}: {scene['prompt']}", *results[scene["id"]], sep="\n--\n")
    yaml.SafeDumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    written = yaml.safe_dump(results, sort_keys=False, width=1000, allow_unicode=True)
    (folder / "results.yaml").write_text(written)


if __name__ == "__main__":
    folder = HERE / (sys.argv[1] if len(sys.argv) > 1 else "")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        compute(folder)
