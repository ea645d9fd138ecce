"""Agent cells that run again in another kernel, without a model and without a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import Page, kernel, python, script

pytestmark = pytest.mark.kernel

ASKS = {"IPYAGENT_AGENT__LOOK_FREELY": "true"}
MAKE_FRESH = """
from queue import Queue
from types import SimpleNamespace
from ipyagent.magic.notebook import notebook
replies = Queue()
asked = {"type": "ask", "id": 1, "what": "fresh", "cell_id": "c1"}
notebook().desk.on_message(SimpleNamespace(send=replies.put), asked)
assert replies.get() == {"type": "reply", "id": 1, "value": {}}
"""
"""A page says that the next run of a cell asks the model."""


def test_a_cell_repeats_its_look_and_its_approved_call_in_the_next_kernel(tmp_path: Path) -> None:
    option = script(
        tmp_path,
        python("print(len(numbers))"),
        python("open('out.txt', 'w').write(str(sum(numbers)))"),
        "The sum is in out.txt.",
    )
    cell = f"%%agent {option}\nAdd up the numbers, into a file."
    with kernel(tmp_path, JPY_SESSION_NAME="a.ipynb", **ASKS) as first:
        first.run("numbers = [1, 2, 3]")
        recorded = first.run(cell, page=Page(first))
        assert recorded.run["status"] == "done", recorded
        assert recorded.executions[1]["decision"] == "approved"
    (tmp_path / "out.txt").unlink()
    (tmp_path / "script.yaml").unlink()
    with kernel(tmp_path, **ASKS) as second:
        second.run("numbers = [1, 2, 3]")
        reply = second.run(cell)
        run = reply.run
        assert run["stop_reason"] == "finished", run
        assert [each["decided_by"] for each in reply.executions] == ["rehearsal", "record"]
        assert run["replayed"]["run_id"] == recorded.run["id"]
        assert run["steps"][-1]["message"]["content"][0]["text"] == "The sum is in out.txt."
        assert (tmp_path / "out.txt").read_text() == "6"
        (tmp_path / "out.txt").unlink()
        assert second.value("__import__('ipyagent').last.replay().output") == repr(
            "The sum is in out.txt."
        )
        assert (tmp_path / "out.txt").read_text() == "6"
        second.run("%agent config agent.on_difference=keep\nnumbers = [4]")
        kept = second.value("__import__('ipyagent').last.replay().notes[0]")
        assert kept.startswith("'Kept to the recording"), kept


@pytest.mark.slow
def test_a_page_may_have_a_replayed_cell_ask_the_model(tmp_path: Path) -> None:
    option = script(tmp_path, "One.")
    with kernel(tmp_path) as first:
        assert first.run(f"%%agent {option}\nCount.").run["status"] == "done"
    assert script(tmp_path, "Two.") == option
    with kernel(tmp_path) as second:

        def count() -> str:
            content = {"code": f"%%agent --replay {option}\nCount.", "allow_stdin": False}
            session, metadata = second.client.session, {"cellId": "c1"}
            request = session.msg("execute_request", content, metadata=metadata)
            second.client.shell_channel.send(request)
            run = second.finish(request["header"]["msg_id"]).run
            return str(run["steps"][-1]["message"]["content"][0]["text"])

        assert [count(), count()] == ["One.", "One."]
        assert second.run(MAKE_FRESH).status == "ok"
        assert count() == "Two."
