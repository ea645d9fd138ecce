"""Notebooks that pages have open, and which file is the kernel's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from ipyagent.errors import PageError
from ipyagent.kernel.pages import OpenNotebooks, current
from kernels import Kernel, Message, Page, Reply, kernel, script
from open_notebooks import MemoryPage, cell

# Notebooks that are open in a page, in a real kernel: the page answers while the cell runs --------

WORK = """\
import asyncio, pandas as pd
from IPython.display import display
await asyncio.sleep(0.01)
%time made = pd.DataFrame({"a": [1, 2]})
!echo from the shell
display({"text/plain": "shown", "text/html": "<b>shown</b>"}, raw=True)
made"""


class Lab(Page):
    """A page with the card of a run, and a link to the kernel that answers for its notebooks."""

    def __init__(self, kernel: Kernel, books: MemoryPage) -> None:
        super().__init__(kernel)
        self.books, self.link = books, f"link-{id(self)}"

    def __call__(self, message: Message) -> None:
        super().__call__(message)
        content = message["content"]
        if message["msg_type"] == "comm_msg" and content["comm_id"] == f"{self.link}.out":
            match content["data"]:
                case {"type": "request", "id": number, "what": what, "details": details} as asked:
                    about = {"path": asked["path"], "client": asked["client"]}
                    self._answer(number, what, {**about, **details})

    def connect(self) -> None:
        client = self.kernel.client.session.session
        about = {"page": self.link, "client": client, "notebooks": list(self.books.notebooks)}
        opened = {"comm_id": self.link, "target_name": "ipyagent", "data": about}
        self.kernel.send("comm_open", opened)
        self.kernel.run("pass", page=self)

    def close(self) -> None:
        self.kernel.send("comm_close", {"comm_id": self.link, "data": {}})
        self.kernel.run("pass")

    def _answer(self, number: int, what: str, details: Message) -> None:
        try:
            reply: Message = {"value": self.books.request(what, **details)}
        except PageError as error:
            reply = {"error": str(error)}
        data = {"type": "reply", "id": number, **reply}
        self.kernel.send("comm_msg", {"comm_id": self.link, "data": data})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "work"


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Kernel]:
    folder.mkdir()
    (folder / "nb.ipynb").write_text("as it was saved")
    with kernel(folder, JPY_SESSION_NAME=str(folder / "nb.ipynb")) as started:
        yield started


@pytest.fixture
def book() -> MemoryPage:
    cells = [
        cell("title", "# Sales", "markdown"),
        cell("agent", "%%agent"),
        cell("work", WORK, execution_count=1),
    ]
    return MemoryPage({None: cells}, notebooks=("work/nb.ipynb",))


@pytest.fixture
def page(shared: Kernel, book: MemoryPage) -> Iterator[Lab]:
    lab = Lab(shared, book)
    lab.connect()
    yield lab
    lab.close()


@pytest.fixture
def ask(shared: Kernel, folder: Path) -> Callable[..., Reply]:
    def run(*calls: tuple[str, Message], page: Page | None = None, options: str = "") -> Reply:
        """A run in the cell "agent" whose model makes these calls, one a step."""
        steps = [{"calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls]
        code = f"%%agent {script(folder, *steps, 'Done.')} {options}\nBegin."
        content = {"code": code, "allow_stdin": page is not None, "silent": False}
        content |= {"store_history": True, "user_expressions": {}, "stop_on_error": True}
        message = shared.client.session.msg(
            "execute_request", content, metadata={"cellId": "agent"}
        )
        shared.client.shell_channel.send(message)
        return shared.finish(message["header"]["msg_id"], page=page)

    return run


@pytest.mark.kernel
def test_cells_are_read_inserted_and_edited_while_the_agents_cell_runs(
    ask: Any, page: Lab, book: MemoryPage, folder: Path
) -> None:
    reply = ask(
        ("read_notebook", {}),
        ("insert_cell", {"source": "first = 1"}),
        ("insert_cell", {"source": "second = 2"}),
        ("edit_cell", {"cell": "title", "source": "# Sales, by region"}),
        page=page,
    )
    assert [result["success"] for result in reply.results] == [True] * 4, reply.results
    assert "#1 code id=agent (the cell that you answer)" in reply.results[0]["output"]
    sources = [each["source"] for each in book.books[None]]
    assert sources == ["# Sales, by region", "%%agent", "first = 1", "second = 2", WORK]
    assert (folder / "nb.ipynb").read_text() == "as it was saved"


@pytest.mark.kernel
def test_a_cell_is_run_and_gets_outputs_that_nbformat_knows(
    ask: Any, page: Lab, book: MemoryPage, shared: Kernel
) -> None:
    reply = ask(("run_cell", {"cell": "work"}), page=page)
    (result,) = reply.results
    assert result["success"], result
    assert "from the shell" in result["output"]
    made = next(each for each in result["variables"] if each["name"] == "made")
    assert (made["change"], made["type"]) == ("created", "DataFrame, 2 rows × 1 columns")
    done = book.books[None][2]
    (started,) = reply.of("execute_input")
    assert done["execution_count"] == started["execution_count"]
    kinds = [output["output_type"] for output in done["outputs"]]
    assert kinds == ["stream", "display_data", "execute_result"]
    assert "from the shell" in done["outputs"][0]["text"]
    assert done["outputs"][2]["execution_count"] == started["execution_count"]
    outputs = nbformat.from_dict(done["outputs"])
    code = nbformat.v4.new_code_cell(outputs=outputs)
    nbformat.validate(nbformat.v4.new_notebook(cells=[code]))
    assert not reply.of("execute_result")
    assert shared.value("len(made)") == "2"


@pytest.mark.kernel
def test_a_figure_is_in_the_notebooks_cell_and_not_in_the_agents_cell(
    ask: Any, page: Lab, book: MemoryPage
) -> None:
    plot = "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot()"
    book.books[None][2]["source"] = plot
    reply = ask(("run_cell", {"cell": 2}), page=page)
    assert len(reply.results[0]["images"]) == 1
    data = [output.get("data", {}) for output in book.books[None][2]["outputs"]]
    assert any("image/png" in each for each in data)
    displays = reply.of("display_data")
    assert not any("image/png" in each["data"] for each in displays)


@pytest.mark.kernel
def test_what_a_cell_prints_is_on_the_card_while_it_runs(
    ask: Any, page: Lab, book: MemoryPage, folder: Path
) -> None:
    book.books[None][2]["source"] = (
        "import pathlib, time\nprint('begun')\nuntil = time.monotonic() + 20\n"
        "while not pathlib.Path('seen').exists() and time.monotonic() < until: time.sleep(0.02)"
    )
    lines: list[str] = []

    def look(message: Message) -> None:
        page(message)
        if live := "".join(each["live"] for each in page.card.calls()):
            lines.append(live)
            (folder / "seen").touch()

    reply = ask(("run_cell", {"cell": 2}), page=look)
    assert set(lines) == {"begun"}
    assert reply.results[0]["output"].startswith("begun")
    assert book.books[None][2]["outputs"][0]["text"] == "begun\n"


@pytest.mark.kernel
def test_an_error_stays_in_the_cell_that_made_it(ask: Any, page: Lab, book: MemoryPage) -> None:
    book.books[None][2]["source"] = "1/0"
    reply = ask(("run_cell", {"cell": 2}), page=page)
    assert (reply.status, reply.results[0]["success"]) == ("ok", False)
    assert book.books[None][2]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert not reply.of("error")


@pytest.mark.kernel
def test_another_notebook_is_a_file_unless_the_page_has_it_open(
    ask: Any, page: Lab, book: MemoryPage, folder: Path
) -> None:
    for name in ("open.ipynb", "closed.ipynb"):
        content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("old")])
        nbformat.write(content, folder / name)
    book.books["work/open.ipynb"] = [cell("c", "old")]
    edits = [
        ("edit_cell", {"cell": 0, "source": "new", "path": f"{name}.ipynb"})
        for name in ("open", "closed", "nb")
    ]
    reply = ask(*edits, page=page)
    assert [result["success"] for result in reply.results] == [True] * 3
    on_disk = [
        json.loads((folder / f"{name}.ipynb").read_text())["cells"][0]["source"]
        for name in ("open", "closed")
    ]
    assert on_disk == [["old"] if isinstance(on_disk[0], list) else "old", ["new"]]
    assert [each[0]["source"] for each in book.books.values()] == ["new", "new"]
    assert (folder / "nb.ipynb").read_text() == "as it was saved"


@pytest.mark.kernel
def test_without_a_page_cells_are_proposed_as_one_next_cell(ask: Any, shared: Kernel) -> None:
    reply = ask(
        ("insert_cell", {"source": "a = 1\n"}),
        ("insert_cell", {"source": "b = 2"}),
        ("insert_cell", {"source": "# T", "kind": "markdown"}),
        ("insert_cell", {"source": "c", "index": 0}),
        page=Page(shared),
    )
    assert reply.content["payload"] == [
        {"source": "set_next_input", "text": "a = 1\n\nb = 2", "replace": False}
    ]
    texts = [result["error"] or result["output"] for result in reply.results]
    assert all(
        "it appears in a new cell below this one when this run is over" in s for s in texts[:2]
    )
    assert all("needs JupyterLab 4 or Notebook 7 with ipyagent's extension" in s for s in texts[2:])


@pytest.mark.kernel
def test_without_a_page_the_kernels_notebook_is_read_from_its_file_and_never_written(
    ask: Any, shared: Kernel, folder: Path
) -> None:
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("saved = 1")])
    nbformat.write(content, folder / "nb.ipynb")
    before = (folder / "nb.ipynb").read_bytes()
    reply = ask(
        ("read_notebook", {}),
        ("edit_cell", {"cell": 0, "source": "x"}),
        ("edit_cell", {"cell": 0, "source": "x", "path": "nb.ipynb"}),
        ("run_cell", {"cell": 0}),
        page=Page(shared),
    )
    read, *refused = reply.results
    assert read["output"].startswith("(nb.ipynb, as it was saved last, 1 cell)")
    assert "saved = 1" in read["output"]
    assert ["ipyagent's extension" in each["error"] for each in refused] == [True, True, False]
    assert "no tool is named 'run_cell'" in refused[2]["error"]
    assert (folder / "nb.ipynb").read_bytes() == before


@pytest.mark.kernel
def test_an_agent_used_from_python_does_not_write_the_open_notebook_either(
    shared: Kernel, folder: Path
) -> None:
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("saved = 1")])
    nbformat.write(content, folder / "nb.ipynb")
    before = (folder / "nb.ipynb").read_bytes()
    call = {"name": "edit_cell", "arguments": {"cell": 0, "source": "x", "path": "nb.ipynb"}}
    script(folder, {"calls": [call]}, "Done.")
    reply = shared.run(
        "import ipyagent\n"
        "agent = ipyagent.Agent('scripted/script.yaml', confirm_mode='yolo', persist=False)\n"
        "print(agent.ask('Go.').results[0].error)"
    )
    assert "ipyagent's extension" in reply.stdout
    assert (folder / "nb.ipynb").read_bytes() == before


# The notebook of a cell: which file is the kernel's own -------------------------------------------


def shell(**variables: Any) -> Any:
    """Return a shell with the members that are read."""
    return SimpleNamespace(user_ns=variables, meta={}, displayhook=SimpleNamespace(prompt_count=4))


def test_the_server_names_the_kernels_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a" / "nb.ipynb"))
    desktop = current(shell(), tmp_path)
    assert (desktop.saved, desktop.folder) == (tmp_path / "a" / "nb.ipynb", tmp_path / "a")
    assert desktop.is_own(tmp_path / "a" / "nb.ipynb")


def test_vs_code_names_the_notebook_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    desktop = current(shell(__vsc_ipynb_file__=str(tmp_path / "nb.ipynb")), tmp_path)
    assert desktop.is_own(tmp_path / "nb.ipynb")


def test_a_notebook_name_without_a_folder_is_not_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", "3f2a")
    desktop = current(shell(), tmp_path)
    assert (desktop.saved, desktop.folder) == (None, tmp_path)


def test_another_name_of_the_own_notebook_is_known(tmp_path: Path):
    (tmp_path / "nb.ipynb").write_text("{}")
    (tmp_path / "link.ipynb").hardlink_to(tmp_path / "nb.ipynb")
    desktop = OpenNotebooks(saved=tmp_path / "nb.ipynb")
    assert desktop.is_own(tmp_path / "link.ipynb")
    assert not desktop.is_own(tmp_path / "other.ipynb")


def test_a_plain_script_has_no_notebook_around_it(tmp_path: Path):
    assert current(None, tmp_path) == OpenNotebooks()
