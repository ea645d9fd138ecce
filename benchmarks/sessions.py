"""What long replies and long sessions cost beside their model: the end of one, the return to one.

Models in the process answer at once, so that all that is measured is ours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from table import Row
from worker import RESIDENT, WORKER

END = """
import json, os, time
from ipyagent import Agent
from ipyagent.schema import StreamChunk

TEXT = "".join(
    f"The North lost a good part of its revenue in week {n} because of closed shops. "
    for n in range(int(os.environ["SENTENCES"]))
)

class Writer:
    model, context_window = "writer", None
    ended = 0.0

    async def stream(self, request):
        for at in range(0, len(TEXT), 40):
            yield StreamChunk(type="content", data=TEXT[at : at + 40])
        self.ended = time.process_time()
        yield StreamChunk(type="finish", data="stop")

writer = Writer()
run = Agent(writer, session="long").ask("Go.")
spent = time.process_time() - writer.ended
assert run.output == TEXT.strip() or run.output == TEXT
print(json.dumps(spent * 1e9 / len(TEXT)))
"""

WORK = (
    WORKER
    + """
ANSWER = "That is done, as you asked. " * 8

def look() -> str:
    "Look at something."
    return "".join(f"row {n}: 0.123, {7 * n}, north; " for n in range(600))

worker = Worker()
agent = Agent(worker, tools=[look], session="long")
for _ in range(int(os.environ["RUNS"])):
    worker.left = 2
    agent.ask("Go on with it.")
"""
)

REVIVE = (
    RESIDENT
    + """
import json, time
from pathlib import Path
from ipyagent import Agent
from ipyagent.agent.session.sessions import Sessions
from ipyagent.store.journal import Journal

sessions = Sessions(Journal.open(Path(".ipyagent/state.db")))
sessions.journal.sessions()
memory, begun = resident(), time.process_time()
session = sessions.resume("long").session
spent = time.process_time() - begun
assert len(session.runs) == int(os.environ["RUNS"])
print(json.dumps([spent, resident() - memory]))
"""
)

FIRST_PIECE = """
import asyncio, json
from ipyagent.agent.approvals import Approvals
from ipyagent.redaction import Redactor
from ipyagent.schema import MessageDelta, MessageStarted, Run, RunStarted, StepStarted, advance
from ipyagent.ui.feed import INTERVAL, Feed

async def wait_for_first():
    feed, state, times = Feed(Approvals(), lambda: None), None, []
    run = Run(id="run", session_id="s", prompt="Go.")
    feed.followers.append(lambda message: times.append(asyncio.get_running_loop().time()))
    stream = Redactor(["sk-proj-aB3dE6gH9jK2mN5pQ8sT1"]).stream()
    for event in (RunStarted(run=run), StepStarted(step=1), MessageStarted(step=1)):
        state = advance(state, event)
        feed(event, state)
    times.clear()
    begun = asyncio.get_running_loop().time()
    for piece in ("The ", "first ", "words ", "of ", "an ", "answer "):
        if text := stream.add(piece):
            delta = MessageDelta(step=1, kind="text", text=text)
            state = advance(state, delta)
            feed(delta, state)
        await asyncio.sleep(INTERVAL)
    return (times[0] - begun) / INTERVAL

print(json.dumps(asyncio.run(wait_for_first())))
"""


def measure(run: Callable[..., tuple[float, Any]], *, sentences: int, runs: int) -> Iterable[Row]:
    """Yield the costs of a reply of so many sentences, and of a session of so many runs."""
    end = run(END, SENTENCES=sentences)[1]
    yield Row("the end of a reply, for each MB", "ms", end, goal=50.0)
    yield Row("a first piece waits", "intervals", round(run(FIRST_PIECE)[1], 1), goal=0.5)
    with tempfile.TemporaryDirectory() as folder:
        inside = f"import os; os.chdir({folder!r})\n"
        run(inside + WORK, RUNS=runs)
        seconds, megabytes = run(inside + REVIVE, RUNS=runs)[1]
    yield Row(f"a session of {runs} runs is opened", "s", seconds, goal=0.15)
    yield Row(f"memory for a session of {runs} runs", "MB", megabytes, goal=20.0)
