"""What a replay costs beside the calls that it repeats, and what it costs to find its recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from table import Row

REPLAY = """
import json, os, statistics, time
from ipyagent import Agent, Scripted

CODE = "total = str(sum(n * n for n in range(400_000)))"

def spend(work):
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result

calls = [{"calls": [{"name": "run_python", "arguments": {"code": CODE}}]}] * 10
run = Agent(Scripted([*calls, "Done."]), session="work").ask("Add up ten times.")
assert len(run.executions) == 10
figures = {"calls": [], "replay": []}
for _ in range(int(os.environ["TIMES"])):
    figures["calls"].append(spend(lambda: [exec(CODE, {}) for _ in range(10)])[0])
    seconds, again = spend(run.replay)
    assert again.stop_reason == "finished", again.error
    figures["replay"].append(seconds)
print(json.dumps({name: statistics.median(each) * 1e3 for name, each in figures.items()}))
"""

FIND = """
import json, os, sqlite3, statistics, time
from datetime import UTC, datetime
from pathlib import Path
from ipyagent.digests import digest_text
from ipyagent.schema import Asked, Run, RunFinished, RunStarted, RunStatus, Session, StopReason
from ipyagent.store import runs
from ipyagent.store.journal import Journal

def ask(number):
    return Asked(prompt=digest_text(str(number)), options="o", tools="t", before="start")

journal = Journal.open(Path("state.db"))
session = Session(name="s")
journal.create(session)
run = Run(id="run", session_id=session.id, prompt="p", asked=ask(0), status=RunStatus.RUNNING)
finished, reason = RunStatus.DONE, StopReason.FINISHED
journal.append(session.id, run.id, RunStarted(run=run))
journal.append(session.id, run.id, RunFinished(status=finished, stop_reason=reason, duration=0.0))
journal.close()
count = int(os.environ["RUNS"])
with sqlite3.connect("state.db") as db:
    columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
    others = ", ".join(columns[1:])
    row = f"INSERT INTO runs SELECT ?, {others} FROM runs WHERE id = 'run'"
    db.executemany(row, [(f"run{n}",) for n in range(count)])
    for n in range(count):
        runs.add_recording(db, run.model_copy(update={"id": f"run{n}", "asked": ask(n)}))
journal = Journal.open(Path("state.db"))
asked, spent = ask(count // 2), []
for _ in range(int(os.environ["TIMES"])):
    begun = time.perf_counter()
    journal.find_recording(asked, None)
    spent.append((time.perf_counter() - begun) * 1e3)
print(json.dumps(statistics.median(spent)))
"""

SAVED = """
import json, os, statistics, time
from pathlib import Path
import nbformat
from ipyagent import Agent, Scripted
from ipyagent.schema.run_states import RUN_MIME
from ipyagent.store.graph_file import NotebookRecordings
from ipyagent.ui.static_html import saved_bundle

v4, count = nbformat.v4, int(os.environ["CELLS"])
bundle = saved_bundle(Agent(Scripted(["Two thousand words. " * 100]), session="s").ask("Go."))
runs = [bundle[RUN_MIME] | {"id": f"{n:012x}"} for n in range(count)]
outputs = [v4.new_output("display_data", data=bundle | {RUN_MIME: each}) for each in runs]
cells = [v4.new_code_cell(f"%%agent\\nGo {n}.", outputs=[o]) for n, o in enumerate(outputs)]
nbformat.write(v4.new_notebook(cells=cells), "long.ipynb")
saved, spent = NotebookRecordings(), []
for _ in range(count):
    begun = time.perf_counter()
    assert len(list(saved.list_runs([Path("long.ipynb")]))) == count
    spent.append((time.perf_counter() - begun) * 1e3)
print(json.dumps([saved.times_read, spent[0], statistics.median(spent[1:])]))
"""


def measure(
    run: Callable[..., tuple[float, Any]], *, times: int, runs: int, cells: int
) -> Iterable[Row]:
    """Yield the costs of a replay, and of finding one among so many runs and saved cells."""
    spent = run(REPLAY, TIMES=times, IPYAGENT_AGENT__CONFIRM_MODE="yolo")[1]
    label = "a replay of ten calls, beside these"
    yield Row(label, "ms", spent["replay"], raw=spent["calls"], goal=1.1)
    yield Row(
        f"a recording is found among {runs:,}", "ms", run(FIND, RUNS=runs, TIMES=times)[1], goal=5
    )
    read, first, later = run(SAVED, CELLS=cells)[1]
    yield Row(f"a notebook of {cells} runs is read", "times", read, goal=1)
    yield Row("… and takes, the first time", "ms", first)
    yield Row("… and later", "ms", later, goal=5)
