"""Cells that the agent inserted or edited are taken back, in a page or in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import Lab
from ipyagent.wiring.toolset import Toolset
from ipyagent.wiring.undo import find_undo
from open_notebooks import MemoryPage, cell, desktop

YOLO = {"agent": {"confirm_mode": "yolo"}}


def closed_notebook(folder: Path, *sources: str) -> Path:
    path = folder / "other.ipynb"
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "source": source,
            "execution_count": None,
            "outputs": [],
        }
        for number, source in enumerate(sources)
    ]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book, indent=1) + "\n")
    return path


CALLS = [
    {"name": "insert_cell", "arguments": {"source": "y = 2", "index": 1}},
    {"name": "edit_cell", "arguments": {"cell": "c0", "source": "x = 5"}},
]


def in_notebook(path: str | None) -> list[dict[str, object]]:
    more = {"path": path} if path else {}
    return [{**each, "arguments": {**each["arguments"], **more}} for each in CALLS]


@pytest.mark.parametrize("sources", [["x = 1"], ["x = 1", "z = 3"], ["x = 1", "z = 3", "w = 4"]])
def test_a_closed_notebook_is_byte_for_byte_as_it_was(tmp_path: Path, sources: list[str]) -> None:
    path = closed_notebook(tmp_path, *sources)
    before = path.read_bytes()
    lab = Lab(tmp_path)
    run = lab.run([{"calls": in_notebook("other.ipynb")}, "Done."], settings=YOLO)
    after = path.read_bytes()
    assert after != before
    undo = find_undo(lab.environment, reversed(lab.session.runs), "")
    assert undo.run(dry_run=True).restored == (
        f"other.ipynb would be as it was before run {run.id}",
    )
    report = undo.run()
    assert path.read_bytes() == before
    assert report.skipped == ()
    find_undo(lab.environment, reversed(lab.session.runs), report.id).run()
    book = json.loads(path.read_text())
    assert ["".join(each["source"]) for each in book["cells"]][:2] == ["x = 5", "y = 2"]


def test_an_open_notebook_goes_back_in_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = MemoryPage({None: [cell("c0", "x = 1"), cell("agent", "%%agent\nGo on.")]})
    around = desktop(page)
    monkeypatch.setattr(Toolset, "open_notebooks", lambda self: around)
    lab = Lab(tmp_path)
    lab.run([{"calls": in_notebook(None)}, "Done."], settings=YOLO)
    book = page.books[None]
    assert [each["source"] for each in book] == ["x = 5", "y = 2", "%%agent\nGo on."]
    report = find_undo(lab.environment, reversed(lab.session.runs), "").run()
    assert [each["source"] for each in book] == ["x = 1", "%%agent\nGo on."]
    find_undo(lab.environment, reversed(lab.session.runs), report.id).run()
    assert [each["source"] for each in book] == ["x = 5", "y = 2", "%%agent\nGo on."]


def test_a_cell_that_the_user_changed_since_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = MemoryPage({None: [cell("c0", "x = 1"), cell("agent", "%%agent\nGo on.")]})
    around = desktop(page)
    monkeypatch.setattr(Toolset, "open_notebooks", lambda self: around)
    lab = Lab(tmp_path)
    lab.run([{"calls": in_notebook(None)}, "Done."], settings=YOLO)
    page.books[None][0]["source"] = "x = 'mine'"
    report = find_undo(lab.environment, reversed(lab.session.runs), "").run()
    assert report.skipped == ("cell 0 of this notebook has changed since, so it is left as it is",)
    assert [each["source"] for each in page.books[None]] == ["x = 'mine'", "%%agent\nGo on."]
