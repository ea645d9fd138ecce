"""What large things cost: wide tables, many variables, many files. No model is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from table import Row

BEST = """
import json, os, time

def best(work):
    "Return the fewest CPU milliseconds of five calls."
    spent = []
    for _ in range(5):
        begun = time.thread_time()
        work()
        spent.append((time.thread_time() - begun) * 1e3)
    return min(spent)
"""

TABLES = """
import pandas, polars
from ipyagent.values.describe import describe

names = [f"c{n}" for n in range(int(os.environ["COLUMNS_OF_TABLE"]))]
frames = [each({name: [0.5 * n for n in range(1_000)] for name in names})
          for each in (pandas.DataFrame, polars.DataFrame)]
print(json.dumps([best(lambda: describe("x", frame, detail=True)) for frame in frames]))
"""

NAMES = """
import pandas
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.redaction import Redactor

names = {f"v{n}": n for n in range(int(os.environ["NAMES"]))}
frames = {f"f{n}": pandas.DataFrame({f"c{i}": [1.0] for i in range(20)})
          for n in range(int(os.environ["NAMES"]) // 10)}
place = Namespace(dict(names)).watched_by(Redactor())
print(json.dumps([
    best(lambda: place.run("zz = 1")), best(lambda: digest(names)), best(lambda: digest(frames))
]))
"""

FILES = """
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.completer import provisionalcompleter
from ipyagent.kernel.namespace import Namespace
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring import Environment

for folder in range(int(os.environ["FOLDERS"])):
    os.mkdir(f"d{folder}")
    for n in range(1_000):
        open(f"d{folder}/f{n}_{folder}.txt", "w").close()
environment = Environment(Workspace(Path(".")), Namespace({}))
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ipyagent")

def complete():
    text = "%%agent\\n@f999_"
    with provisionalcompleter():
        return list(shell.Completer.completions(text, len(text)))

print(json.dumps([
    best(lambda: environment.prompt_context("Go on.")), best(complete)
]))
"""


def measure(
    run: Callable[..., tuple[float, Any]], *, columns: int, names: int, folders: int
) -> Iterable[Row]:
    """Yield the costs of tables, namespaces and workspaces of that size."""
    pandas, polars = run(BEST + TABLES, COLUMNS_OF_TABLE=columns)[1]
    yield Row(f"{columns:,} columns described, pandas", "ms", pandas, goal=20.0)
    yield Row(f"{columns:,} columns described, polars", "ms", polars, goal=20.0)
    code, many, frames = run(BEST + NAMES, NAMES=names)[1]
    yield Row(f"code among {names:,} names", "ms", code, goal=3.0)
    yield Row(f"digest of {names:,} names", "ms", many)
    yield Row(f"digest of {names // 10:,} frames", "ms", frames)
    with tempfile.TemporaryDirectory() as folder:
        inside = f"import os; os.chdir({folder!r})\n"
        prompt, completion = run(inside + BEST + FILES, FOLDERS=folders)[1]
    yield Row(f"what a prompt says of {folders:,},000 files", "ms", prompt, goal=50.0)
    yield Row(f"a name completed among {folders:,},000 files", "ms", completion, goal=100.0)
