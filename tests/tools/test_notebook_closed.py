"""Notebooks that no page has open: one cell of the file changes, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings, strategies as st

from ipyagent.errors import AgentError, PageError, PathValidationError
from ipyagent.kernel.pages import OpenNotebooks
from ipyagent.tools.notebook_tools import NotebookTools
from ipyagent.tools.workspace import Workspace

OUTPUT = {"data": {"text/plain": "7"}, "execution_count": 3, "metadata": {}}
OUTPUT["output_type"] = "execute_result"


def code(source: Any, **more: Any) -> dict[str, Any]:
    empty = {"execution_count": 3, "metadata": {}, "outputs": [OUTPUT]}
    return {"cell_type": "code", **empty, "source": source, **more}


def words(source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def notebook(*cells: Any, minor: int = 5) -> dict[str, Any]:
    named = [{"id": f"c{i}", **cell} if minor >= 5 else cell for i, cell in enumerate(cells)]
    language = {"language_info": {"name": "python"}, "ünï": 1}
    return {"cells": named, "metadata": language, "nbformat": 4, "nbformat_minor": minor}


CELLS = words(["# A\n", "b"]), code(["x = 1\n", "x + 6"]), code("y"), words("")


class Desk:
    """The tools, and a notebook that they are about."""

    def __init__(self, root: Path) -> None:
        self.path = root / "n.ipynb"
        self.tools = NotebookTools(Workspace(root), OpenNotebooks())

    def write(self, text: str | bytes) -> None:
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def edit(self, cell: int | str, source: str) -> str:
        self.tools._preview_edit(cell, source, "n.ipynb")
        return self.tools.edit_cell(cell, source, "n.ipynb")

    def insert(self, source: str, kind: Any = "code", index: int | None = None) -> str:
        self.tools._preview_insert(source, kind, index, "n.ipynb")
        return self.tools.insert_cell(source, kind, index, "n.ipynb")

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()

    @property
    def cells(self) -> list[Any]:
        return json.loads(self.text)["cells"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


STYLES: dict[str, dict[str, Any]] = {
    "nbformat's": {"indent": 1, "ensure_ascii": False},
    "two spaces": {"indent": 2, "ensure_ascii": False},
    "tabs": {"indent": "\t", "ensure_ascii": False},
    "escapes": {"indent": 1, "ensure_ascii": True},
    "one line": {"ensure_ascii": False},
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
}
every_style = pytest.mark.parametrize("style", STYLES)


def dumped(content: Any, style: str, end: str = "\n") -> str:
    return json.dumps(content, **STYLES[style]) + end


@every_style
@pytest.mark.parametrize("end", ["\n", ""])
def test_an_edited_notebook_is_what_the_same_program_would_have_written(
    desk: Desk, style: str, end: str
):
    desk.write(dumped(notebook(*CELLS), style, end))
    desk.edit("c1", "é = 1\n\né")
    edited = code(["é = 1\n", "\n", "é"], outputs=[], execution_count=None)
    cells = [CELLS[0], edited, *CELLS[2:]]
    assert desk.text == dumped(notebook(*cells), style, end)


@every_style
@pytest.mark.parametrize("index", [0, 2, 4])
def test_so_is_one_with_a_new_cell(desk: Desk, style: str, index: int):
    desk.write(dumped(notebook(*CELLS), style))
    desk.insert("z\n1", index=index)
    cells = desk.cells
    assert list(cells[index]) == sorted(cells[index])
    assert cells[index]["source"] == ["z\n", "1"]
    before = notebook(*CELLS)
    before["cells"].insert(index, cells[index])
    assert desk.text == dumped(before, style)


@every_style
def test_and_one_that_had_no_cells(desk: Desk, style: str):
    desk.write(dumped(notebook(), style))
    desk.insert("# z", "markdown")
    assert desk.text == dumped(notebook() | {"cells": desk.cells}, style)


def test_line_ends_stay_what_they_were(desk: Desk):
    desk.write(dumped(notebook(*CELLS), "nbformat's").replace("\n", "\r\n"))
    desk.edit("c3", "new")
    assert desk.text.count("\n") == desk.text.count("\r\n")
    assert desk.text.endswith("}\r\n")


def test_a_notebook_in_no_programs_style_is_written_in_jupyters(desk: Desk):
    odd = (
        '{ "nbformat":4,"nbformat_minor" : 5, "metadata": {"x": 1.50, "y": "\\u00e9\\ud800"},\n'
        '  "cells": [ {"id":"a", "cell_type":"raw","metadata":{},"source":"s"} ]}'
    )
    desk.write(odd)
    desk.edit("a", "new")
    changed = json.loads(odd)
    changed["cells"][0]["source"] = "new"
    assert desk.text == json.dumps(changed, indent=1)


@pytest.mark.parametrize("minor", range(6))
def test_the_format_stays_what_it_was(desk: Desk, minor: int):
    desk.write(dumped(notebook(*CELLS, minor=minor), "nbformat's"))
    desk.insert("z")
    desk.edit(1, "w")
    assert json.loads(desk.text)["nbformat_minor"] == minor
    assert ("id" in desk.cells[-1]) is (minor >= 5)
    nbformat.validate(nbformat.reads(desk.text, nbformat.NO_CONVERT))


def test_cells_without_ids_are_told_apart_though_they_are_equal(desk: Desk):
    desk.write(dumped(notebook(code("x"), code("x"), code("x"), minor=4), "nbformat's"))
    desk.edit(1, "y")
    assert [cell["source"] for cell in desk.cells] == ["x", "y", "x"]


def test_a_notebook_whose_ids_are_missing_is_no_damaged_one(desk: Desk):
    content = notebook(*CELLS)
    for cell in content["cells"]:
        del cell["id"]
    desk.write(dumped(content, "nbformat's"))
    desk.edit(0, "# B")
    assert "id" not in desk.cells[0]


DAMAGED = {
    "not a notebook: it is not JSON": "{",
    "not UTF-8": b"\xff\xfe",
    "not a notebook in format 4": "[]",
    "in format 4": '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}',
    "damaged notebook, so it is left alone: 'metadata'": '{"nbformat": 4, "cells": []}',
    "damaged": dumped(notebook({"cell_type": "code", "source": "x"}), "nbformat's"),
    "damaged notebook": '{"nbformat": 4, "nbformat_minor": "x", "metadata": {}, "cells": []}',
    "is not JSON": "[" * 100_000,
}


@pytest.mark.parametrize("says", DAMAGED)
def test_what_is_no_notebook_is_refused_and_left_alone(desk: Desk, says: str):
    desk.write(DAMAGED[says])
    before = desk.path.read_bytes()
    with pytest.raises(AgentError, match=says):
        desk.insert("x")
    assert desk.path.read_bytes() == before


def test_a_missing_notebook_is_not_made(desk: Desk):
    with pytest.raises(PathValidationError, match="no such file"):
        desk.insert("x")
    assert not desk.path.exists()


def test_a_cell_that_changed_since_the_preview_is_left_alone(desk: Desk):
    desk.write(dumped(notebook(*CELLS), "nbformat's"))
    desk.tools._preview_edit("c1", "theirs", "n.ipynb")
    desk.write(dumped(notebook(CELLS[0], code("mine")), "nbformat's"))
    before = desk.text
    with pytest.raises(AgentError, match="changed since preview"):
        desk.tools.edit_cell("c1", "theirs", "n.ipynb")
    assert desk.text == before


def test_a_change_of_another_cell_since_the_preview_is_kept(desk: Desk):
    desk.write(dumped(notebook(*CELLS), "nbformat's"))
    desk.tools._preview_edit("c1", "theirs", "n.ipynb")
    desk.write(dumped(notebook(words("mine"), *CELLS[1:]), "nbformat's"))
    desk.tools.edit_cell("c1", "theirs", "n.ipynb")
    assert [cell["source"] for cell in desk.cells[:2]] == ["mine", ["theirs"]]


def test_what_is_saved_while_the_change_is_worked_out_is_not_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    desk.write(dumped(notebook(*CELLS), "nbformat's"))
    saved = dumped(notebook(words("saved meanwhile")), "nbformat's")
    swap = Workspace.compare_and_swap

    def late(self: Workspace, *args: Any) -> None:
        desk.write(saved)
        swap(self, *args)

    monkeypatch.setattr(Workspace, "compare_and_swap", late)
    with pytest.raises(PathValidationError, match="has changed meanwhile"):
        desk.edit("c1", "theirs")
    assert desk.text == saved


@pytest.mark.parametrize("name", [".ipyagent/n.ipynb", "link.ipynb", ".env"])
def test_the_rules_of_the_workspace_hold(desk: Desk, tmp_path: Path, name: str):
    (tmp_path / ".ipyagent").mkdir()
    text = dumped(notebook(*CELLS), "nbformat's")
    for each in (".ipyagent/n.ipynb", "n.ipynb", ".env"):
        (tmp_path / each).write_text(text)
    (tmp_path / "link.ipynb").symlink_to("n.ipynb")
    with pytest.raises(AgentError):
        desk.tools.edit_cell(0, "x", name)
    assert desk.text == text


def test_the_own_notebook_is_never_written_as_a_file(tmp_path: Path):
    desk = Desk(tmp_path)
    desk.write(dumped(notebook(*CELLS), "nbformat's"))
    before = desk.text
    desk.tools = NotebookTools(Workspace(tmp_path), OpenNotebooks(saved=desk.path))
    for change in (lambda: desk.edit(0, "x"), lambda: desk.insert("x", index=0)):
        with pytest.raises(PageError, match="needs JupyterLab 4 or Notebook 7 with ipyagent's ext"):
            change()
    assert desk.text == before


def test_the_own_notebook_is_read_as_it_was_saved_last(tmp_path: Path):
    desk = Desk(tmp_path)
    desk.write(dumped(notebook(*CELLS), "nbformat's"))
    desk.tools = NotebookTools(Workspace(tmp_path), OpenNotebooks(saved=desk.path))
    told = desk.tools.read_notebook()
    assert told.startswith("(n.ipynb, as it was saved last, 4 cells)\n\n#0 markdown id=c0\n# A\nb")
    assert "#1 code id=c1 [3]\nx = 1\nx + 6\n-> 7" in told


def test_without_any_notebook_the_tools_say_what_is_missing(desk: Desk):
    with pytest.raises(PageError, match="needs JupyterLab"):
        desk.tools.read_notebook()
    with pytest.raises(PageError, match="no notebook around this code; name one by its path"):
        desk.tools.insert_cell("x")


sources = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
kinds = st.sampled_from([code, words])
every_cell = st.builds(lambda kind, source: kind(source), kinds, sources)
notebooks = st.builds(
    lambda cells, minor: notebook(*cells, minor=minor),
    st.lists(every_cell, min_size=1, max_size=4),
    st.integers(0, 5),
)


@settings(max_examples=60, deadline=None)
@given(content=notebooks, style=st.sampled_from(list(STYLES)), data=st.data())
def test_whatever_a_notebook_holds_only_the_named_cell_changes(
    tmp_path_factory: pytest.TempPathFactory, content: Any, style: str, data: st.DataObject
):
    desk = Desk(tmp_path_factory.mktemp("n"))
    desk.write(dumped(content, style))
    number = data.draw(st.integers(0, len(content["cells"]) - 1))
    source = data.draw(sources.filter(lambda s: s != content["cells"][number]["source"]))
    desk.edit(number, source)
    content["cells"][number]["source"] = source
    if content["cells"][number]["cell_type"] == "code":
        content["cells"][number] |= {"outputs": [], "execution_count": None}
    assert desk.text == dumped(content, style)
