"""One table of what ipyagent costs beside a raw client, all measured in one run.

    make bench              print the table, and write it to benchmarks/results/
    make bench BASE=REV     the same, beside what the code of that revision costs
    .venv/bin/python benchmarks/compare.py --only turns,steps    some of it

Times are the processor time of processes that do the same work, with a model's server in this one,
on loopback and without think time. What is compared is run in turn, several times, and the median
counts; ratios hold to about ±15 % on a busy machine.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import large
import memory
import programs
import replays
import sessions
import shared_folder
from table import Row, print_table

from servers.model_server import ModelServer, Reply, answer


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    repetitions: int = 5
    few: int = 500
    many: int = 5_500
    """Chunks of a reply: the difference is what one costs, without start and end."""
    turns: int = 25
    steps: Mapping[int, float] = field(default_factory=lambda: {10: 0.8, 100: 0.16, 1_000: 0.03})
    """Steps of history at which one more is measured, and the goals of the ratio to raw."""
    around: int = 8
    """Steps before and after each of these that are measured as well."""
    nodes: int = 3_400
    """Calls in the session that is opened."""
    work: int = memory.STEPS
    runs: tuple[int, ...] = (50, memory.STEPS)
    """Steps of work after which memory is compared, taken so many a run."""
    sentences: int = 13_000
    """Sentences of a long reply."""
    earlier: int = 300
    """Runs of the session that is returned to, of 40 kB each in the journal."""
    columns: int = 5_000
    names: int = 5_000
    folders: int = 100
    """Folders of a workspace, of a thousand files each."""
    recorded: int = 10_000
    """Runs in the journal in which a recording is looked for."""
    cells: int = 300
    """Agent cells of the notebook in which one is looked for."""
    kernels: int = 20
    """Kernels that work in one folder at once, each of which takes `each` runs."""
    each: int = 6


FULL = Scale()
TINY = Scale(
    1,
    2,
    4,
    2,
    {1: 0.8, 2: 0.16},
    around=1,
    nodes=2,
    work=2,
    runs=(1, 2),
    sentences=9,
    earlier=2,
    columns=2,
    names=20,
    folders=1,
    recorded=2,
    cells=2,
    kernels=2,
    each=1,
)
"""Enough to see that everything runs."""

SOURCE = os.environ.get("BENCH_SOURCE", "")
"""The source of another revision, measured instead of the installed one."""


class ProgramError(Exception):
    """A measured program failed."""


def run(code: str, server: ModelServer | None = None, **environment: object) -> tuple[float, Any]:
    """Return the CPU seconds of a process that runs `code`, and what it printed, as JSON."""
    environ = os.environ | {name: str(value) for name, value in environment.items()}
    # Elsewhere modules are compiled once, not at each start.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ |= {"OPENAI_API_KEY": "none", "PYTHONPATH": SOURCE}
    if server is not None:
        environ |= {"URL": server.url, "IPYAGENT_LLM__API_BASE": server.url}
    before = getrusage(RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True
        )
    if done.returncode:
        raise ProgramError(f"{code}\nfailed:\n{done.stderr}")
    after = getrusage(RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, json.loads(done.stdout) if done.stdout.strip() else None


def in_turn(scale: Scale, measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the median of each measure, taken in turn."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(scale.repetitions):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: median(each) for name, each in figures.items()}


def measure_start(scale: Scale, _server: ModelServer) -> Iterable[Row]:
    """Yield what comes before a first request."""
    codes = {
        "raw": programs.IMPORT_OPENAI,
        "ipython": programs.IMPORT_IPYTHON,
        "load": programs.LOAD,
        "explorer": programs.EXPLORER,
    }
    measures = {name: lambda code=code: run(code)[0] * 1e3 for name, code in codes.items()}
    cpu = in_turn(scale, measures)
    for label, name, goal in (
        ("%load_ext ipyagent, beside import openai", "load", 0.2),
        ("first answer of the explorer", "explorer", None),
    ):
        yield Row(label, "ms", cpu[name] - cpu["ipython"], raw=cpu["raw"], goal=goal)


def measure_chunks(scale: Scale, server: ModelServer) -> Iterable[Row]:
    """Yield what one more streamed chunk costs."""

    def per_chunk(code: str) -> float:
        spent = []
        for number in (scale.few, scale.many):
            server.replies = [_words(number)]
            spent.append(run(code, server, CHUNKS=number)[0])
        return (spent[1] - spent[0]) / (scale.many - scale.few) * 1e6

    measures = {k: lambda c=code: per_chunk(c) for k, code in programs.CHUNKS.items()}
    cpu = in_turn(scale, measures)
    yield Row("a streamed chunk", "µs", cpu["ours"], raw=cpu["raw"], http=cpu["http"], goal=0.8)


def measure_turns(scale: Scale, server: ModelServer) -> Iterable[Row]:
    """Yield what a first prompt costs, and a later one."""
    cold: dict[str, list[float]] = {name: [] for name in programs.TURNS}
    warm: dict[str, list[float]] = {name: [] for name in programs.TURNS}
    for _ in range(scale.repetitions):
        for name, code in programs.TURNS.items():
            server.replies = [answer("ok")]
            cold[name].append(run(code, server, TURNS=1)[0] * 1e3)
            server.replies = [answer("ok") for _ in range(scale.turns)]
            spent = run(code, server, TURNS=scale.turns)[1]
            warm[name].append(median(spent[scale.turns // 5 :]) * 1e3)
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


def measure_steps(scale: Scale, server: ModelServer) -> Iterable[Row]:
    """Yield what one more step costs, and what its request holds."""
    first, *_, most = scale.steps
    around = scale.around
    middle = [*scale.steps][1]
    ours = _marks(programs.STEPS["ours"], server, most + 2 * around, PERSIST="yes")
    requests = server.requests[:]
    silent = _marks(programs.STEPS["ours"], server, middle + 2 * around, PERSIST="no")
    for step, goal in scale.steps.items():
        bare = {
            name: median(_marks(programs.STEPS[name], server, 2 * around, BEFORE=step - around))
            for name in ("raw", "http")
        }
        yield Row(f"step {step:,}, all in", "ms", _at(ours, step, around), **bare, goal=goal)
    flat = _at(ours, most, around) / _at(ours, first, around)
    yield Row(f"step {most:,} beside step {first:,}", "times", flat, goal=1.5)
    recorded = _at(ours, middle, around) / _at(silent, middle, around)
    yield Row(f"step {middle:,} beside one without a record", "times", recorded)
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


def measure_rest(scale: Scale, server: ModelServer) -> Iterable[Row]:
    """Yield what is measured for itself."""
    spent = run(programs.KEY_TO_WIRE, PROMPTS=max(2, 4 * scale.repetitions))[1]
    yield Row("key to wire, warm kernel", "ms", median(spent[len(spent) // 4 :]) * 1e3, goal=15.0)
    seconds = median(run(programs.PARALLEL, TIMES=scale.repetitions)[1])
    yield Row("8 calls of 0.2 s, by the clock", "s", seconds, goal=0.25)
    server.replies = [answer("ok") for _ in range(4)]
    yield Row("memory after four turns", "MB", run(programs.MEMORY, server)[1], goal=95.0)
    with tempfile.TemporaryDirectory() as folder:
        inside = f"import os; os.chdir({folder!r})\n"
        run(inside + programs.LONG_SESSION, STEPS=scale.nodes)
        nodes, seconds = run(inside + programs.REVIVE)[1]
    yield Row(f"a session of {nodes:,} nodes is opened", "s", seconds)
    for each in scale.runs:
        grown = memory.grow(run, scale.work, each)
        label = f"memory for {scale.work:,} steps, {each:,} a run"
        yield Row(label, "MB", grown, goal=memory.GOAL)


def measure_sessions(scale: Scale, _server: ModelServer) -> Iterable[Row]:
    """Yield the costs of long replies and long sessions."""
    return sessions.measure(run, sentences=scale.sentences, runs=scale.earlier)


def measure_large(scale: Scale, _server: ModelServer) -> Iterable[Row]:
    """Yield the costs of wide tables, many variables and many files."""
    return large.measure(run, columns=scale.columns, names=scale.names, folders=scale.folders)


def measure_replays(scale: Scale, _server: ModelServer) -> Iterable[Row]:
    """Yield the costs of replays."""
    return replays.measure(run, times=scale.repetitions, runs=scale.recorded, cells=scale.cells)


def measure_kernels(scale: Scale, _server: ModelServer) -> Iterable[Row]:
    """Yield the costs of many kernels on one folder."""
    return shared_folder.measure(
        run, times=scale.repetitions, kernels=scale.kernels, runs=scale.each
    )


SECTIONS = {
    "start": measure_start,
    "turns": measure_turns,
    "chunks": measure_chunks,
    "steps": measure_steps,
    "rest": measure_rest,
    "sessions": measure_sessions,
    "large": measure_large,
    "replays": measure_replays,
    "kernels": measure_kernels,
}


def measure(scale: Scale, sections: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of all `sections`.

    Another revision may lack what a program uses: then the rest of that section is left out.
    """
    for section in sections:
        with ModelServer() as server:
            try:
                yield from SECTIONS[section](scale, server)
            except ProgramError as error:
                if not SOURCE:
                    raise SystemExit(str(error)) from None
                print(f"{section}: not all of it could be measured: {error}", file=sys.stderr)


def measure_base(revision: str, options: list[str]) -> list[Row]:
    """Return the rows of another revision's code, measured by these programs."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "worktree"]
        quiet = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*git, "add", "--quiet", "--detach", folder, revision], **quiet)
        try:
            compileall.compile_dir(f"{folder}/src", quiet=1)
            environ = os.environ | {"BENCH_SOURCE": f"{folder}/src"}
            command = [sys.executable, __file__, *options, "--json", "-"]
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
        finally:
            subprocess.run([*git, "remove", "--force", folder], **quiet)
    return [Row(**each) for each in json.loads(done.stdout)["rows"]]


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Compare CPU time with a raw client.")
    parser.add_argument("--base", metavar="REV", help="measure that revision's code as well")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by commas")
    parser.add_argument("--tiny", action="store_true", help="only see that everything runs")
    parser.add_argument("--json", metavar="PATH", help="write the figures there; -: print them")
    options = parser.parse_args()
    options.sections = options.only.split(",")
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section is named {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return options


def main() -> None:
    """Measure and print."""
    options = parse_options()
    scale = ["--tiny"] if options.tiny else []
    base = measure_base(options.base, ["--only", options.only, *scale]) if options.base else []
    rows = list(measure(TINY if options.tiny else FULL, options.sections))
    figures = {"commit": _commit("HEAD"), "rows": [row.to_dict() for row in rows]}
    if options.base:
        before = {"commit": _commit(options.base), "rows": [row.to_dict() for row in base]}
        figures["base"] = before
    if options.json == "-":
        print(json.dumps(figures))
        return
    print_table(rows, base)
    path = Path(options.json or ROOT / f"benchmarks/results/{figures['commit']}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=1))


def _commit(revision: str) -> str:
    command = ["git", "rev-parse", "--short", revision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


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


def _at(costs: list[float], step: int, around: int) -> float:
    """The usual cost around a step."""
    return median(costs[step - around : step + around])


def _kilobytes(part: object) -> float:
    return len(json.dumps(part, ensure_ascii=False).encode()) / 1e3


if __name__ == "__main__":
    main()
