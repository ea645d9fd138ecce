"""run_cell: the model gets the result at once, and the cell its outputs."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Clock, Lab, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentInterrupted
from ipyagent.kernel.pages import OpenNotebooks
from ipyagent.schema import Event, Run, ToolStatus
from open_notebooks import MemoryPage, cell, desktop
from patience import PATIENCE, wait_until

RUN = call("run_cell", cell="work")


@pytest.fixture
def page() -> MemoryPage:
    cells = [
        cell("agent", "%%agent\nGo on."),
        cell("work", "x = 6\nprint('hi')\nx * 7"),
        cell("title", "# T", "markdown"),
        cell("other", "%%time\n%%agent\nGo on."),
    ]
    return MemoryPage({None: cells})


class Book(Lab):
    """A lab in a notebook."""

    def __init__(self, root: Path, where: OpenNotebooks) -> None:
        super().__init__(root)
        self.environment.toolset.open_notebooks = lambda: where

    def play(self, *calls: Any, answer: Any = YES, **more: Any) -> Run:
        return self.run([{"calls": list(calls)}, "Done."], answer=answer, **more)


@pytest.fixture
def book(tmp_path: Path, page: MemoryPage) -> Book:
    return Book(tmp_path, desktop(page, folder=tmp_path))


def test_the_cell_gets_outputs_and_number_and_the_model_the_result(book: Book, page: MemoryPage):
    (done,) = book.play(RUN).executions
    assert (done.status, done.result.output) == (ToolStatus.SUCCESS, "hi\n42")
    assert done.preview.text == "x = 6\nprint('hi')\nx * 7"
    assert page.books[None][1]["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "hi\n"},
        {
            "output_type": "execute_result",
            "execution_count": 7,
            "data": {"text/plain": "42"},
            "metadata": {},
        },
    ]
    assert page.books[None][1]["execution_count"] == 7
    (change,) = done.result.variables
    assert (change.name, change.change, change.type) == ("x", "created", "int")


def test_an_error_is_in_the_cell_as_well(book: Book, page: MemoryPage):
    page.books[None][1]["source"] = "1/0"
    (done,) = book.play(RUN).executions
    assert done.result.error == "ZeroDivisionError: division by zero"
    (output,) = page.books[None][1]["outputs"]
    assert (output["ename"], output["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert output["traceback"][-1] == "ZeroDivisionError: division by zero"


def test_the_cell_gets_what_was_put_out_before_it_was_stopped(book: Book, page: MemoryPage):
    page.books[None][1]["source"] = "print('before')\nrunning = True\nwhile running: pass"

    def stop() -> None:
        while "running" not in book.variables:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    def heard(event: Event) -> None:
        if event.type == "tool_running":
            threading.Thread(target=stop, daemon=True).start()

    with pytest.raises(AgentInterrupted):
        book.play(RUN, heard=heard)
    assert "before" in book.session.runs[-1].results[0].output
    wait_until(lambda: page.books[None][1]["outputs"])
    printed, raised = page.books[None][1]["outputs"]
    assert (printed["text"], raised["ename"]) == ("before\n", "KeyboardInterrupt")
    assert page.books[None][1]["execution_count"] == 7


def test_it_is_asked_about_and_a_denied_cell_does_not_run(book: Book, page: MemoryPage):
    (done,) = book.play(RUN, answer=NO).executions
    assert done.status is ToolStatus.DENIED
    assert "x" not in book.variables
    assert page.books[None][1]["outputs"] == []


def test_after_others_words_it_is_asked_about_again(book: Book):
    reading = book.play(call("read_notebook"), RUN)
    assert reading.executions[1].concern == "this conversation has read this notebook"


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("title", "cell 2 below [7] is a markdown cell; it cannot be run"),
        ("agent", "cell [7] is the one that is running now"),
        (3, "cell 3 below [7] asks an agent; agents are not nested"),
        ("gone", "the notebook has no such cell"),
    ],
)
def test_what_cannot_be_run_fails_before_anybody_is_asked(book: Book, which: int | str, says: str):
    (done,) = book.play(call("run_cell", cell=which)).executions
    assert says in done.result.error
    assert book.watcher.asked == []


def test_a_cell_that_changed_while_it_was_asked_about_does_not_run(book: Book, page: MemoryPage):
    def answer(_approval: Approval) -> Answer:
        page.books[None][1]["source"] = "y = 1"
        return YES

    (done,) = book.play(RUN, answer=answer).executions
    assert "changed since preview" in done.result.error
    assert {"x", "y"}.isdisjoint(book.variables)


def test_outputs_of_a_cell_that_was_changed_meanwhile_stay_out_of_it(book: Book, page: MemoryPage):
    def change() -> None:
        page.books[None][1]["source"] = "mine"

    page.before_change = change
    (done,) = book.play(RUN).executions
    assert done.result.success
    assert done.result.output.endswith(
        "The outputs were not put into the cell below [7]: the cell has changed since it was read."
    )
    assert page.books[None][1]["outputs"] == []


def test_it_is_offered_only_where_a_page_is_and_code_may_run(tmp_path: Path, page: MemoryPage):
    def offered(where: OpenNotebooks, **tools: bool) -> bool:
        book = Book(tmp_path, where)
        book.run(["Hello."], settings={"tools": tools})
        return "run_cell" in {tool.name for tool in book.client.requests[0].tools}

    here = desktop(page, folder=tmp_path)
    assert offered(here)
    assert not offered(desktop(folder=tmp_path))
    assert not offered(here, python=False)
    assert not offered(here, notebook=False)


def test_a_run_that_stops_waiting_does_not_say_that_the_cell_was_cancelled(
    book: Book, page: MemoryPage, clock: Clock
):
    ended = threading.Event()
    book.variables.update(clock=clock, ended=ended)
    page.books[None][1]["source"] = f"clock.advance(601)\nended.wait({PATIENCE})"

    def heard(event: Event) -> None:
        if event.type == "tool_finished":
            ended.set()

    (done,) = book.play(RUN, heard=heard, step_seconds=600).executions
    assert done.status is ToolStatus.UNKNOWN


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c"])
def test_a_cell_with_lines_that_nobody_sees_is_not_run(book: Book, page: MemoryPage, end: str):
    page.books[None][1]["source"] = f"# the mean{end}?x{end}hidden = 1"
    (refused,) = book.play(RUN).executions
    assert refused.status is ToolStatus.FAILED
    assert f"U+{ord(end):04X}" in str(refused.result.error)
    assert book.watcher.asked == []
    assert "hidden" not in book.variables
