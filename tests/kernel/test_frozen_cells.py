"""Runs frozen in a kernel: files that need no ipyagent, verified in another kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from kernels import Kernel, Page, Reply, kernel, python, script

pytestmark = pytest.mark.kernel

LOOKS = {"IPYAGENT_AGENT__LOOK_FREELY": "true"}
OWN = "%matplotlib inline\nimport pandas as pd\nsales = pd.read_csv('sales.csv')"
PLOT = "import matplotlib.pyplot as plt\nplt.plot(sales.revenue)\nplt.show()"


def ask(kernel: Kernel, folder: Path, *codes: str, answer: str = "Done.", name: str = "a") -> Reply:
    """Let an agent run code, each piece approved if that is asked."""
    option = script(folder, *map(python, codes), answer, name=name)
    reply = kernel.run(f"%%agent {option}\nDo {name}.", page=Page(kernel))
    assert reply.run["status"] == "done", reply
    return reply


def fill(folder: Path) -> None:
    (folder / "sales.csv").write_text("region,revenue\nnorth,5076\nsouth,3701\n")


def execute(path: Path) -> list[Any]:
    """Execute a notebook in a kernel of its own; return the outputs of its code cells."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
def test_a_run_is_frozen_verified_and_needs_no_ipyagent(tmp_path: Path) -> None:
    fill(tmp_path)
    with kernel(tmp_path, **LOOKS) as first:
        first.run("unused = 1")
        first.run(OWN)
        codes = "sales.head()", "total = int(sales.revnue.sum())", PLOT
        answer = "Revenue is 8,777."
        ask(
            first, tmp_path, *codes, "total = int(sales.revenue.sum())\nprint(total)", answer=answer
        )
        said = first.run("%agent freeze --verify --to frozen/a.ipynb").stdout
        equal = "verified in a fresh kernel: 1 output, 1 figure and 1 variable equal"
        assert said == f"wrote frozen/a.ipynb: {equal}\n"
    notebook = nbformat.read(tmp_path / "frozen/a.ipynb", as_version=4)
    text = nbformat.writes(notebook)
    assert equal[1:] in text
    for gone in ("head()", "revnue", "unused", "%%agent"):
        assert gone not in text
    assert notebook.cells[-1].source == "Revenue is 8,777."
    (tmp_path / "frozen/a.ipynb").rename(tmp_path / "a.ipynb")
    kinds = [list(out.get("data", {})) for outs in execute(tmp_path / "a.ipynb") for out in outs]
    assert ["text/plain", "image/png"] in kinds or ["image/png", "text/plain"] in kinds


@pytest.mark.slow
def test_what_differs_is_named_and_files_go_back_before_it_is_tried(tmp_path: Path) -> None:
    fill(tmp_path)
    with kernel(tmp_path) as first:
        first.run("%config InlineBackend.figure_format = 'png'\nnumbers = [1, 2]")
        ask(first, tmp_path, "import random\nlot = random.random()\ntotal = sum(numbers)")
        edit = {"path": "sales.csv", "old_string": "5076", "new_string": "5076,\nwest,5076"}
        option = script(
            tmp_path, {"calls": [{"name": "edit_file", "arguments": edit}]}, "B.", name="b"
        )
        first.run(f"%%agent {option} --confirm yolo\nDo b.")
        said = first.run("%agent freeze --all --verify --to all.py").stdout
        assert said == "wrote all.py: different in a fresh kernel: lot has another content\n"
        said = first.run("%agent freeze --verify --to all.py").stdout
        assert said == "wrote all.py: verified in a fresh kernel: 1 file equal\n"
        assert "west" in (tmp_path / "sales.csv").read_text()
        (tmp_path / "mine.py").write_text("x = 1\n")
        said = first.run("%agent freeze --to mine.py").stdout
        assert "mine.py exists and was not frozen" in said
        assert (tmp_path / "mine.py").read_text() == "x = 1\n"


def test_frozen_cells_are_proposed_below_and_returned(tmp_path: Path) -> None:
    with kernel(tmp_path) as first:
        first.run("import math\nnumbers = [1, 2]")
        ask(first, tmp_path, "total = math.fsum(numbers)\nprint(total)", answer="It is 3.0.")
        reply = first.run("%agent freeze")
        assert "unverified" in reply.stdout
        (payload,) = reply.content["payload"]
        assert payload["text"] == (
            "# %%\nimport math\n\n# %%\n# Prompt: Do a.\ntotal = math.fsum(numbers)\nprint(total)"
            "\n\n# %% [markdown]\n# It is 3.0."
        )
        kinds = "[each['cell_type'] for each in __import__('ipyagent').last.to_cells()]"
        assert first.value(kinds) == "['code', 'code', 'markdown']"
        assert "--all takes no RUN" in first.run("%agent freeze --all x").stdout
        assert "neither" in first.run("%agent freeze --to a.txt").stdout
