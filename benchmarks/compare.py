"""One table of what ipyagent costs beside a raw client, all measured in one run.

    make bench              print the table, and write it to benchmarks/results/
    make bench BASE=REV     the same, beside what the code of that revision costs

Times are the processor time of processes that do the same work, with a model's server in this one,
on loopback and without think time. What is compared is run in turn, several times, and the median
counts; ratios hold to about ±15 % on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import memory
import programs
from table import Row, print_table

from servers.model_server import ModelServer, Reply, answer

REPETITIONS = 5
FEW, MANY = 500, 5_500
"""Chunks of a reply: the difference is what one costs, without start and end."""
STEPS = {10: 0.8, 100: 0.16, 1_000: 0.03}
"""Steps of history at which one more is measured, and the goals of the ratio to raw."""
AROUND = 8

SOURCE = os.environ.get("BENCH_SOURCE", "")
"""The source of another revision, measured instead of the installed one."""


def run(code: str, server: ModelServer | None = None, **environment: object) -> tuple[float, Any]:
    """Return the CPU seconds of a process that runs `code`, and what it printed, as JSON."""
    environ = os.environ | {name: str(value) for name, value in environment.items()}
    environ |= {"OPENAI_API_KEY": "none", "PYTHONPATH": SOURCE}
    if server is not None:
        environ |= {"URL": server.url, "IPYAGENT_LLM__API_BASE": server.url}
    before = getrusage(RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"{code}\nfailed:\n{done.stderr}")
    after = getrusage(RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, json.loads(done.stdout) if done.stdout.strip() else None


def in_turn(measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the median of each measure, taken in turn."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(REPETITIONS):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: median(each) for name, each in figures.items()}


def measure_start() -> Iterable[Row]:
    """Yield what comes before a first request."""
    codes = {
        "raw": programs.IMPORT_OPENAI,
        "ipython": programs.IMPORT_IPYTHON,
        "load": programs.LOAD,
        "explorer": programs.EXPLORER,
    }
    cpu = in_turn({name: lambda code=code: run(code)[0] * 1e3 for name, code in codes.items()})
    for label, name, goal in (
        ("%load_ext ipyagent, beside import openai", "load", 0.2),
        ("first answer of the explorer", "explorer", None),
    ):
        yield Row(label, "ms", cpu[name] - cpu["ipython"], raw=cpu["raw"], goal=goal)


def measure_chunks(server: ModelServer) -> Iterable[Row]:
    """Yield what one more streamed chunk costs."""

    def per_chunk(code: str) -> float:
        spent = []
        for number in (FEW, MANY):
            server.replies = [_words(number)]
            spent.append(run(code, server, CHUNKS=number)[0])
        return (spent[1] - spent[0]) / (MANY - FEW) * 1e6

    cpu = in_turn({k: lambda c=code: per_chunk(c) for k, code in programs.CHUNKS.items()})
    yield Row("a streamed chunk", "µs", cpu["ours"], raw=cpu["raw"], http=cpu["http"], goal=0.8)


def measure_turns(server: ModelServer) -> Iterable[Row]:
    """Yield what a first prompt costs, and a later one."""
    cold: dict[str, list[float]] = {name: [] for name in programs.TURNS}
    warm: dict[str, list[float]] = {name: [] for name in programs.TURNS}
    for _ in range(REPETITIONS):
        for name, code in programs.TURNS.items():
            server.replies = [answer("ok")]
            cold[name].append(run(code, server, TURNS=1)[0] * 1e3)
            server.replies = [answer("ok") for _ in range(25)]
            spent = run(code, server, TURNS=25)[1]
            warm[name].append(median(spent[5:]) * 1e3)
    for label, figures, goal in (
        ("a script with one prompt, cold", cold, None),
        ("a prompt and its answer, warm", warm, None),
    ):
        at = {name: median(each) for name, each in figures.items()}
        yield Row(label, "ms", at["ours"], raw=at["raw"], http=at["http"], goal=goal)
    yield Row(
        "… beside the bare loop, cold",
        "ms",
        median(cold["ours"]),
        raw=median(cold["http"]),
        goal=2.0,
    )


def measure_steps(server: ModelServer) -> Iterable[Row]:
    """Yield what one more step costs, and what its request holds."""
    most = max(STEPS)
    ours = _marks(programs.STEPS["ours"], server, most + 2 * AROUND, PERSIST="yes")
    requests = server.requests[:]
    silent = _marks(programs.STEPS["ours"], server, 100 + 2 * AROUND, PERSIST="no")
    for step, goal in STEPS.items():
        bare = {
            name: median(_marks(programs.STEPS[name], server, 2 * AROUND, BEFORE=step - AROUND))
            for name in ("raw", "http")
        }
        yield Row(f"step {step:,}, all in", "ms", _at(ours, step), **bare, goal=goal)
    flat = _at(ours, most) / _at(ours, 10)
    yield Row(f"step {most:,} beside step 10", "times", flat, goal=1.5)
    recorded = _at(ours, 100) / _at(silent, 100)
    yield Row("step 100 beside one without a record", "times", recorded)
    bodies = [request.body for request in requests]
    extended = sum(
        after["messages"][: len(before["messages"])] == before["messages"]
        and after["tools"] == before["tools"]
        for before, after in pairwise(bodies)
    )
    yield Row("requests that do not extend the last", "", len(bodies) - 1 - extended, goal=0)
    yield Row("connections", "", len({request.connection for request in requests}), goal=1)
    fixed = _kilobytes(bodies[0]["messages"][0]) + _kilobytes(bodies[0]["tools"])
    yield Row("system prompt and tools", "kB", fixed, goal=6.0)
    growth = (_kilobytes(bodies[-1]) - _kilobytes(bodies[0])) / (len(bodies) - 1) * 1e3
    yield Row("growth of a request with each step", "bytes", growth)


def measure_rest(server: ModelServer) -> Iterable[Row]:
    """Yield what is measured for itself."""
    spent = run(programs.KEY_TO_WIRE)[1]
    yield Row("key to wire, warm kernel", "ms", median(spent[5:]) * 1e3, goal=15.0)
    seconds = median(run(programs.PARALLEL)[1])
    yield Row("8 calls of 0.2 s, by the clock", "s", seconds, goal=0.25)
    server.replies = [answer("ok") for _ in range(4)]
    yield Row("memory after four turns", "MB", run(programs.MEMORY, server)[1], goal=95.0)
    with tempfile.TemporaryDirectory() as folder:
        inside = f"import os; os.chdir({folder!r})\n"
        run(inside + programs.LONG_SESSION, STEPS=3_400)
        nodes, seconds = run(inside + programs.REVIVE)[1]
    yield Row(f"a session of {nodes:,} nodes is opened", "s", seconds)
    for each in (50, memory.STEPS):
        grown = memory.grow(run, each)
        yield Row(
            f"memory for {memory.STEPS:,} steps, {each:,} a run", "MB", grown, goal=memory.GOAL
        )


def measure() -> list[Row]:
    """Return all rows."""
    with ModelServer() as server:
        return [
            *measure_start(),
            *measure_turns(server),
            *measure_chunks(server),
            *measure_steps(server),
            *measure_rest(server),
        ]


def measure_base(revision: str) -> list[Row]:
    """Return the rows of another revision's code, measured by these programs."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["git", "worktree", "add", "--detach", folder, revision], cwd=ROOT, check=True
        )
        try:
            environ = os.environ | {"BENCH_SOURCE": f"{folder}/src", "BENCH_JSON": "-"}
            command = [sys.executable, __file__]
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)
    return [Row(**each) for each in json.loads(done.stdout)]


def main() -> None:
    """Measure and print."""
    base = measure_base(revision) if (revision := os.environ.get("BASE")) else []
    rows = measure()
    if os.environ.get("BENCH_JSON") == "-":
        print(json.dumps([row.to_dict() for row in rows]))
        return
    print_table(rows, base)
    results = ROOT / "benchmarks/results"
    results.mkdir(exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    path = results / f"{commit.stdout.strip() or 'unknown'}.json"
    path.write_text(json.dumps([row.to_dict() for row in rows], indent=1))


def _words(number: int) -> Reply:
    """A reply in that many chunks; different ones, since LiteLLM stops a model that repeats."""
    return answer("".join(f"{n:04d} " for n in range(number)), chunk_size=5)


def _marks(code: str, server: ModelServer, steps: int, **environment: object) -> list[float]:
    """Return the CPU milliseconds of each step of a conversation."""
    server.requests.clear()
    calls = (answer(calls=[("mark", {"n": n}, f"call_{n}")]) for n in range(steps))
    server.replies = [*calls, answer("Done.")]
    marks = run(code, server, **environment)[1]
    return [(after - before) * 1e3 for before, after in pairwise(marks)]


def _at(costs: list[float], step: int) -> float:
    """The usual cost around a step."""
    return median(costs[step - AROUND : step + AROUND])


def _kilobytes(part: object) -> float:
    return len(json.dumps(part, ensure_ascii=False).encode()) / 1e3


if __name__ == "__main__":
    main()
