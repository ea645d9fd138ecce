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
from ipyagent.agent.session.sessions import Sessions
from ipyagent.llm.wire import to_openai
from ipyagent.schema import ToolStatus
from ipyagent.store.journal import Journal
from patience import PATIENCE

POINTS = int(os.environ.get("JOURNAL_TEST_POINTS", "12"))

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


@pytest.mark.spec("P06", "P07", "M14", "H26")
@pytest.mark.parametrize("seed", range(POINTS))
def test_all_that_was_done_and_that_the_model_was_sent_is_in_the_journal_after_a_kill(
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
    (record,) = sessions.journal.sessions()
    while not sessions.journal.claim(record.id):  # the process is not quite gone
        time.sleep(0.01)
    session = sessions.resume(record.id).session
    kept = to_openai(session.conversation.messages, vision=False)
    assert kept[: len(sent) - 1] == sent[1:]
    results = {message["tool_call_id"] for message in sent if message["role"] == "tool"}
    executions = [e for run in session.runs for e in run.executions]
    status = {e.call.id: e.status for e in executions}
    assert {status[each] for each in results} <= {ToolStatus.SUCCESS}
    marks = tmp_path / "marks"
    done = {int(line) for line in marks.read_text().split()} if marks.exists() else set()
    marked = [e for e in executions if e.call.name == "mark"]
    sure = {e.call.arguments["n"] for e in marked if e.status is ToolStatus.SUCCESS}
    unknown = {e.call.arguments["n"] for e in marked if e.status is ToolStatus.UNKNOWN}
    assert sure <= done <= sure | unknown
    assert len(unknown) <= 1
    assert all(run.is_finished for run in session.runs)
    sessions.close()
    sessions.journal.close()
