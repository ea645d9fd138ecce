"""Sessions in real kernels: they continue across cells, restarts, and the death of a kernel."""

import signal
import sqlite3
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kernels import RUN_JSON, Kernel, Message, Page, asking, kernel, python, script
from patience import PATIENCE
from servers.model_server import ModelServer, answer

pytestmark = pytest.mark.kernel


def request_texts(server: ModelServer) -> list[list[str]]:
    """Return the texts of each request."""
    return [[str(m["content"]) for m in r.body["messages"]] for r in server.requests]


@pytest.mark.spec("P10", "H23", "H01")
def test_a_conversation_continues_in_the_next_cell_and_after_a_restart(tmp_path: Path) -> None:
    with ModelServer([answer("Hello Ada."), answer("Ada."), answer("Still Ada.")]) as server:
        with kernel(tmp_path, **asking(server)) as first:
            first.run("%%agent\nI am Ada.")
            first.run("%%agent\nWho am I?")
        with kernel(tmp_path, **asking(server)) as second:
            second.run("%%agent\nAnd now?")
            assert "3 runs" in second.run("%agent status").stdout
        one, two, three = request_texts(server)
    assert len(one) < len(two) < len(three)
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert "I am Ada." in three[1]
    assert three[-1].startswith("And now?")


def test_a_named_session_is_started_and_continued(
    asking_kernel: Kernel, server: ModelServer
) -> None:
    server.replies = [answer("One."), answer("Two."), answer("Three.")]
    asking_kernel.run("%%agent -s tea\nGreen.")
    asking_kernel.run("%%agent\nElsewhere.")
    asking_kernel.run("%%agent -s tea\nBlack.")
    _, elsewhere, tea = request_texts(server)
    assert not any("Green." in text for text in elsewhere)
    assert any("Green." in text for text in tea)


@pytest.mark.spec("P06", "H26")
def test_a_kernel_killed_in_a_tool_leaves_an_unknown_outcome_and_a_working_session(
    tmp_path: Path,
) -> None:
    kill = "open('ran', 'a').write('x'); import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    option = script(tmp_path, python(kill, text="I will."))
    with kernel(tmp_path) as first:
        first.client.execute(f"%%agent {option} --confirm yolo\nBegin.", allow_stdin=False)
        process = first.manager.provisioner.process
        process.wait(PATIENCE)
    assert process.returncode == -signal.SIGKILL
    with kernel(tmp_path) as second:
        text = second.run("%agent runs").stdout
        assert "failed" in text
        assert "The kernel ended while run" in text
        reply = second.run(f"%%agent {script(tmp_path, 'Fine.')}\nGo on.")
        assert reply.run["status"] == "done"
        runs = second.value(
            "[r.status.value for r in __import__('ipyagent').Session.current().runs]"
        )
        assert runs == "['error', 'done']"
        (unknown,) = eval(
            second.value(
                "[(e.status.value, e.result.error) for e in"
                " __import__('ipyagent').Session.current().runs[0].executions]"
            )
        )
    assert unknown[0] == "unknown"
    assert "unknown outcome" in unknown[1]
    assert (tmp_path / "ran").read_text() == "x"


@pytest.mark.spec("P26")
def test_a_second_kernel_in_the_same_folder_continues_as_a_branch(tmp_path: Path) -> None:
    option = script(tmp_path, "One.")
    with kernel(tmp_path) as first, kernel(tmp_path) as second:
        first.run(f"%%agent {option}\nFirst prompt.")
        reply = second.run(f"%%agent {option}\nSecond prompt.")
        assert any("branch" in note for note in reply.run["notes"])
        first.run(f"%%agent {option}\nThird prompt.")
        said = "__import__('ipyagent').Session.current().conversation.messages"
        seen = f"[m.text for m in {said} if not m.synthetic]"
        assert eval(first.value(seen)) == ["First prompt.", "One.", "Third prompt.", "One."]
        assert eval(second.value(seen)) == ["First prompt.", "One.", "Second prompt.", "One."]
    stored = sqlite3.connect(tmp_path / ".ipyagent/state.db")
    assert stored.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stored.close()


@pytest.fixture(scope="module")
def shared(folder: Path) -> Any:
    script(folder, "Hello.")
    with kernel(folder) as started:
        yield started


def say(shared: Kernel, prompt: str, *options: str, page: Any = None) -> Message:
    reply = shared.run(f"%%agent -m scripted/script.yaml {' '.join(options)}\n{prompt}", page=page)
    assert reply.status == "ok"
    return reply.run


def messages(shared: Kernel) -> list[str]:
    said = "__import__('ipyagent').Session.current().conversation.messages"
    return eval(shared.value(f"[m.text for m in {said} if not m.synthetic]"))


@pytest.mark.spec("H01", "H02")
def test_the_notebook_has_a_session_before_its_first_prompt(fresh: Kernel, tmp_path: Path) -> None:
    current = "__import__('ipyagent').Session.current()"
    assert fresh.value(f"{current}.record.state.value") == "'initializing'"
    script(tmp_path, "Hello.")
    say(fresh, "Hello?")
    assert fresh.value(f"{current}.record.state.value") == "'active'"
    assert fresh.run("%unload_ext ipyagent").status == "ok"
    assert fresh.value(current) == "None"


def test_the_commands_new_list_resume_and_end(shared: Kernel) -> None:
    shared.run("%agent session new first")
    say(shared, "In the first.")
    assert shared.run("%agent session new second").stdout.startswith("second")
    say(shared, "In the second.")
    assert messages(shared) == ["In the second.", "Hello."]
    listing = shared.run("%agent session list").stdout
    assert "first" in listing
    assert next(line for line in listing.splitlines() if line.startswith("*")).endswith("second")
    shared.run("%agent session resume first")
    assert messages(shared) == ["In the first.", "Hello."]
    shared.run("%agent session end")
    refused = shared.run("%%agent -m scripted/script.yaml\nOnce more.")
    assert "has ended" in refused.run["error"]
    assert "session new" in refused.run["error"]
    shared.run("%agent session new third")
    say(shared, "Works again.")


@pytest.mark.spec("N24")
def test_branching_from_an_earlier_step_keeps_the_conversation_before_it(shared: Kernel) -> None:
    shared.run("%agent session new trunk")
    say(shared, "One.")
    say(shared, "Two.")
    session = "__import__('ipyagent').Session.current()"
    node = eval(
        shared.value(
            f"[n.id for n in {session}.graph if getattr(n.data, 'role', None) == 'assistant'][0]"
        )
    )
    assert shared.run(f"%agent session branch {node} twig").stdout.startswith("twig")
    assert messages(shared) == ["One.", "Hello."]
    say(shared, "Three.")
    assert messages(shared) == ["One.", "Hello.", "Three.", "Hello."]
    shared.run("%agent session resume trunk")
    assert messages(shared) == ["One.", "Hello.", "Two.", "Hello."]


@pytest.mark.spec("N29")
def test_cells_continue_the_session_that_was_chosen_in_python(shared: Kernel) -> None:
    shared.run("%agent session new stem")
    say(shared, "Stem.")
    shared.run(
        "from ipyagent import Session\n"
        "stem = Session.current()\n"
        "left, right = stem.branch(name='left'), stem.branch(name='right')\n"
        "left.make_current()"
    )
    say(shared, "Left.")
    shared.run("right.make_current()")
    say(shared, "Right.")
    shared.run("stem.merge([left, right]).make_current()")
    say(shared, "Both.")
    assert messages(shared)[::2] == ["Stem.", "Left.", "Right.", "Both."]
    assert shared.value("(stem.message_count, left.message_count)") == "(2, 4)"


@pytest.mark.spec("N24")
def test_a_saved_session_and_the_runs_of_a_notebook_can_be_loaded(
    shared: Kernel, folder: Path
) -> None:
    shared.run("%agent session new kept")
    run = say(shared, "Keep this.", page=Page(shared))
    assert "saved" in shared.run("%agent session save kept.json").stdout
    shared.run("%agent session load kept.json")
    assert messages(shared) == ["Keep this.", "Hello."]
    book = nbformat.v4.new_notebook()
    output = nbformat.v4.new_output("display_data", {RUN_JSON: run, "text/plain": "…"})
    book.cells = [nbformat.v4.new_code_cell("%%agent", outputs=[output]) for _ in "copy"]
    nbformat.write(book, folder / "old.ipynb")
    shared.run("%agent session load old.ipynb")
    assert messages(shared) == ["Keep this.", "Hello."]
    say(shared, "Goes on.")
    assert messages(shared)[-2:] == ["Goes on.", "Hello."]


@pytest.mark.spec("N24")
def test_the_graph_is_drawn(shared: Kernel) -> None:
    shared.run("%agent session new drawn")
    say(shared, "Draw me.")
    reply = shared.run("%agent session graph")
    (data,) = [each["data"] for each in reply.of("display_data")]
    assert "Draw me." in data["text/plain"]
    assert "Draw me" in data["text/vnd.mermaid"]


IMPOSSIBLE = [
    ("session resume nowhere", "no session is called 'nowhere'"),
    ("session branch zzz", "no step is called 'zzz'"),
    ("session load missing.json", "missing.json"),
    ("session save", "usage: %agent session save PATH"),
    ("session dance", "there are: new, list"),
    ("show zzz", "no run has the id"),
    ("approve", "no pending plan"),
    ("deny", "no pending plan"),
    ("approve a99", "no call waits"),
]


@pytest.mark.spec("P21")
def test_an_impossible_command_is_explained_in_one_line(shared: Kernel) -> None:
    say(shared, "Something.")
    replies = {line: (shared.run(f"%agent {line}"), text) for line, text in IMPOSSIBLE}
    wrong = {
        line: reply
        for line, (reply, text) in replies.items()
        if (reply.status, reply.stderr) != ("ok", "")
        or text not in reply.stdout
        or "Traceback" in reply.stdout
    }
    assert not wrong


def test_a_run_can_be_shown_again_with_its_cost(shared: Kernel) -> None:
    shared.run("%agent session new shown")
    say(shared, "Show me.")
    reply = shared.run("%agent show")
    (data,) = [each["data"] for each in reply.of("display_data")]
    assert data[RUN_JSON]["prompt"] == "Show me."
    assert "together in shown" in shared.run("%agent cost").stdout
    shared.run("%%agent --session c9 -m offline/explorer\nWhat files are here?")
    cost = shared.run("%agent cost").stdout.splitlines()
    assert cost[0].startswith("What files are here?")
    assert [line.split()[-1] for line in cost] == ["free", "free"]
    say(shared, f"Once more, {'and more ' * 9}")
    assert "\nOnce more, and more and more and more a… " in shared.run("%agent cost").stdout
    assert "together in shown" in shared.run("%agent cost").stdout
    shared.run("%agent session new empty")
    assert shared.run("%agent cost").stdout == "no runs in empty yet\n"
