"""From the second prompt on, a model is sent what differs from the context before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import YES, Lab, call
from ipyagent.agent.prompts import CHANGES, NO_CHANGES
from ipyagent.agent.session.conversation import initial_conversation
from ipyagent.agent.session.session import Session
from ipyagent.errors import AgentError
from ipyagent.explorer import ExplorerClient
from ipyagent.schema import Message, Run
from ipyagent.ui.transcribe import transcribe
from open_notebooks import MemoryPage, cell, desktop


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    for number in range(20):
        (tmp_path / f"notes{number}.txt").write_text("hello")
    return Lab(tmp_path, {f"x{number}": number for number in range(30)})


def context_of(lab: Lab, prompt: str = "Go on.", **settings: Any) -> str:
    """The context that a prompt was sent with."""
    return lab.run(["Done."], prompt, **settings).context


def lines_of(context: str) -> list[str]:
    return context.splitlines()[1:-1]


def test_the_first_context_is_whole_and_the_next_has_what_is_new_changed_or_gone(
    lab: Lab, tmp_path: Path
) -> None:
    first = context_of(lab)
    assert "- x7: int = 7\n" in first
    assert "- notes7.txt  5 B\n" in first
    lab.variables |= {"x3": "three", "new": [1]}
    del lab.variables["x4"], lab.variables["x5"]
    (tmp_path / "notes6.txt").write_text("hello!")
    (tmp_path / "notes8.txt").unlink()
    assert lines_of(context_of(lab)) == [
        CHANGES,
        "Gone, or no longer listed: x5, x4, notes8.txt",
        "Variables:",
        "- new: list, 1 item (int) = [1]",
        "- x3: str = 'three'",
        "Files:",
        "- notes6.txt  6 B",
    ]
    assert lines_of(context_of(lab)) == [NO_CHANGES]
    assert "- x9: int = 9" in context_of(Lab(tmp_path, lab.variables)), "another conversation"


def test_a_context_that_is_not_longer_than_its_changes_is_sent_whole(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert context_of(lab) == ""
    lab.variables["x"] = 1
    assert lines_of(context_of(lab)) == lines_of(context_of(lab)) == ["Variables:", "- x: int = 1"]
    lab.variables.clear()
    assert lines_of(context_of(lab)) == [CHANGES, "Gone, or no longer listed: x"]
    assert context_of(lab) == ""


def test_names_that_a_listing_has_no_room_for_are_not_called_gone(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {f"v{number}": number for number in range(100)})
    context_of(lab)
    lab.variables["new"] = 1
    assert lines_of(context_of(lab)) == [
        CHANGES,
        "Gone, or no longer listed: v0",
        "Variables:",
        "- new: int = 1",
        "… and 1 more variables",
    ]
    del lab.variables["new"]
    context = context_of(lab)
    assert "Gone, or no longer listed: new, further variables\n" in context
    assert "- v0: int = 0" in context


def test_what_was_sent_is_what_is_recorded_and_shown_and_no_message_changes(lab: Lab) -> None:
    sent: list[list[Message]] = []
    runs: list[Run] = []
    for number in range(4):
        lab.variables[f"y{number}"] = number
        runs.append(lab.run([{"calls": [call("list_files")]}, "Done."], f"Prompt {number}."))
        assert lab.client is not None
        sent += [list(request.messages) for request in lab.client.requests]
        assert sent[-2][-1].text == runs[-1].context
        (fold,) = transcribe(runs[-1]).footer.folds
        assert (fold.title, fold.text) == ("Sent with your prompt", runs[-1].context)
    for before, after in pairwise(sent):
        assert after[: len(before)] == before


def test_a_long_session_is_sent_each_line_once(lab: Lab) -> None:
    """A context of each of 40 prompts is whole: what it was before, some 60 kB."""
    contexts, whole = 0, 0
    for number in range(40):
        lab.variables[f"result{number}"] = number / 3
        contexts += len(context_of(lab, f"Prompt {number}."))
        whole += len(lab.environment.prompt_context("")[0].write())
    assert contexts < whole / 5
    text = "".join(each.text for each in lab.session.conversation.messages if each.synthetic)
    assert text.count("- x7: int = 7\n") == text.count("- result20: float") == 1


def test_a_summary_has_the_whole_context_again(lab: Lab) -> None:
    for number in range(6):
        lab.variables[f"y{number}"] = number
        lab.run([{"calls": [call("list_files")]}, "Done."], f"Prompt {number}.")
    lab.session.compact_next = True
    lab.variables["last"] = 1
    run = lab.run(["A summary.", "Done."], "And now?")
    (summary,) = (
        each.text for each in lab.session.conversation.messages if "<summary>" in each.text
    )
    assert summary.startswith("<summary>\nA summary.\n</summary>\n<context>\nAs of the newest pro")
    for line in ("- x7: int = 7", "- y5: int = 5", "- last: int = 1", "- notes7.txt  5 B"):
        assert summary.count(f"{line}\n") == 1
    assert lines_of(run.context) == [CHANGES, "Variables:", "- last: int = 1"]
    assert lines_of(context_of(lab)) == [NO_CHANGES]


def test_a_branch_and_a_resumed_session_begin_with_the_whole_context(
    lab: Lab,
) -> None:
    context_of(lab)
    record = lab.session.record
    lab.session = lab.session.branch()
    assert "- x7: int = 7" in context_of(lab)
    assert lines_of(context_of(lab)) == [NO_CHANGES]
    journal = lab.session.journal
    lab.session = Session(record, journal, initial_conversation(record, lab.session.graph))
    assert "- x7: int = 7" in context_of(lab)


def test_a_refused_request_has_sent_its_context(lab: Lab) -> None:
    failed = lab.run([{"error": {"kind": "refused"}}])
    assert failed.outcome == "failed"
    assert "- x7: int = 7" in failed.context
    lab.variables["x"] = 1
    assert lines_of(context_of(lab)) == [CHANGES, "Variables:", "- x: int = 1"]


def test_the_explorer_works_on_all_facts_though_the_context_tells_only_changes(lab: Lab) -> None:
    context_of(lab)
    lab.variables["birds"] = pd.DataFrame({"mass": [1.5, 2.5], "kind": ["a", "b"]})
    context_of(lab)
    run = lab.run([], "Mean of mass in birds", model=ExplorerClient(), answer=YES)
    assert lines_of(run.context) == [NO_CHANGES]
    assert "**2**" in run.output
    assert lines_of(context_of(lab)) == [NO_CHANGES]


def test_a_secret_in_a_line_is_hidden_and_does_not_make_it_new(lab: Lab) -> None:
    key = "ghp_" + "A1b2C3d4E5" * 4
    lab.variables["key"] = key
    first = context_of(lab)
    assert "- key: " in first
    assert key not in first
    assert lines_of(context_of(lab)) == [NO_CHANGES]


def test_the_cell_that_a_prompt_is_about_goes_with_it_and_counts_as_read(tmp_path: Path):
    lab = Lab(tmp_path)
    load = cell("load", "df = load()", execution_count=10)
    page = MemoryPage({None: [load, cell("agent", "%%agent --cell 10\nFix the error.")]})
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    run = lab.run(["Done."], "Fix the error.", request={"about": "10"})
    assert run.prompt == "Fix the error."
    assert "The cell that the prompt is about:\n#0 code id=load [10]\ndf = load()" in run.context
    assert run.context in lab.client.requests[0].messages[-1].text
    assert run.read == ("this notebook",)


def test_a_cell_that_is_not_there_is_said_before_anything_is_asked(tmp_path: Path):
    lab = Lab(tmp_path)
    page = MemoryPage({None: [cell("agent", "%%agent --cell 10\nFix the error.")]})
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    with pytest.raises(AgentError, match="no cell 10"):
        lab.run(["Done."], "Fix the error.", request={"about": "10"})
    assert lab.client.requests == []
