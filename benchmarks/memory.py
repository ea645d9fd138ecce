"""What a long session holds: how much the memory of its process grows over 1,500 steps.

A model in the process calls a tool whose results have 1.3 kB each; everything is recorded on the
disk, and the conversation is summarised where it gets long. The first steps are not measured: they
bring imports and caches. LiteLLM is not imported, whose 110 MB would come at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from worker import RESIDENT, WORKER

STEPS = 1_500
GOAL = 30.0
"""Megabytes."""

WORK = (
    WORKER
    + RESIDENT
    + """
ANSWER = "That is done."

def look() -> str:
    "Look at something."
    return "0123456789abc" * 100

def work(steps):
    while steps > 0:
        worker.left = each
        run = agent.ask("Go on with it.")
        assert len(run.executions) == each, (run.stop_reason, run.error)
        steps -= each

steps, each = int(os.environ["STEPS"]), int(os.environ["EACH"])
worker = Worker()
agent = Agent(worker, tools=[look], max_steps=steps + 10, session="long")
work(max(each, min(300, steps)))
before = resident()
work(steps)
print(json.dumps(resident() - before))
"""
)


def grow(run: Callable[..., tuple[float, Any]], steps: int, each: int) -> float:
    """Return the megabytes that the steps add, with `each` of them in a run."""
    return float(run(WORK, STEPS=steps, EACH=each)[1])
