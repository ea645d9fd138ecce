"""`%%agent --plan` in kernels: decided on in the cell, in another, or after a restart."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kernels import RUN_JSON, Kernel, Message, Page, Reply, kernel, script

pytestmark = pytest.mark.kernel

PLAN = {
    "text": "1. Write it.\n2. Look at it.",
    "calls": [
        {"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}},
        {"name": "read_file", "arguments": {"path": "made.txt"}},
    ],
}
CELL = "%%agent -m scripted/plan.yaml --plan\nMake a file."


class Deciding(Page):
    """A page that answers plans, and knows one card from another."""

    def __init__(self, kernel: Kernel, **decision: Any) -> None:
        super().__init__(kernel)
        self.answer = decision

    def _hear(self, message: Message) -> None:
        known = len(self.moments)
        super()._hear(message)
        for moment in self.moments[known:]:
            if moment["type"] == "plan asked":
                answer, self.answer = self.answer, {"decision": "approve"}
                self.decide(moment["approval_id"], **answer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    script(tmp_path, PLAN, name="plan")
    return tmp_path


def runs(reply: Reply) -> list[Message]:
    """Return the runs in a cell's saved outputs, in order."""
    displays = reply.of("update_display_data") + reply.of("display_data")
    return [each["data"][RUN_JSON] for each in displays if RUN_JSON in each["data"]]


def same_plan(card: Message, run: Message) -> bool:
    """Return whether a run has the steps that were shown."""
    steps = [(step["id"], step["name"], step["arguments"]) for step in card["calls"]]
    calls = [step["call"] for step in run["plan"]]
    return steps == [(call["id"], call["name"], call["arguments"]) for call in calls]


@pytest.mark.spec("P01", "P28", "P30", "P31")
def test_a_plan_is_shown_approved_by_a_click_and_run_as_it_was_shown(
    fresh: Kernel, folder: Path
) -> None:
    page = Deciding(fresh, decision="approve")
    reply = fresh.run(CELL, page=page)
    assert reply.status == "ok", reply.content
    planning, plan = runs(reply)
    assert (planning["stop_reason"], plan["stop_reason"]) == ("planned", "finished")
    assert plan["parent_id"] == planning["id"]
    (proposed,) = [each["plan"] for each in page.moments if each["type"] == "plan asked"]
    assert same_plan(proposed, plan)
    assert fresh.value("__import__('ipyagent').last.output") == "'2 of 2 steps done.'"
    assert (folder / "made.txt").read_text() == "made\n"


@pytest.mark.spec("P03", "P06", "P20", "P44")
def test_without_a_user_a_plan_waits_even_across_a_restart(folder: Path) -> None:
    with kernel(folder) as started:
        reply = started.run(CELL)
        _, waiting = runs(reply)
        assert waiting["status"] == "draft"
        assert "%agent approve" in reply.of("display_data")[-1]["data"]["text/plain"]
        other = started.run("%%agent -m scripted/plan.yaml\nSomething else.")
        assert "a plan waits for you" in runs(other)[0]["error"]
    assert not (folder / "made.txt").exists()
    with kernel(folder) as again:
        for _ in range(2):  # not only at the first look after the restart
            assert waiting["plan_id"] in again.run("%agent status").stdout
        done = again.run(f"%agent approve {waiting['plan_id']}", page=Page(again))
        assert runs(done)[0]["status"] == "done", done
        assert (folder / "made.txt").read_text() == "made\n"
        late = again.run(f"%agent approve {waiting['plan_id']}")
        assert "already approved at" in late.stdout


@pytest.mark.spec("P20")
@pytest.mark.parametrize(("word", "status"), [("Yes", "done"), ("no", "cancelled")])
def test_a_cell_of_one_word_decides_on_the_plan(
    fresh: Kernel, folder: Path, word: str, status: str
) -> None:
    fresh.run(CELL)
    reply = fresh.run(f"%%agent -m scripted/plan.yaml\n{word}")
    assert runs(reply)[0]["status"] == status
    nothing = fresh.run("%agent deny")
    assert "there is no pending plan" in nothing.stdout
    assert (folder / "made.txt").exists() is (status == "done")


@pytest.mark.spec("P28")
def test_scripts_learn_that_a_plan_waits(fresh: Kernel, folder: Path) -> None:
    cell = CELL.replace("--plan", "--plan --json")
    summary = json.loads(fresh.run(cell).stdout)
    assert summary["plan_id"]
    assert f"%agent approve {summary['plan_id']}" in summary["notes"][0]
    fresh.run("%agent deny")
    raised = fresh.run(CELL.replace("--plan", "--plan --raise"))
    assert raised.status == "error"
    assert "The plan waits for you" in raised.content["evalue"]


@pytest.mark.spec("P24", "M14")
def test_a_notebook_shows_the_outcome_of_its_plans(fresh: Kernel, folder: Path) -> None:
    """The same plan is in two cells: waiting in one, and run or denied in the other."""
    cells = [CELL, "%agent approve", CELL, "%agent deny"]
    outputs = [runs(fresh.run(cell)) for cell in cells]
    cards = [
        nbformat.v4.new_output("display_data", {RUN_JSON: each})
        for output in outputs
        for each in output
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=cards)])
    nbformat.write(book, folder / "told.ipynb")
    assert "The plan waits" not in json.dumps(outputs[3])
    loaded = fresh.run("%agent session load told.ipynb")
    assert "messages" in loaded.stdout, loaded
    texts = fresh.value(
        "[m.text for m in __import__('ipyagent').Session.current().conversation.messages]"
    )
    results = fresh.value(
        "[b.text for m in __import__('ipyagent').Session.current().conversation.messages"
        " for r in m.tool_results for b in r.content]"
    )
    assert texts.count("The user approved the plan") == 1
    assert texts.count("I do not want this plan") == 1
    assert "wrote made.txt" in results
