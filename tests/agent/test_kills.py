"""`kill -9` at random moments of a live run: nothing that was acknowledged is lost."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ipyagent import Agent, Scripted
from ipyagent.agent.sessions import Sessions
from ipyagent.schema import ToolStatus
from ipyagent.store.journal import Journal

KILLS = int(os.environ.get("JOURNAL_TEST_KILLS", "6"))

CHILD = """
import os, sys
from ipyagent import Agent, Scripted, tool

@tool(sensitive=True)
def mark(n: int) -> str:
    with open("marks", "a") as file:
        file.write(f"{n}\\n")
        file.flush()
        os.fsync(file.fileno())
    return f"marked {n}"

call = lambda n: {"text": "word " * 50, "calls": [{"name": "mark", "arguments": {"n": n}}]}
agent = Agent(
    Scripted([*map(call, range(4000)), "done"], chunk_size=40),
    tools=[mark], session="live", confirm_mode="yolo", max_steps=5000,
)
print("ready", flush=True)
agent.ask("Mark them all.")
"""


@pytest.mark.spec("P06", "M14", "H26")
@pytest.mark.parametrize("seed", range(KILLS))
def test_what_was_done_is_in_the_journal_and_the_session_goes_on(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(random.Random(seed).uniform(0.0, 1.2))
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    marks = tmp_path / "marks"
    done = [int(line) for line in marks.read_text().split()] if marks.exists() else []
    sessions = Sessions(Journal.open(tmp_path / ".ipyagent/state.db"))
    session = sessions.go_on("live").session
    executions = [e for run in session.runs for e in run.executions]
    status = {e.call.arguments["n"]: e.status for e in executions}
    sure = {n for n, s in status.items() if s is ToolStatus.SUCCESS}
    unknown = {n for n, s in status.items() if s is ToolStatus.UNKNOWN}
    assert sure <= set(done) <= sure | unknown
    assert len(unknown) <= 1
    assert all(run.is_finished for run in session.runs)
    sessions.close()
    sessions.journal.close()

    monkeypatch.chdir(tmp_path)
    model = Scripted(["All is well."])
    run = Agent(model, session="live").ask("And now?")
    assert run.output == "All is well."
    calls = [c.id for m in model.requests[0].messages for c in m.tool_calls]
    results = [r.tool_use_id for m in model.requests[0].messages for r in m.tool_results]
    assert sorted(calls) == sorted(results)
    assert len(set(results)) == len(results)
