"""`%%agent --rewind`: an edited cell runs again from before its first prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernels import RUN_JSON, Kernel, Message, Reply, python, script

pytestmark = pytest.mark.kernel

NAME = "__import__('ipyagent').Session.current().name"


def run_cell(kernel: Kernel, cell_id: str, code: str, *, dry: bool = False) -> Reply:
    """Run the cell with that id, as a notebook does."""
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = kernel.client.session.msg("execute_request", content, metadata={"cellId": cell_id})
    kernel.client.shell_channel.send(message)
    return kernel.finish(message["header"]["msg_id"])


class Notebook:
    """A kernel, and the cells that are run in it."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel, self.folder = kernel, folder
        self.runs: dict[str, Message] = {}

    def ask(self, cell_id: str, prompt: str, *replies: Any, options: str = "") -> Message:
        """Return the cell's run; those that are taken back are drawn again beside it."""
        model = script(self.folder, *replies, name=cell_id)
        text = f"%%agent {model} --confirm yolo {options}\n{prompt}"
        reply = run_cell(self.kernel, cell_id, text)
        assert reply.status == "ok", reply
        drawn = [*reply.of("update_display_data"), *reply.of("display_data")]
        runs = [each["data"][RUN_JSON] for each in drawn if RUN_JSON in each["data"]]
        (run,) = (each for each in runs if each["id"] not in self.runs)
        self.runs |= {each["id"]: each for each in runs}
        return run

    def messages(self) -> list[str]:
        """The prompts and answers of the notebook's session."""
        said = "__import__('ipyagent').Session.current().conversation.messages"
        return list(eval(self.kernel.value(f"[m.text for m in {said} if not m.synthetic]")))


@pytest.fixture
def book(fresh: Kernel, tmp_path: Path) -> Notebook:
    return Notebook(fresh, tmp_path)


def write(path: str, content: str) -> dict[str, Any]:
    return {"calls": [{"name": "write_file", "arguments": {"path": path, "content": content}}]}


@pytest.mark.spec("E03", "N24")
def test_an_edited_cell_runs_again_from_before_its_prompt_and_what_came_since_is_taken_back(
    book: Notebook,
) -> None:
    book.kernel.run("n, numbers = 1, [1]")
    book.ask("a", "Greet me.", "Hello.")
    first = book.ask("b", "Set n to 2.", python("n = 2"), write("b.txt", "two"), "It is 2.")
    book.ask("c", "Add to it.", python("n += 1; numbers.append(n); m = 9"), "Added.")
    book.ask("a", "Greet me again.", write("b.txt", "three"), "Hello again.")
    session = book.kernel.value(NAME)
    seen = "print(n, numbers, 'm' in dir(), __import__('os').path.exists('b.txt'))"
    run = book.ask("b", "Say how it is.", python(seen), "As before.", options="--rewind")
    (call,) = [each for step in run["steps"] for each in step["executions"]]
    assert call["result"]["output"].strip() == "1 [1] False False"
    assert book.messages() == ["Greet me.", "Hello.", "Say how it is.", "", "", "As before."]
    rewound, taken_back, *_ = run["notes"]
    assert rewound.startswith(f"Rewound: 3 runs of {session} left out; `%agent session resume ")
    assert "`%agent undo u1` to what they had changed" in rewound
    for name in ("n", "numbers", "m", "b.txt"):
        assert f"{name} is as it was before run {first['id']}" in taken_back
    assert "The user took back" not in run["context"]
    assert len([each for each in book.runs.values() if each.get("taken_back")]) == 3
    assert book.kernel.run("%agent runs").stdout.count("[taken back]") == 3
    book.kernel.run("%agent undo u1")
    assert book.kernel.value("(n, numbers, m)") == "(3, [1, 3], 9)"


@pytest.mark.spec("N24")
def test_a_cell_is_rewound_again_and_again_and_so_are_those_before_it(book: Notebook) -> None:
    for cell in "abc":
        book.ask(cell, f"Make {cell}.", python(f"{cell} = 1"), f"Made {cell}.")
    for number in (2, 3):
        book.ask("b", f"Make b {number}.", python(f"b = {number}"), "Made.", options="--rewind")
        assert book.kernel.value("(a, b, 'c' in dir())") == f"(1, {number}, False)"
        assert book.messages()[-4::3] == [f"Make b {number}.", "Made."]
        assert book.kernel.value(NAME) == f"'default-{number}'"
    book.ask("c", "Make c.", python("c = 1"), "Made c.")
    run = book.ask("a", "Make d.", python("d = 1"), "Made d.", options="--rewind")
    assert "Rewound: 3 runs" in run["notes"][0]
    assert (
        book.kernel.value("[name in globals() for name in 'abcd']") == "[False, False, False, True]"
    )
    assert book.messages()[::3] == ["Make d.", "Made d."]


@pytest.mark.spec("E03")
def test_nothing_runs_while_something_has_changed_since_by_the_users_own_hand(
    book: Notebook, tmp_path: Path
) -> None:
    book.kernel.run("n = 1")
    book.ask("a", "Greet me.", "Hello.")
    book.ask("b", "Set n.", python("n = 2"), write("b.txt", "two"), "Set.")
    book.kernel.run("n = 7")
    (tmp_path / "b.txt").write_text("mine")
    before = book.messages()
    refused = book.ask("b", "Set n to 3.", python("n = 3"), "Set.", options="--rewind")
    error = refused["error"]
    assert refused["status"] == "error"
    assert error.startswith("Nothing ran, and nothing was taken back")
    assert "n has changed since" in error
    assert "b.txt has changed since" in error
    assert book.messages() == before
    assert book.kernel.value("n") == "7"
    command = error.partition("`%")[2].partition("`")[0]
    assert book.kernel.run(f"%{command}").status == "ok"
    book.ask("b", "Set n to 3.", python("n = 3"), "Set.")
    assert book.messages()[:3] == ["Greet me.", "Hello.", "Set n to 3."]
    assert (tmp_path / "b.txt").read_text() == "mine"


@pytest.mark.spec("E03")
def test_what_cannot_be_taken_back_is_named_and_the_rest_is(book: Notebook) -> None:
    book.kernel.run("steps, n = iter([1, 2, 3]), 1")
    book.ask("a", "Take one.", python("next(steps); n = 2"), "Taken.")
    run = book.ask("a", "Look.", python("print(n)"), "Looked.", options="--rewind")
    _, taken_back, stays, *_ = run["notes"]
    assert taken_back.startswith("Taken back: n is as it was")
    assert (
        stays == "Not taken back: steps stays: changes inside a list_iterator cannot be taken back"
    )
    assert run["steps"][0]["executions"][0]["result"]["output"].strip() == "1"


def test_a_cell_that_has_not_run_yet_just_runs(book: Notebook) -> None:
    book.ask("a", "Greet me.", "Hello.")
    run = book.ask("b", "Go on.", "On.", options="--rewind")
    assert run["notes"][0].startswith("Nothing was taken back: this cell has not run")
    assert book.messages() == ["Greet me.", "Hello.", "Go on.", "On."]
    # What refuses a prompt does so before anything is taken back.
    assert "is empty" in book.ask("a", "", "Never.", options="--rewind")["error"]
    for option in ("--dry-run", "--session other"):
        error = book.ask("a", "Greet.", "Never.", options=f"--rewind {option}")["error"]
        assert "--rewind takes back runs of the notebook's own session" in error
    assert len(book.messages()) == 4


@pytest.mark.spec("N24")
def test_a_node_is_edited_and_an_empty_cell_asks_from_there(book: Notebook) -> None:
    book.ask("a", "Plot by region.", "Plotted by region.")
    book.ask("b", "And then?", "Then nothing.")
    node = eval(
        book.kernel.value(
            "[n.id for n in __import__('ipyagent').Session.current().graph"
            " if getattr(n.data, 'is_from_user', False)][0]"
        )
    )
    said = book.kernel.run(f'%agent session edit {node} Don\'t plot by "region".').stdout
    assert "`%%agent` without a prompt asks the model from here" in said
    run = book.ask("c", "", "Not plotted.")
    assert run["prompt"] == 'Don\'t plot by "region".'
    assert book.messages() == ['Don\'t plot by "region".', "Not plotted."]
    reply = book.kernel.run("%agent session diff default")
    (data,) = [each["data"] for each in reply.of("display_data")]
    assert "+  Plot by region." in data["text/plain"]
    assert "-  Don't plot by" in data["text/plain"]
    assert "<pre" in data["text/html"]
    node = eval(book.kernel.value("next(iter(__import__('ipyagent').Session.current().graph)).id"))
    book.kernel.run(f"%agent session edit {node} Be brief.")
    run = book.ask("a", "Plot it by day.", "Plotted.", options="--rewind")
    assert run["notes"][0].startswith("Nothing was taken back: this cell has not run")
    assert "usage: %agent session edit NODE TEXT" in book.kernel.run("%agent session edit x").stdout
