"""What a run costs where many kernels work in one folder, beside one that is alone there.

Each kernel is a process with a session of its own; all write to one journal, with SQLite's WAL, and
with the rollback journal that folders on network drives have. That every run is there, with all its
events, is part of the measurement. Times are by the clock: the machine's, divided by all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from table import Row
from worker import WORKER

KERNEL = (
    WORKER
    + """
import sys, time
ANSWER = "That is done, as you asked. " * 8

def look() -> str:
    "Look at something."
    return "".join(f"row {n}: 0.123, {7 * n}, north; " for n in range(60))

worker = Worker()
agent = Agent(worker, tools=[look], session=sys.argv[1])

def take() -> float:
    worker.left, begun = 2, time.perf_counter()
    run = agent.ask("Go on with it.")
    assert run.outcome == "success", run.error
    return time.perf_counter() - begun

take()
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(max(take() for _ in range(int(sys.argv[2])))))
"""
)

KERNELS = f"""
import contextlib, json, os, sqlite3, subprocess, sys, time
from pathlib import Path
from ipyagent.store.journal import Journal

count, runs = int(os.environ["KERNELS"]), int(os.environ["RUNS"])
place = Path(".ipyagent/state.db")
Journal.open(place).close()
if os.environ["MODE"] == "rollback":
    with contextlib.closing(sqlite3.connect(place)) as database:
        database.execute("PRAGMA journal_mode=PERSIST")
kernels = [
    subprocess.Popen(
        [sys.executable, "-c", {KERNEL!r}, f"kernel {{number}}", str(runs)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    for number in range(count)
]
assert all(each.stdout.readline() == "ready\\n" for each in kernels)
begun = time.perf_counter()
for each in kernels:
    each.stdin.write("go\\n")
    each.stdin.flush()
longest = [json.loads(each.stdout.readline()) for each in kernels]
seconds = time.perf_counter() - begun
assert not any(each.wait() for each in kernels)
assert place.with_name("state.db-wal").exists() is False
journal = Journal.open(place)
for number in range(count):
    taken = journal.runs(journal.session(f"kernel {{number}}").id)
    assert len(taken) == runs + 1, (number, len(taken))
    assert all(run.outcome == "success" and len(run.results) == 2 for run in taken)
print(json.dumps([seconds / count / runs, max(longest)]))
"""


def measure(
    run: Callable[..., tuple[float, Any]], *, times: int, kernels: int, runs: int
) -> Iterable[Row]:
    """Yield the costs of a run with so many kernels, each of which takes so many."""
    ways = ("wal", "on a disk", 3.0), ("rollback", "as on a network drive", 6.0)
    for mode, label, goal in ways:
        measures = [run(KERNELS, KERNELS=1, RUNS=runs, MODE=mode)[1][0] for _ in range(times)]
        seconds, longest = run(KERNELS, KERNELS=kernels, RUNS=runs, MODE=mode)[1]
        alone = median(measures) * 1e3
        yield Row(f"a run of {kernels} kernels, {label}", "ms", seconds * 1e3, raw=alone, goal=goal)
        yield Row("… the longest of them", "s", longest)
