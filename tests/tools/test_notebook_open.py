"""Notebooks that a page has open, and changes of their cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Lab, Watcher, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentError, InvalidArgumentsError, PageError
from ipyagent.kernel.pages import OpenNotebooks
from ipyagent.schema import Preview, Run, ToolResult, ToolStatus
from ipyagent.tools.notebook_tools import NotebookTools
from ipyagent.tools.workspace import Workspace
from ipyagent.ui.blocks import run_html
from ipyagent.ui.plain_text import render, summarize
from ipyagent.ui.transcribe import transcribe
from ipyagent.wiring.toolset import Toolset
from ipyagent.wiring.undo import find_undo
from open_notebooks import MemoryPage, cell, desktop

PLOT = {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": "<Figure>"}}
ERROR = {"output_type": "error", "ename": "KeyError", "evalue": "'year'", "traceback": ["…"]}
STREAM = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}


def book() -> list[dict[str, Any]]:
    return [
        cell("title", "# Sales", "markdown"),
        cell("load", "df = load()", execution_count=1, outputs=[STREAM, PLOT]),
        cell("agent", "%%agent\nGo on."),
        cell("last", "df['year']", execution_count=3, outputs=[ERROR]),
    ]


@pytest.fixture
def page() -> MemoryPage:
    return MemoryPage({None: book()})


@pytest.fixture
def tools(tmp_path: Path, page: MemoryPage) -> NotebookTools:
    return around(tmp_path, desktop(page, folder=tmp_path))


def around(root: Path, where: OpenNotebooks) -> NotebookTools:
    return NotebookTools(Workspace(root), where)


def sources(page: MemoryPage, path: str | None = None) -> list[str]:
    return [each["source"] for each in page.books[path]]


def test_a_notebook_is_read_with_ids_kinds_numbers_and_outputs_in_words(tools: NotebookTools):
    assert tools.read_notebook() == (
        "(this notebook, open, 4 cells)\n\n"
        "#0 markdown id=title\n# Sales\n\n"
        "#1 code id=load [1]\ndf = load()\n-> 1\n2\n-> (image: image/png) <Figure>\n\n"
        "#2 code id=agent (the cell that you answer)\n%%agent\nGo on.\n\n"
        "#3 code id=last [3]\ndf['year']\n-> KeyError: 'year'"
    )


def test_cells_go_below_the_agents_own_in_the_order_in_which_they_were_inserted(
    tools: NotebookTools, page: MemoryPage
):
    first = tools.insert_cell("a = 1")
    tools.insert_cell("## b", kind="markdown")
    assert isinstance(first, ToolResult)
    assert first.output == "inserted a code cell as #3 in this notebook; it was not run (id=new1)"
    assert sources(page)[2:] == ["%%agent\nGo on.", "a = 1", "## b", "df['year']"]
    assert page.books[None][4]["kind"] == "markdown"


def test_no_id_of_a_cell_is_shown_to_users(tmp_path: Path):
    ids = "de68d600-0661-4b2c", "new1"
    page = MemoryPage({None: [cell("agent", "%%agent\nGo on."), cell(ids[0], "x = 1")]})
    lab = Lab(tmp_path)
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    calls = [
        call("read_notebook"),
        call("edit_cell", cell=ids[0], source="x = 2"),
        call("insert_cell", source="y = 1", index=2),
        call("run_cell", cell=ids[0]),
    ]
    run = lab.run([{"calls": [each]} for each in calls] + ["Done."], settings=YOLO)
    assert ids[1] in run.results[2].text_for_model
    drawn = transcribe(run)
    titles = [made.gist.title for step in drawn.steps for made in step.calls]
    assert titles == [
        *("reads notebook", "edits the cell below [7]"),
        *("inserts cell 2 below [7]", "runs the cell below [7]"),
    ]
    for text in (run_html(drawn), render(drawn), summarize(drawn)):
        assert not [each for each in ids if each in text]


def test_a_locked_cell_is_refused_before_anybody_is_asked(tmp_path: Path):
    page = MemoryPage(
        {None: [cell("agent", "%%agent\nGo on."), cell("kept", "x = 1", locked=True)]}
    )
    lab = Lab(tmp_path)
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    edit = call("edit_cell", cell="kept", source="x = 2")
    # Nobody answers: a question would wait.
    (done,) = lab.run([{"calls": [edit]}, "Done."], answer=lambda _approval: None).executions
    assert "the cell below [7] is locked" in done.result.error
    assert sources(page)[1] == "x = 1"


def test_an_index_is_a_place_in_the_notebook(tools: NotebookTools, page: MemoryPage):
    tools.insert_cell("first", index=0)
    tools.insert_cell("last", index=5)
    assert (sources(page)[0], sources(page)[-1]) == ("first", "last")


def test_an_index_below_zero_is_no_argument(tools: NotebookTools):
    insert = next(tool for tool in tools.tools() if tool.name == "insert_cell")
    with pytest.raises(InvalidArgumentsError, match="greater than or equal to 0"):
        insert.check_arguments({"source": "x", "index": -1})


def test_without_a_running_cell_a_new_one_goes_to_the_end(tmp_path: Path, page: MemoryPage):
    around(tmp_path, desktop(page, cell_id=None)).insert_cell("x")
    assert sources(page)[-1] == "x"


@pytest.mark.parametrize("which", ["load", 1, "1"])
def test_a_cell_is_named_by_its_id_or_its_number(
    tools: NotebookTools, page: MemoryPage, which: int | str
):
    assert tools.edit_cell(which, "df = None").output.startswith(
        "changed cell [1] of this notebook"
    )
    assert sources(page)[1] == "df = None"


def test_an_id_of_digits_comes_before_a_position(tools: NotebookTools, page: MemoryPage):
    page.books[None][3]["id"] = "0"
    tools.edit_cell("0", "mine")
    assert sources(page)[3] == "mine"


REFUSED: list[tuple[Callable[[NotebookTools], object], str]] = [
    (lambda tools: tools._preview_edit("gone", "x"), "the notebook has no such cell"),
    (lambda tools: tools._preview_edit(4, "x"), "no cell 4: the notebook has 4"),
    (lambda tools: tools._preview_edit("-1", "x"), "cell -1"),
    (lambda tools: tools._preview_edit("load", "df = load()"), "holds exactly that"),
    (lambda tools: tools._preview_edit("load", "\ud800"), "not valid Unicode"),
    (lambda tools: tools._preview_insert("\ud800", "code"), "not valid Unicode"),
    (lambda tools: tools._preview_insert("x", "code", 5), "has 4 cells, so the last place is 4"),
]


@pytest.mark.parametrize(("show", "says"), REFUSED)
def test_what_cannot_be_done_is_refused_before_anybody_is_asked(
    tools: NotebookTools, page: MemoryPage, show: Callable[[NotebookTools], object], says: str
):
    with pytest.raises(InvalidArgumentsError, match=says):
        show(tools)
    assert sources(page) == sources(MemoryPage({None: book()}))


@pytest.mark.parametrize(
    ("which", "title"),
    [
        ("title", "cell 1 from the top"),
        ("load", "cell [1]"),
        ("agent", "cell [7]"),
        ("last", "cell [3]"),
        ("more", "the cell below [3]"),
        ("most", "cell 2 below [3]"),
    ],
)
def test_a_cell_has_one_name_for_users_which_is_what_they_see(
    tools: NotebookTools, page: MemoryPage, which: str, title: str
):
    page.books[None] += [cell("more", "1"), cell("most", "2")]
    place = [each["id"] for each in page.books[None]].index(which)
    shown = tools._preview_edit(which, "x")
    assert (shown.place, f"this notebook, {title}" in shown.text) == (title, True)
    assert tools.edit_cell(place, "y").output == f"changed {title} of this notebook; it was not run"
    if which == "last":
        assert tools._preview_insert("z", "code", place + 1).place == "the cell below [3]"


def test_a_page_gets_the_cell_at_which_a_change_is_drawn(tools: NotebookTools, page: MemoryPage):
    def places(*previews: Preview) -> list[tuple[str, str, str]]:
        return [(c.cell_id, c.side, c.kind) for each in previews if (c := each.cell)]

    assert places(
        tools._preview_edit("title", "x"),
        tools._preview_edit(1, "x"),
        tools._preview_insert("x", "code", 0),
        tools._preview_insert("x", "code", 1),
        tools._preview_insert("x", "raw", 4),
        tools._preview_insert("x", "markdown"),
    ) == [
        ("title", "changed", "markdown"),
        ("load", "changed", "code"),
        ("title", "before", "code"),
        ("title", "after", "code"),
        ("last", "after", "raw"),
        ("agent", "after", "markdown"),
    ]
    tools.insert_cell("a = 1")
    page.books[None].insert(0, page.books[None].pop(2))  # the user has moved the agent's cell
    assert places(tools._preview_insert("x", "code")) == [("new1", "after", "code")]
    page.books[None] = []
    assert tools._preview_insert("x", "code").cell is None


def test_a_page_gets_the_path_of_another_notebook_and_nothing_of_a_closed_one(
    tmp_path: Path, page: MemoryPage
):
    (tmp_path / "nb.ipynb").write_text("")
    page.books["other.ipynb"] = [cell("x", "1")]
    (tmp_path / "other.ipynb").write_text("")
    closed = [{"cell_type": "markdown", "id": "x", "metadata": {}, "source": "1"}]
    text = {"cells": closed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "closed.ipynb").write_text(json.dumps(text))
    tools = around(tmp_path, desktop(page, folder=tmp_path))
    assert tools._preview_edit("x", "2", "closed.ipynb").cell is None
    shown = tools._preview_edit("x", "2", "other.ipynb")
    assert shown.cell
    assert (shown.cell.cell_id, shown.cell.path) == ("x", "other.ipynb")


@pytest.mark.spec("N19")
def test_an_edit_is_shown_as_a_diff(tools: NotebookTools):
    shown = tools._preview_edit("load", "df = load()\ndf.head()")
    assert shown.kind == "diff"
    assert shown.text == (
        "--- a/this notebook, cell [1]\n+++ b/this notebook, cell [1]\n"
        "@@ -1 +1,2 @@\n df = load()\n+df.head()\n"
    )


def mine(page: MemoryPage) -> None:
    page.books[None][1]["source"] = "df = mine()"


@pytest.mark.parametrize("which", ["load", 1])
def test_a_cell_that_changed_since_the_preview_is_left_alone(
    tools: NotebookTools, page: MemoryPage, which: int | str
):
    tools._preview_edit(which, "df = theirs()")
    mine(page)
    with pytest.raises(AgentError, match="changed since preview"):
        tools.edit_cell(which, "df = theirs()")
    assert sources(page)[1] == "df = mine()"


def test_a_number_means_the_cell_that_was_shown_wherever_that_is_by_then(
    tools: NotebookTools, page: MemoryPage
):
    tools._preview_edit(1, "df = theirs()")
    page.books[None].insert(1, cell("twin", "df = load()"))
    tools.edit_cell(1, "df = theirs()")
    assert [each["id"] for each in page.books[None][1:3]] == ["twin", "load"]
    assert sources(page)[1:3] == ["df = load()", "df = theirs()"]
    assert tools.edit_cell("load", "df = mine()").cell == "load"


def test_new_cells_and_changes_of_others_are_asked_about_together(page: MemoryPage, tmp_path: Path):
    lab = Lab(tmp_path)
    lab.view_class = Reviewer
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    calls = [
        call("insert_cell", source="a = 1"),
        call("edit_cell", cell=3, source="df['month']"),  # one more, once that is inserted
        call("insert_cell", source="b = 2"),
        call("edit_cell", cell=1, source="df = other()"),
        call("insert_cell", source="first", index=0),
    ]
    run = lab.run([{"calls": calls}, "Done."])
    assert [each.id for each in lab.watcher.asked[:4]] == lab.watcher.waiting[0]
    assert [each.result.success for each in run.executions] == [True] * 5
    assert sources(page) == [
        *("first", "# Sales", "df = other()", "%%agent\nGo on.", "a = 1", "b = 2", "df['month']")
    ]
    assert [each.result.cell for each in run.executions] == ["new1", "last", "new2", "load", "new3"]


def test_a_call_that_the_user_makes_equal_to_one_that_waits_takes_nothing_from_it(
    page: MemoryPage, tmp_path: Path
):
    class Equal(Watcher):
        asks_together = True

        async def ask(self, approval: Approval) -> None:
            self.asked.append(approval)
            first, *others = [each.id for each in self.asked]
            if len(others) == 1:
                page.books[None].insert(1, cell("twin", "df = mine()"))  # numbers mean others now
                equal = {"cell": 1, "source": "df = theirs()", "path": None}
                edited = replace(YES, arguments=equal)
                self.environment.approvals.decide(others[0], edited)
            elif len(others) == 2:
                self.environment.approvals.decide(others[1], NO)
                self.environment.approvals.decide(first, YES)

    lab = Lab(tmp_path)
    lab.view_class = Equal
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    calls = [
        call("edit_cell", cell=1, source="df = theirs()"),
        call("edit_cell", cell=3, source="df['month']"),
    ]
    run = lab.run([{"calls": calls}, "Done."])
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.DENIED]
    assert sources(page)[1:3] == ["df = mine()", "df = theirs()"]


class Reviewer(Watcher):
    """Approves what waits, the last first, once four questions wait or there is only one more."""

    asks_together = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.waiting: list[list[str]] = []

    async def ask(self, approval: Approval) -> None:
        self.asked.append(approval)
        if len(self.asked) >= 4:
            pending = [each.id for each in self.environment.approvals.pending()]
            self.waiting.append(pending)
            for each in reversed(pending):
                self.environment.approvals.decide(each, YES)


DEEP = {
    "output_type": "error",
    "ename": "KeyError",
    "evalue": "'specie'",
    "traceback": [
        "\x1b[31m---------\x1b[39m",
        "KeyError                                  Traceback (most recent call last)",
        "File ~/env/lib/python3.11/site-packages/pandas/base.py:3812\n-> 3812     get_loc(key)\n",
        "\nThe above exception was the direct cause of the following exception:\n",
        "Cell In[2], line 4\n      1 t\n      2 \n      3 a = 1\n----> 4 load()\n      5 b = 2",
        "File ~/work/t.py:2, in load()\n      1 def load():\n----> 2     return df['specie']\n",
        "File /usr/lib/python3.11/functools.py:65, in cached()\n---> 65 call()\n",
        "KeyError: 'specie'",
    ],
}


def test_a_cell_is_described_with_the_users_own_frames_near_the_fault(
    tools: NotebookTools, page: MemoryPage
):
    page.books[None][3] |= {"outputs": [DEEP], "execution_count": 10}
    assert tools.describe_cell("10") == (
        "The cell that the prompt is about:\n"
        "#3 code id=last [10]\ndf['year']\n"
        "-> KeyError: 'specie'\n"
        "Cell In[2], line 4\n      2 \n      3 a = 1\n----> 4 load()\n      5 b = 2\n"
        "File ~/work/t.py:2, in load()\n      1 def load():\n----> 2     return df['specie']"
    )
    assert "id=title" in tools.describe_cell("#0")
    with pytest.raises(InvalidArgumentsError, match=r"no cell \[4\]"):
        tools.describe_cell("[4]")


def test_of_cells_with_one_number_the_nearest_above_is_meant(
    tools: NotebookTools, page: MemoryPage
):
    page.books[None][3]["execution_count"] = 1  # of the kernel before
    assert "id=load" in tools.describe_cell("[1]")
    page.books[None].insert(1, cell("far", "0", execution_count=1))
    assert "id=load" in tools.describe_cell("1")


def test_a_change_at_the_very_last_moment_is_the_pages_to_refuse(
    tools: NotebookTools, page: MemoryPage
):
    page.before_change = lambda: mine(page)
    with pytest.raises(PageError, match="has changed since it was read"):
        tools.edit_cell("load", "df = theirs()")
    assert sources(page)[1] == "df = mine()"


def test_an_insertion_is_refused_where_something_else_stands_by_then(
    tools: NotebookTools, page: MemoryPage
):
    tools._preview_insert("x", "code", 1)
    del page.books[None][0]
    with pytest.raises(AgentError, match="changed since preview"):
        tools.insert_cell("x", index=1)


def test_a_page_that_is_gone_is_passed_over(tmp_path: Path, page: MemoryPage):
    gone = MemoryPage({None: book()}, clients=("here",), answers=False)
    tools = around(tmp_path, desktop(page, gone, client="here"))
    tools.edit_cell("load", "x")
    assert sources(page)[1] == "x"
    assert gone.asked == ["open"]


def test_the_page_that_asked_for_the_cell_is_asked_before_newer_ones(
    tmp_path: Path, page: MemoryPage
):
    newer = MemoryPage({None: book()}, clients=("other",))
    around(tmp_path, desktop(page, newer, client="tab")).edit_cell("load", "x")
    assert (sources(page)[1], newer.asked) == ("x", [])


def test_another_notebook_that_is_open_is_changed_in_its_page(tmp_path: Path, page: MemoryPage):
    sub = tmp_path / "a" / "b"
    sub.mkdir(parents=True)
    for name in ("nb.ipynb", "../other.ipynb"):
        (sub / name).write_text("on disk")
    page.notebooks = ("srv/a/b/nb.ipynb",)
    page.books["srv/a/other.ipynb"] = [cell("one", "1")]
    root = tmp_path / "srv"
    root.symlink_to(tmp_path)  # the server's own name for the folder
    tools = around(tmp_path, desktop(page, folder=root / "a" / "b"))
    # A copy of this notebook has cells with the same ids.
    assert tools.edit_cell(0, "2", path="a/other.ipynb").cell == ""
    assert sources(page, "srv/a/other.ipynb") == ["2"]
    assert (sub / "../other.ipynb").read_text() == "on disk"
    assert "(other.ipynb, open, 1 cell)" in tools.read_notebook("a/other.ipynb")


def test_the_own_notebook_by_its_path_is_the_open_one(tmp_path: Path, page: MemoryPage):
    (tmp_path / "nb.ipynb").write_text("on disk")
    around(tmp_path, desktop(page, folder=tmp_path)).edit_cell(1, "x", path="nb.ipynb")
    assert sources(page)[1] == "x"
    assert (tmp_path / "nb.ipynb").read_text() == "on disk"


def test_a_notebook_is_not_written_where_a_page_cannot_say_whether_it_is_open(
    tmp_path: Path, page: MemoryPage
):
    (tmp_path / "other.ipynb").write_text("{}")
    page.answers = False
    with pytest.raises(PageError, match="does not answer"):
        around(tmp_path, desktop(page, folder=tmp_path)).edit_cell(0, "x", path="other.ipynb")


def test_nor_where_the_servers_names_cannot_be_told_from_the_workspaces(
    tmp_path: Path, page: MemoryPage
):
    (tmp_path / "other.ipynb").write_text("{}")
    page.notebooks = ("moved/nb.ipynb",)
    page.books["moved/other.ipynb"] = []
    with pytest.raises(PageError, match=r"may be the notebook moved/other\.ipynb that is open"):
        around(tmp_path, desktop(page, folder=tmp_path)).edit_cell(0, "x", path="other.ipynb")


def test_no_path_leads_out_of_the_workspace(tools: NotebookTools):
    with pytest.raises(AgentError, match="escapes the workspace"):
        tools.edit_cell(0, "x", path="../nb.ipynb")


def play(root: Path, where: OpenNotebooks, *calls: Any, answer: Any = YES, **more: Any) -> Run:
    """A run whose model makes these calls."""
    lab = Lab(root)
    lab.environment.toolset.open_notebooks = lambda: where
    return lab.run([{"calls": list(calls)}, "Done."], answer=answer, **more)


def test_an_edit_is_asked_about_and_reading_is_not(tmp_path: Path, page: MemoryPage):
    asked: list[str] = []

    def answer(approval: Approval) -> Answer:
        asked.append(approval.subject.call.name)
        return YES

    where = desktop(page, folder=tmp_path)
    calls = (
        call("read_notebook"),
        call("insert_cell", source="x"),
        call("edit_cell", cell=0, source="y"),
    )
    run = play(tmp_path, where, *calls, answer=answer)
    assert asked == ["insert_cell", "edit_cell"]
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS] * 3
    assert run.executions[0].source == "this notebook"


def test_rules_about_paths_hold_for_the_own_notebook(tmp_path: Path, page: MemoryPage):
    (tmp_path / "nb.ipynb").write_text("{}")
    where = desktop(page, folder=tmp_path, saved=tmp_path / "nb.ipynb")
    rules = [{"effect": "deny", "tool": "edit_cell", "path": "*.ipynb", "reason": "not mine"}]
    settings = {"policy": {"rules": rules}}
    for path in ({}, {"path": "nb.ipynb"}):
        edit = call("edit_cell", cell=0, source="y", **path)
        run = play(tmp_path, where, edit, settings=settings)
        assert run.executions[0].status is ToolStatus.DENIED
    assert sources(page)[0] == "# Sales"


def test_after_others_words_in_a_notebook_code_is_asked_about_again(
    tmp_path: Path, page: MemoryPage
):
    calls = call("read_notebook"), call("run_python", code="1")
    run = play(tmp_path, desktop(page, folder=tmp_path), *calls)
    assert run.executions[1].concern == "this conversation has read this notebook"


@pytest.mark.parametrize(
    "change",
    [
        call("write_file", path="nb.ipynb", content="{}"),
        call("edit_file", path="nb.ipynb", old_string="on", new_string="off"),
        call("delete_file", path="nb.ipynb"),
    ],
    ids=lambda change: change["name"],
)
def test_the_file_of_an_open_notebook_is_left_alone_by_the_tools_for_files(
    tmp_path: Path, page: MemoryPage, change: dict[str, Any]
):
    for name in ("nb.ipynb", "closed.ipynb"):
        (tmp_path / name).write_text("on disk")
    settings = {"workspace": {"allow_delete": True}}
    where = desktop(page, folder=tmp_path)
    (done,) = play(tmp_path, where, change, settings=settings).executions
    assert "nb.ipynb is open, so its file is left alone" in done.result.error
    assert (tmp_path / "nb.ipynb").read_text() == "on disk"
    closed = call(change["name"], **change["arguments"] | {"path": "closed.ipynb"})
    (done,) = play(tmp_path, where, closed, settings=settings).executions
    assert done.status is ToolStatus.SUCCESS


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
    lab.run([{"calls": in_notebook("other.ipynb")}, "Done."], settings=YOLO)
    after = path.read_bytes()
    assert after != before
    undo = find_undo(lab.environment, reversed(lab.session.runs), "")
    assert undo.run(dry_run=True).restored == ("other.ipynb: what it was before",)
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
    assert report.skipped == (
        "cell 1 from the top of this notebook has changed since, so it is left as it is",
    )
    assert [each["source"] for each in page.books[None]] == ["x = 'mine'", "%%agent\nGo on."]
