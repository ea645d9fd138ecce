"""`kill -9` at random moments of a live run: nothing that was acknowledged is lost."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import call
from ipyagent import Agent, Scripted
from ipyagent.agent.session.sessions import Sessions
from ipyagent.llm.wire import to_openai
from ipyagent.schema import ToolStatus
from ipyagent.store.journal import Journal
from patience import PATIENCE

KILLS = int(os.environ.get("JOURNAL_TEST_KILLS", "6"))
POINTS = int(os.environ.get("JOURNAL_TEST_POINTS", "12"))

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


@pytest.mark.slow
@pytest.mark.spec("P06", "M14", "H26")
@pytest.mark.parametrize("seed", range(KILLS))
def test_what_was_done_is_in_the_journal_and_the_session_goes_on(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(random.Random(seed).uniform(0.0, 1.2))
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    marks = tmp_path / "marks"
    done = [int(line) for line in marks.read_text().split()] if marks.exists() else []
    sessions = Sessions(Journal.open(tmp_path / ".ipyagent/state.db"))
    session = sessions.get_or_begin("live").session
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


# -- what a model in another process was sent, beside what the journal has


class Agents:
    """Starts agents that ask the model which this process plays."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        script = Path(__file__).with_name("agent_process.py")
        self.parent = subprocess.Popen(
            [sys.executable, script, str(self.listener.getsockname()[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, folder: Path) -> tuple[int, Any]:
        """An agent that works in `folder`: its process, and the connection to its model."""
        self.parent.stdin.write(f"{folder}\n")
        self.parent.stdin.flush()
        pid = int(self.parent.stdout.readline())
        connection, _ = self.listener.accept()
        with connection:
            return pid, connection.makefile("rw")

    def close(self) -> None:
        self.parent.communicate()
        self.listener.close()


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    started = Agents()
    yield started
    started.close()


def reply(chance: random.Random) -> str:
    """A reply with one call, or several beside and after each other."""
    calls = [
        call(chance.choice(["mark", "look"]), n=chance.randrange(1_000))
        for _ in range(chance.choice([1, 1, 2, 4]))
    ]
    return json.dumps({"text": "word " * chance.randint(0, 200), "calls": calls}) + "\n"


@pytest.mark.spec("P06", "P07")
@pytest.mark.parametrize("seed", range(POINTS))
def test_all_that_the_model_was_sent_is_in_the_journal_after_a_kill(
    seed: int, agents: Agents, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    pid, model = agents.start(tmp_path)
    for _ in range(chance.randint(1, 12)):
        sent = json.loads(model.readline())
        model.write(reply(chance))
        model.flush()
    if chance.random() < 0.7:  # while the model thinks, where most of a run's time goes
        sent = json.loads(model.readline())
    else:
        time.sleep(chance.uniform(0, 0.02))
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ConnectionError, ValueError):  # it may have asked once more
        sent = json.loads(model.readline())
    model.close()

    sessions = Sessions(Journal.open(tmp_path / ".ipyagent/state.db"))
    (record,) = sessions.records()
    while not sessions.journal.claim(record.id):  # the process is not quite gone
        time.sleep(0.01)
    session = sessions.resume(record.id).session
    kept = to_openai(session.messages, vision=False)
    assert kept[: len(sent) - 1] == sent[1:]
    results = {message["tool_call_id"] for message in sent if message["role"] == "tool"}
    status = {e.call.id: e.status for run in session.runs for e in run.executions}
    assert {status[each] for each in results} <= {ToolStatus.SUCCESS}
    sessions.close()
    sessions.journal.close()
