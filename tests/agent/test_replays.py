"""Recorded calls run again and are compared; an approval that is signed is not asked for again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest

from harness import NO, YES, Lab, call, new_session
from ipyagent.agent.answers import AnswerType
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.recordings import compare_named, compare_outputs, is_same_text, list_content
from ipyagent.agent.replay import KEEP, LIVE, NOT_SIGNED
from ipyagent.errors import AgentError, RunFailedError
from ipyagent.llm.client import Client
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import (
    DecidedBy,
    Decision,
    PlanProposed,
    PlanStep,
    Question,
    Run,
    StopReason,
    ToolCall,
    ToolResult,
    ToolStatus,
)
from ipyagent.store.journal import Journal
from ipyagent.tools.base import tool
from ipyagent.ui.static_html import saved_bundle
from open_notebooks import MemoryPage, cell as a_cell, desktop

CELL = {"replay": "auto"}
ADD = call("run_python", code="total = sum(numbers)\nprint(total)")


def no_model() -> Client:
    raise AgentError("no key is set")


class Kernels:
    """Kernels that run the cells of one notebook, one after the other."""

    def __init__(self, root: Path) -> None:
        self.root, self.journal = root, Journal.open(None)
        self.ran: list[str] = []

        @tool(sensitive=True)
        def send(text: str) -> str:
            """Send a text."""
            self.ran.append(text)
            return f"sent {text}"

        self.tools = [send]

    def start(self, root: Path | None = None, **variables: Any) -> Lab:
        lab = Lab(root or self.root, variables)
        lab.session = new_session(self.journal)
        return lab

    def record(self, lab: Lab, *replies: Any, prompt: str = "Go on.", **more: Any) -> Run:
        more = {"answer": YES, "tools": self.tools, "request": CELL} | more
        said = [
            {"calls": [each]} if isinstance(each, dict) and "name" in each else each
            for each in replies
        ]
        run = lab.run(said, prompt, **more)
        assert run.stop_reason is StopReason.FINISHED, run.error
        assert run.replayed is None
        return run

    def replay(self, lab: Lab, prompt: str = "Go on.", **more: Any) -> Run:
        more = {"model": no_model, "tools": self.tools, "request": CELL} | more
        return lab.run((), prompt, **more)


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return Kernels(tmp_path)


def test_the_calls_run_again_and_no_model_is_asked(kernels: Kernels) -> None:
    first = kernels.start(numbers=[1, 2])
    recorded = kernels.record(first, ADD, call("send", text="3"), "It is 3.")
    second = kernels.start(numbers=[1, 2])
    run = kernels.replay(second)
    assert run.stop_reason is StopReason.FINISHED, run.error
    assert run.output == "It is 3."
    assert second.variables["total"] == 3
    assert kernels.ran == ["3", "3"]
    assert second.watcher.asked == []
    assert {each.decided_by for each in run.executions} == {DecidedBy.RECORD}
    assert run.usage.total_tokens == 0
    assert run.replayed is not None
    assert run.replayed.run_id == recorded.id


def test_a_replay_can_be_replayed_and_names_the_first_recording(kernels: Kernels) -> None:
    recorded = kernels.record(kernels.start(), call("send", text="a"), "Done.")
    kernels.replay(kernels.start())
    run = kernels.replay(kernels.start())
    assert kernels.ran == ["a", "a", "a"]
    assert run.replayed is not None
    assert run.replayed.run_id == recorded.id


def test_the_card_the_html_and_the_text_name_the_recording(kernels: Kernels) -> None:
    kernels.record(kernels.start(), "Hello.")
    saved = saved_bundle(kernels.replay(kernels.start()))
    for kind in ("text/html", "text/plain"):
        assert "Replayed · recorded " in str(saved[kind])
        assert "with scripted" in str(saved[kind])


def test_a_cell_that_is_executed_again_asks_the_model(kernels: Kernels) -> None:
    kernels.record(kernels.start(), "One.", request=CELL | {"cell_id": "a"})
    lab = kernels.start()
    again = {"request": CELL | {"cell_id": "a"}}
    assert kernels.replay(lab, **again).replayed
    run = lab.run(["Two."], tools=kernels.tools, **again)
    assert (run.output, run.replayed) == ("Two.", None)


def test_the_same_words_in_another_cell_ask_the_model(kernels: Kernels) -> None:
    kernels.record(kernels.start(), "One.", request=CELL | {"cell_id": "a"})
    other = {"request": CELL | {"cell_id": "b"}}
    assert kernels.start().run(["Two."], tools=kernels.tools, **other).output == "Two."
    assert kernels.replay(kernels.start(), request={"replay": "always", "cell_id": "c"}).replayed


@pytest.mark.parametrize(("before", "now"), [(None, "a"), ("a", None)])
def test_a_front_end_without_ids_of_cells_repeats_by_what_was_asked(
    kernels: Kernels, before: str | None, now: str | None
) -> None:
    kernels.record(kernels.start(), "One.", request=CELL | {"cell_id": before})
    assert kernels.replay(kernels.start(), request=CELL | {"cell_id": now}).replayed


def test_a_new_session_in_the_same_kernel_makes_no_first_execution(kernels: Kernels) -> None:
    lab = kernels.start()
    kernels.record(lab, "One.", request=CELL | {"cell_id": "a"})
    lab.session = new_session(kernels.journal)
    again = lab.run(["Two."], tools=kernels.tools, request=CELL | {"cell_id": "a"})
    assert (again.output, again.replayed) == ("Two.", None)


def test_fresh_asks_the_model_and_replay_fails_without_a_recording(kernels: Kernels) -> None:
    kernels.record(kernels.start(), "One.")
    run = kernels.start().run(["Two."], tools=kernels.tools, request={"replay": "never"})
    assert run.output == "Two."
    with pytest.raises(RunFailedError, match="the prompt differs"):
        kernels.replay(kernels.start(), "Something else.", request={"replay": "always"})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"allowed_tools": ["send"]}, "the options that change what is asked differs"),
        ({"tools": ()}, "the user's own tools differs"),
        ({"request": {"replay": "always", "session_name": "b"}}, "the options .* differs"),
        ({"request": {"replay": "always", "about": "2"}}, "the options .* differs"),
    ],
)
def test_what_differs_from_the_nearest_recording_is_named(
    kernels: Kernels, changed: dict[str, Any], why: str
) -> None:
    kernels.record(kernels.start(), "One.")
    with pytest.raises(RunFailedError, match=why):
        kernels.replay(kernels.start(), **{"request": {"replay": "always"}} | changed)


def test_the_cell_before_is_a_part_of_the_key(kernels: Kernels) -> None:
    first = kernels.start()
    kernels.record(first, "One.", prompt="First.")
    kernels.record(first, "Two.", prompt="Second.")
    with pytest.raises(RunFailedError, match="the agent cell before it differs"):
        kernels.replay(kernels.start(), "Second.", request={"replay": "always"})
    lab = kernels.start()
    assert [kernels.replay(lab, each).output for each in ("First.", "Second.")] == ["One.", "Two."]


def test_a_cell_that_was_executed_again_keeps_its_place(kernels: Kernels) -> None:
    first = kernels.start()
    for cell, prompt, reply in (("a", "First.", "1"), ("b", "Second.", "2"), ("a", "First.", "3")):
        kernels.record(first, reply, prompt=prompt, request=CELL | {"cell_id": cell})
    lab = kernels.start()
    found = [kernels.replay(lab, each).output for each in ("First.", "Second.")]
    assert found == ["3", "2"]


# -- differences


def test_a_difference_is_shown_by_a_line_that_differs_in_more_than_spaces() -> None:
    """A longer number widens its column, and so the head of the table."""
    result = ToolResult(success=True, output="site   kwh\na     10.5\nb      7.0")
    wider = ToolResult(success=True, output="site    kwh\na      10.5\nb     107.0")
    assert compare_outputs(list_content(result), list_content(wider)) == "b 7.0 → b 107.0"


@pytest.mark.parametrize(
    ("now", "said"),
    [("b" * 64, "a.txt has another content"), ("missing", "a.txt: a file → missing")],
)
def test_a_file_that_differs_is_named_without_its_digest(now: str, said: str) -> None:
    assert compare_named({"a.txt": "a" * 64}, {"a.txt": now}) == said


def test_another_result_stops_the_replay_and_is_named(kernels: Kernels) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, call("send", text="3"), "It is 3.")
    run = kernels.replay(kernels.start(numbers=[1, 2, 3]))
    assert run.stop_reason is StopReason.DIFFERS
    assert str(run.outcome) == "partial"
    assert "step 1, run_python gave another result: 3 → 6" in (run.error or "")
    assert kernels.ran == ["3"]


def test_replays_that_differ_do_not_hide_their_recording(kernels: Kernels) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, "It is 3.")
    for _ in range(6):
        run = kernels.replay(kernels.start(numbers=[4]))
        assert run.stop_reason is StopReason.DIFFERS
    assert kernels.replay(kernels.start(numbers=[1, 2])).stop_reason is StopReason.FINISHED


def test_a_variable_with_another_content_is_a_difference(kernels: Kernels) -> None:
    make = call("run_python", code="total = [each * 2 for each in numbers]")
    kernels.record(kernels.start(numbers=[1, 2]), make, "Done.")
    run = kernels.replay(kernels.start(numbers=[1, 3]))
    assert "total has another content" in (run.error or "")
    assert kernels.replay(kernels.start(numbers=[1, 2])).stop_reason is StopReason.FINISHED


LISTINGS = [call("list_files"), call("search_files", query="tea"), call("list_variables")]


def test_what_a_listing_has_gained_since_is_noted(kernels: Kernels) -> None:
    (kernels.root / "a.txt").write_text("tea")
    read = call("read_file", path="a.txt")
    kernels.record(kernels.start(a=1), *LISTINGS, read, "It says tea.")
    (kernels.root / "b.txt").write_text("more tea")
    run = kernels.replay(kernels.start(a=1, b=2))
    assert run.stop_reason is StopReason.FINISHED, run.error
    noted = "\n".join(run.notes)
    for each in ("b.txt  8 B", "b.txt:1: more tea", "- b: int = 2"):
        assert f"New since the recording: {each}" in noted


def test_files_that_a_run_writes_after_its_listing_are_no_difference(kernels: Kernels) -> None:
    write = call("write_file", path="a.txt", content="text")
    for each in LISTINGS:
        kernels.record(kernels.start(), each, write, "Written.", prompt=each["name"])
        run = kernels.replay(kernels.start(), each["name"])
        assert run.stop_reason is StopReason.FINISHED, run.error
        (kernels.root / "a.txt").unlink()


def test_a_listing_that_lost_an_entry_or_that_the_answer_follows_from_is_compared(
    kernels: Kernels,
) -> None:
    (kernels.root / "a.txt").write_text("tea")
    kernels.record(kernels.start(), call("list_files"), "There is one file.", prompt="Count.")
    look = call("list_variables")
    kernels.record(kernels.start(), call("list_files"), look, "There is a.txt.", prompt="Look.")
    (kernels.root / "b.txt").write_text("more tea")
    assert "(nothing) → b.txt" in (kernels.replay(kernels.start(), "Count.").error or "")
    (kernels.root / "a.txt").unlink()
    assert "a.txt" in (kernels.replay(kernels.start(), "Look.").error or "")


@pytest.mark.usefixtures("needs_isolation")
def test_a_variable_that_is_as_the_call_leaves_it_is_no_difference(kernels: Kernels) -> None:
    lab = kernels.start()
    make = call("run_python", code="rows = [1, 2]\ntotal = sum(rows)\nprint(total)")
    run = kernels.record(lab, make, "It is 3.", look_freely=True)
    assert {each.name for each in run.variables} == {"rows", "total"}
    for _ in range(2):
        again = kernels.replay(lab, answer=YES, look_freely=True, request={"recording": run})
        assert again.stop_reason is StopReason.FINISHED, again.error


def test_a_difference_is_kept_to_and_noted(kernels: Kernels) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, "It is 3.")
    run = kernels.replay(kernels.start(numbers=[4]), on_difference="keep")
    assert run.output == "It is 3."
    assert "3 → 4" in run.notes[-1]


def test_after_a_difference_no_signature_counts(kernels: Kernels) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, call("send", text="3"), "It is 3.")
    lab = kernels.start(numbers=[4])
    run = kernels.replay(lab, on_difference="keep", answer=NO)
    assert kernels.ran == ["3"]
    assert run.executions[1].status is ToolStatus.DENIED


def test_after_a_difference_the_model_goes_on(kernels: Kernels) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, "It is 3.")
    model = Scripted(["It is 4."], model="live")
    run = kernels.replay(kernels.start(numbers=[4]), on_difference="live", model=lambda: model)
    assert (run.output, len(model.requests)) == ("It is 4.", 1)
    assert "live" in run.notes[-1]


@pytest.mark.parametrize(("choice", "output"), [(LIVE, "It is 4."), (KEEP, "It is 3.")])
def test_the_user_is_asked_how_a_replay_goes_on(kernels: Kernels, choice: str, output: str) -> None:
    kernels.record(kernels.start(numbers=[1, 2]), ADD, "It is 3.")

    def answer(approval: Any) -> Answer:
        assert isinstance(approval.subject.question, Question)
        return Answer(Decision.APPROVED, DecidedBy.BUTTON, text=choice)

    run = kernels.replay(
        kernels.start(numbers=[4]),
        model=lambda: Scripted(["It is 4."]),
        request=CELL | {"is_attended": True},
        answer=answer,
    )
    assert run.output == output


# -- calls that are not repeated


def start_beside(page: MemoryPage, kernels: Kernels, root: Path) -> Lab:
    lab = kernels.start()
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=root)
    return lab


@pytest.mark.parametrize("is_forged", [False, True])
def test_a_cell_with_other_code_than_was_approved_is_asked_about(
    kernels: Kernels, tmp_path: Path, is_forged: bool
) -> None:
    page = MemoryPage({None: [a_cell("agent", "%%agent"), a_cell("p", "p = 1")]})
    first, second = start_beside(page, kernels, tmp_path), start_beside(page, kernels, tmp_path)
    run = kernels.record(first, call("run_cell", cell="p"), "Done.")
    repeat = partial(kernels.replay, request=CELL | {"recording": run}, answer=NO)
    assert (repeat(second).stop_reason, second.watcher.asked) == (StopReason.FINISHED, [])

    page.books[None][1]["source"] = "p = 1; other = 2"
    if is_forged:
        (preview,) = [each.preview for each in run.executions]
        object.__setattr__(preview, "text", "p = 1; other = 2")
    third = start_beside(page, kernels, tmp_path)
    repeat(third)
    assert len(third.watcher.asked) == 1
    assert "other" not in third.variables


@pytest.mark.parametrize("changed", ["", "p = 1; other = 2"])
def test_a_cell_is_approved_as_the_plan_of_an_unsigned_recording_shows_it(
    kernels: Kernels, tmp_path: Path, changed: str
) -> None:
    page = MemoryPage({None: [a_cell("agent", "%%agent"), a_cell("p", "p = 1")]})
    run = kernels.record(start_beside(page, kernels, tmp_path), call("run_cell", cell="p"), "Done.")
    data, shown = run.to_dict(), list[str]()
    approved(data, step=0)["signature"] = ""

    def answer(approval: Approval) -> Answer:
        if isinstance(approval.subject, Run):
            shown.append(approval.subject.plan[0].code)
            page.books[None][1]["source"] = changed or shown[-1]
            return YES
        return NO

    page.books[None][1]["source"] = "p = 1 # again"
    lab, unsigned = start_beside(page, kernels, tmp_path), {"recording": Run.from_dict(data)}
    again = kernels.replay(lab, request=unsigned, answer=answer)
    ends = StopReason.DIFFERS if changed else StopReason.FINISHED
    assert (shown, again.stop_reason) == (["p = 1 # again"], ends)
    assert "other" not in lab.variables


def test_changes_of_cells_are_not_made_again_in_the_notebook_that_has_them(
    kernels: Kernels, tmp_path: Path
) -> None:
    page = MemoryPage({None: [a_cell(each, each) for each in ("agent", "first", "second")]})
    edit = call("edit_cell", cell=1, source="changed")
    first, second = start_beside(page, kernels, tmp_path), start_beside(page, kernels, tmp_path)
    kernels.record(first, edit, call("insert_cell", source="new", index=1), "Done.")
    run = kernels.replay(second)
    assert run.stop_reason is StopReason.FINISHED, run.error
    assert {each.reason for each in run.executions} == {"recorded, not repeated"}
    assert [each["source"] for each in page.books[None]] == ["agent", "new", "changed", "second"]


def test_denied_calls_and_failures_that_changed_nothing_are_not_repeated(
    kernels: Kernels,
) -> None:
    fail = call("run_python", code="missing")
    recorded = kernels.record(
        kernels.start(), call("send", text="a"), fail, "Nothing was sent.", answer=NO
    )
    run = kernels.replay(kernels.start(missing=1))
    assert run.stop_reason is StopReason.FINISHED, run.error
    assert [each.status for each in run.executions] == [each.status for each in recorded.executions]
    assert kernels.ran == []


def test_a_failure_that_changed_something_is_repeated(kernels: Kernels) -> None:
    half = call("run_python", code="made = 1\nraise ValueError('half')")
    kernels.record(kernels.start(), half, "Half of it is done.")
    lab = kernels.start()
    assert kernels.replay(lab).stop_reason is StopReason.FINISHED
    assert lab.variables["made"] == 1


def test_a_question_keeps_its_answer(kernels: Kernels) -> None:
    yes = Answer(Decision.APPROVED, DecidedBy.BUTTON, text="blue")
    ask = call("ask_user", question="Which color?")
    kernels.record(kernels.start(), ask, "Blue it is.", answer=yes)
    run = kernels.replay(kernels.start())
    assert run.executions[0].result is not None
    assert run.executions[0].result.output == "blue"


def test_a_file_that_is_as_the_call_leaves_it_is_not_written_again(kernels: Kernels) -> None:
    write = call("write_file", path="a.txt", content="text\n")
    kernels.record(kernels.start(), write, "Written.")
    path = kernels.root / "a.txt"
    before = path.stat().st_mtime_ns
    run = kernels.replay(kernels.start())
    assert "nothing to do: a.txt" in (run.executions[0].reason or "")
    assert path.stat().st_mtime_ns == before
    path.unlink()
    assert kernels.replay(kernels.start()).stop_reason is StopReason.FINISHED
    assert path.read_text() == "text\n"


def insert(source: str) -> dict[str, Any]:
    return call("insert_cell", source=source, path="a.ipynb")


def edit(old: str, new: str) -> dict[str, Any]:
    return call("edit_file", path="a.txt", old_string=old, new_string=new)


APPEND = call("write_file", path="a.txt", content="d", mode="append")
EDITS: dict[str, list[dict[str, Any]]] = {
    "edits": [edit("a", "b"), edit("b", "c")],
    "appended": [APPEND, APPEND],
    "read before": [call("read_file", path="a.txt"), edit("a", "b")],
    "cells": [insert("one"), insert("two"), call("edit_cell", cell=1, source="3", path="a.ipynb")],
}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_edits_of_one_file_are_repeated_from_its_start_and_not_at_their_end(
    kernels: Kernels, edits: list[dict[str, Any]], at_once: bool
) -> None:
    path = kernels.root / edits[0]["arguments"]["path"]
    cells = [nbformat.v4.new_code_cell("0", id="a")]
    before = nbformat.writes(nbformat.v4.new_notebook(cells=cells))
    path.write_text(before if path.suffix == ".ipynb" else "a\n")
    start = path.read_bytes()
    kernels.record(kernels.start(), *([{"calls": edits}] if at_once else edits), "Done.")
    end = path.read_bytes()
    for content in (end, start):
        path.write_bytes(content)
        lab = kernels.start()
        run = kernels.replay(lab)
        assert (run.stop_reason, run.error) == (StopReason.FINISHED, None)
        assert (path.read_bytes(), lab.watcher.asked) == (end, [])


WRITE = call("write_file", path="a.txt", content="b\n")


@pytest.mark.parametrize("change", [edit("a", "b"), WRITE], ids=["edited", "written"])
def test_a_change_of_a_file_that_is_not_what_it_was_is_asked_about(
    kernels: Kernels, change: dict[str, Any]
) -> None:
    path = kernels.root / "a.txt"
    path.write_text("a\n")
    kernels.record(kernels.start(), change, "Done.")
    path.write_text("a\nmine\n")
    run = kernels.replay(kernels.start())
    assert "denied: a.txt is not what it was" in (run.error or "")
    assert path.read_text() == "a\nmine\n"


@pytest.mark.parametrize("content", [None, "a\n", "b\n", "b\nc\n"])
def test_a_file_is_written_again_over_what_this_run_found_or_left(
    kernels: Kernels, content: str | None
) -> None:
    path = kernels.root / "a.txt"
    path.write_text("a\n")
    add = call("write_file", path="a.txt", content="c\n", mode="append")
    kernels.record(kernels.start(), WRITE, add, "Done.")
    path.unlink() if content is None else path.write_text(content)
    lab = kernels.start()
    run = kernels.replay(lab)
    assert (run.error, lab.watcher.asked, path.read_text()) == (None, [], "b\nc\n")


@pytest.mark.parametrize("name", ["mcp_shop_order", "api_shop_order", "api_request", "call_tool"])
def test_calls_of_services_are_repeated_only_if_the_settings_say_so(
    kernels: Kernels, name: str
) -> None:
    @tool(name=name, sensitive=True)
    def order(item: str) -> str:
        """Order an item."""
        kernels.ran.append(item)
        return "ordered"

    kernels.tools = [order]
    kernels.record(kernels.start(), call(name, item="tea"), "Ordered.")
    run = kernels.replay(kernels.start())
    assert (kernels.ran, run.executions[0].reason) == (["tea"], "recorded, not repeated")
    kernels.replay(kernels.start(), settings={"replay": {"repeat_services": True}})
    assert kernels.ran == ["tea", "tea"]


# -- approvals


def forge(kernels: Kernels, change: Callable[[dict[str, Any]], object]) -> Run:
    """Record a call of `send`, and return the run as somebody else changed its notebook."""
    run = kernels.record(kernels.start(), call("list_files"), call("send", text="a"), "Done.")
    kernels.ran.clear()
    data: dict[str, Any] = json.loads(json.dumps(run.to_dict()))
    change(data)
    return Run.from_dict(data)


def approved(data: dict[str, Any], step: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = data["steps"][step]["executions"][0]
    return found


def look_changed(data: dict[str, Any]) -> None:
    data["steps"][0]["executions"][0]["result"]["output"] = "other.txt"


def add_copy(data: dict[str, Any], **call: Any) -> None:
    copy = json.loads(json.dumps(approved(data)))
    copy["call"] |= call
    data["steps"][1]["executions"].append(copy)


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "the signature is missing": lambda data: approved(data).pop("signature"),
    "a byte of it changed": lambda data: approved(data).update(signature="0" * 64),
    "a signature of no digits": lambda data: approved(data).update(signature="é"),
    "the arguments changed": lambda data: approved(data)["call"].update(arguments={"text": "b"}),
    "another tool": lambda data: approved(data)["call"].update(name="delete_file"),
    "another run": lambda data: data.update(id="0123456789ab"),
    "another session": lambda data: data.update(session_id="00000000-0000-4000-8000-000000000000"),
    "another prompt": lambda data: data["asked"].update(prompt="0" * 64),
    "another place": lambda data: data["steps"].pop(0),
    "another result before it": look_changed,
    "called a look": lambda data: approved(data).update(decision="auto", decided_by="rehearsal"),
    "a second call with its id": lambda data: add_copy(data, arguments={"text": "b"}),
    "the same call twice": add_copy,
    "the same call again": lambda data: add_copy(data, id="b"),
    "a question before it": lambda data: data["steps"][0]["executions"][0].update(
        question={"text": "Which?"}
    ),
    "a lasting effect before it": lambda data: data["steps"][0]["executions"][0]["result"].update(
        lasting=[{"name": "a", "change": "changed"}]
    ),
    "called allowed": lambda data: approved(data).update(decision="auto", decided_by="policy"),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_changed_recording_runs_no_call_where_nobody_can_be_asked(
    kernels: Kernels, change: Callable[[dict[str, Any]], object]
) -> None:
    run = kernels.replay(kernels.start(), request={"recording": forge(kernels, change)})
    assert kernels.ran == []
    assert run.stop_reason in (StopReason.UNATTENDED, StopReason.ERROR)
    assert not [each for each in run.executions if each.started_at]


def test_a_copy_of_an_approved_call_that_claims_to_look_is_asked_about(kernels: Kernels) -> None:
    add = call("run_python", code="numbers.append(1)")
    data = kernels.record(kernels.start(numbers=[]), add, "Done.").to_dict()
    (executions,) = [each["executions"] for each in data["steps"] if each["executions"]]
    copy = json.loads(json.dumps(executions[0]))
    copy["call"]["id"] = "b"
    executions.append(copy | {"decision": "auto", "decided_by": "rehearsal", "signature": ""})
    lab = kernels.start(numbers=[])
    run = kernels.replay(lab, look_freely=True, request={"recording": Run.from_dict(data)})
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.DENIED]
    assert lab.variables["numbers"] == [1]


def test_a_denied_call_that_claims_an_approval_is_not_signed(kernels: Kernels) -> None:
    claim = {"status": "denied", "signature": ""}
    recording = forge(kernels, lambda data: approved(data).update(claim))
    run = kernels.replay(kernels.start(), request={"recording": recording})
    assert run.executions[1].status is ToolStatus.DENIED
    assert run.executions[1].signature == ""


def test_the_same_recording_unchanged_runs(kernels: Kernels) -> None:
    recording = forge(kernels, lambda data: None)
    kernels.replay(kernels.start(), request={"recording": recording})
    assert kernels.ran == ["a"]


def test_an_approval_in_another_folder_does_not_count(
    kernels: Kernels, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = forge(kernels, lambda data: None)
    lab = kernels.start(tmp_path_factory.mktemp("elsewhere"))
    kernels.replay(lab, request={"recording": recording})
    assert kernels.ran == []


def test_an_approval_of_another_user_does_not_count(
    kernels: Kernels, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = forge(kernels, lambda data: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("other")))
    kernels.replay(kernels.start(), request={"recording": recording})
    assert kernels.ran == []


def test_an_unsigned_recording_is_asked_about_once_as_a_plan(kernels: Kernels) -> None:
    recording = forge(kernels, FORGED["the signature is missing"])
    lab = kernels.start()
    run = kernels.replay(lab, answer=YES, request={"recording": recording})
    assert kernels.ran == ["a"]
    assert run.stop_reason is StopReason.FINISHED, run.error
    (asked,) = lab.watcher.asked
    assert isinstance(asked.subject, Run)
    assert [each.call.name for each in asked.subject.plan] == ["list_files", "send"]
    assert asked.subject.notes == (NOT_SIGNED,)
    assert [each.decided_by for each in run.executions] == [DecidedBy.BUTTON] * 2
    assert [each for each in lab.watcher.events if isinstance(each, PlanProposed)]


def test_a_denied_recording_runs_nothing(kernels: Kernels) -> None:
    recording = forge(kernels, FORGED["the signature is missing"])
    run = kernels.replay(kernels.start(), answer=NO, request={"recording": recording})
    assert (kernels.ran, run.stop_reason) == ([], StopReason.DENIED)


@pytest.mark.parametrize(
    "allowing",
    [
        {"confirm_mode": "yolo"},
        {"settings": {"policy": {"rules": [{"tool": "send", "effect": "allow"}]}}},
    ],
)
def test_yolo_and_rules_let_an_unsigned_recording_run(
    kernels: Kernels, allowing: dict[str, Any]
) -> None:
    recording = forge(kernels, FORGED["the signature is missing"])
    kernels.replay(kernels.start(), request={"recording": recording}, **allowing)
    assert kernels.ran == ["a"]


def test_a_rule_that_denies_holds_in_a_replay(kernels: Kernels) -> None:
    recording = forge(kernels, lambda data: None)
    rules = {"policy": {"rules": [{"tool": "send", "effect": "deny"}]}}
    kernels.replay(kernels.start(), request={"recording": recording}, settings=rules)
    assert kernels.ran == []


def test_a_hidden_argument_never_runs(kernels: Kernels) -> None:
    def mask(data: dict[str, Any]) -> None:
        approved(data)["call"]["arguments"] = {"text": "••••••"}

    recording = forge(kernels, mask)
    run = kernels.replay(kernels.start(), request={"recording": recording}, confirm_mode="yolo")
    assert (kernels.ran, run.stop_reason) == ([], StopReason.ERROR)
    assert "a secret in the arguments of send was not saved" in (run.error or "")


def test_a_recording_that_is_changed_on_its_card_runs_nothing(kernels: Kernels) -> None:
    recording = forge(kernels, FORGED["the signature is missing"])
    other = PlanStep(call=ToolCall(id="x", name="send", arguments={"text": "b"}))
    answer = Answer(Decision.APPROVED, DecidedBy.BUTTON, plan=(other,))
    run = kernels.replay(kernels.start(), answer=answer, request={"recording": recording})
    assert (kernels.ran, run.stop_reason) == ([], StopReason.DENIED)


# -- plans, notebooks, the journal


def test_a_plan_is_replayed_as_the_calls_that_it_ran(kernels: Kernels) -> None:
    planned = kernels.record(kernels.start(), call("send", text="a"), plan=True)
    assert planned.plan
    run = kernels.replay(kernels.start(), plan=True)
    assert kernels.ran == ["a", "a"]
    assert run.output == planned.output


def test_an_answer_of_a_type_is_read_from_the_recording(kernels: Kernels) -> None:
    request = CELL | {"answer": AnswerType(int)}
    kernels.record(kernels.start(), '{"value": 3}', request=request)
    assert kernels.replay(kernels.start(), request=request).value == 3


def save(kernels: Kernels, run: Run) -> None:
    """Save the run in a notebook, and forget it otherwise."""
    output = nbformat.v4.new_output("display_data", saved_bundle(run))
    cells = [nbformat.v4.new_code_cell("%%agent", outputs=[output])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), kernels.root / "a.ipynb")
    kernels.journal = Journal.open(None)


def test_an_approval_that_was_saved_in_a_notebook_counts(kernels: Kernels) -> None:
    run = kernels.record(kernels.start(numbers=[1]), ADD, call("send", text="a"), "Done.")
    save(kernels, run)
    lab = kernels.start(numbers=[1])
    assert kernels.replay(lab).stop_reason is StopReason.FINISHED
    assert kernels.ran == ["a", "a"]
    assert lab.session.conversation.sources == {"the runs that are saved in a notebook"}


def test_a_saved_run_belongs_to_the_cell_that_holds_it(kernels: Kernels) -> None:
    save(kernels, kernels.record(kernels.start(), "One.", request=CELL | {"cell_id": "a"}))
    (held,) = nbformat.read(kernels.root / "a.ipynb", as_version=4).cells
    copied = {"request": CELL | {"cell_id": held.id}}
    assert kernels.replay(kernels.start(), **copied).replayed
    other = {"request": CELL | {"cell_id": "a"}}
    assert kernels.start().run(["Two."], tools=kernels.tools, **other).output == "Two."


def test_a_notebook_is_read_once_until_it_changes(kernels: Kernels) -> None:
    save(kernels, kernels.record(kernels.start(), "Done."))
    lab = kernels.start()
    for prompt in ("Go on.", "Another.", "A third."):
        lab.run(["Hello."], prompt, tools=kernels.tools, request=CELL)
    assert lab.environment.recordings.times_read == 1
    (kernels.root / "a.ipynb").write_text("{}")
    lab.run(["Hello."], "A fourth.", tools=kernels.tools, request=CELL)
    assert lab.environment.recordings.times_read == 2


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("<Axes at 0x7f3a1c>", "<Axes at 0x7f9b00>", True),
        ("took 1.2 s", "took 340 ms", True),
        ("Time:   22:33:40   AIC: 2", "Time:   22:47:18   AIC: 2", True),
        ("Date:  Mon, 30 Nov 2026", "Date:  Tue, 01 Dec 2026", True),
        ("Time: 22:33", "Time: 22:47", False),
        ("memory usage: 1.2+ MB", "memory usage: 1.4 MB", True),
        ("/tmp/tmpab12/x.csv", "/tmp/tmpzz99/x.csv", True),
        ("mean 0.30000000000000004", "mean 0.3", True),
        ("{'a', \"b's\", 1} x", "{1, \"b's\", 'a'} x", True),
        ("{'a', 'b'}", "{'a', 'c'}", False),
        ("{'k': {('a', 1), ('b', 2)}}", "{'k': {('b', 2), ('a', 1)}}", True),
        ("{('a', 1), ('b', 2)}", "{('a', 2), ('b', 1)}", False),
        ("['a', 'b']", "['b', 'a']", False),
        ("run 0123456789ab, call call_x", "run ba9876543210, call ba9876543210_1_1", True),
        ("mean 0.3001", "mean 0.3", False),
        ("rows 10000000001", "rows 10000000000", False),
        ("sum 1234567890.12", "sum 1234567890.62", False),
        ("sum 1234567890.1200001", "sum 1234567890.12", True),
        ("f 0.123456789012", "f 0.123456789013", True),
        ("#12e4ab", "#12e5ab", False),
        ("a 1", "b 1", False),
    ],
)
def test_texts_are_the_same_but_for_what_differs_each_time(old: str, new: str, same: bool) -> None:
    assert is_same_text(old, new) is same
