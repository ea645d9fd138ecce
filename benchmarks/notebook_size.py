"""The size of 300 agent cells in a notebook's file: bytes of each format per byte that was said.

A cell's run has three steps with three calls between them, thinking, and an answer of 300 words.
What was said is the text of prompt, thinking, arguments, results and answer, as UTF-8.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

from ipyagent import Session
from ipyagent.json_types import JsonDict
from ipyagent.schema import (
    DecidedBy,
    Decision,
    Message,
    Role,
    Run,
    RunStatus,
    Step,
    StopReason,
    TextContent,
    ThinkingContent,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.ui.static_html import saved_bundle

CELLS = 300
GOAL = 2.5
"""Bytes in the file per byte that was said."""

WORDS = [
    "revenue",
    "region",
    "north",
    "south",
    "quarter",
    "table",
    "column",
    "value",
    "missing",
    "mean",
    "median",
    "share",
    "orders",
    "customers",
    "because",
    "where",
    "which",
    "rises",
    "falls",
    "again",
    "between",
    "the",
    "a",
    "of",
    "in",
    "and",
    "to",
    "by",
    "with",
    "for",
]


def write_words(chance: random.Random, number: int) -> str:
    """Return sentences of so many words in all."""
    words = [chance.choice(WORDS) for _ in range(number)]
    groups = [words[at : at + 12] for at in range(0, number, 12)]
    return " ".join(" ".join(group).capitalize() + "." for group in groups)


def calls_of(chance: random.Random) -> list[tuple[str, JsonDict, str]]:
    """Return the calls of a run: a look at a table, a computation, a file."""
    rows = "\n".join(
        f"{name:<8}{chance.random() * 1e4:>12.2f}{chance.randrange(10_000):>8}"
        for name in ("North", "South", "East", "West", "Centre", "Abroad", "Online", "Other")
    )
    code = (
        "by_region = sales.groupby('region')['revenue'].agg(['sum', 'count'])\n"
        "share = by_region['sum'] / by_region['sum'].sum()\n"
        f"share[share > 0.{chance.randrange(99)}]"
    )
    return [
        ("inspect_variable", {"name": "sales"}, f"DataFrame, 18,204 rows x 9 columns\n{rows}"),
        ("run_python", {"code": code}, rows),
        ("read_file", {"path": f"notes/{chance.randrange(999)}.md"}, write_words(chance, 100)),
    ]


def make_run(number: int) -> Run:
    """Return a finished run whose words differ from all other runs' words."""
    chance = random.Random(number)
    steps = []
    for place, (name, arguments, output) in enumerate(calls_of(chance), 1):
        call = ToolCall(id=f"call_{number}_{place}", name=name, arguments=arguments)
        thinking = ThinkingContent(thinking=write_words(chance, 40))
        execution = ToolExecution(
            call=call,
            status=ToolStatus.SUCCESS,
            decision=Decision.AUTO,
            decided_by=DecidedBy.POLICY,
            result=ToolResult(output=output),
            duration=0.1,
        )
        content = (thinking, TextContent(text=write_words(chance, 12)), call)
        steps.append((content, (execution,), "tool_calls"))
    answer = (TextContent(text=write_words(chance, 300)),)
    steps.append((answer, (), "stop"))
    return Run(
        id=f"{number:032x}",
        prompt=write_words(chance, 15),
        model="anthropic/claude-sonnet",
        status=RunStatus.DONE,
        stop_reason=StopReason.FINISHED,
        duration=12.5,
        steps=tuple(
            Step(
                number=at,
                message=Message(role=Role.ASSISTANT, content=content, timestamp=datetime.now(UTC)),
                finish_reason=reason,
                usage=TokenUsage(input_tokens=5_000 + at, output_tokens=300),
                cost_usd=0.004,
                executions=executions,
            )
            for at, (content, executions, reason) in enumerate(steps, 1)
        ),
    )


def said_in(run: Run) -> Iterator[str]:
    """Yield all that was said in a run."""
    yield run.prompt
    for step in run.steps:
        for block in step.message.content if step.message else ():
            match block:
                case TextContent(text=text):
                    yield text
                case ThinkingContent(thinking=thinking):
                    yield thinking
                case ToolCall(arguments=arguments):
                    yield from map(str, arguments.values())
        for execution in step.executions:
            if execution.result:
                yield execution.result.output


def write_notebook(runs: list[Run], path: Path) -> Counter[str]:
    """Write a notebook with a cell for each run; return the bytes in it for each format."""
    notebook, sizes = nbformat.v4.new_notebook(), Counter[str]()
    for run in runs:
        bundle = saved_bundle(run)
        for mime, data in bundle.items():
            sizes[mime] += len(json.dumps(nbformat_lines(mime, data), ensure_ascii=False).encode())
        output = nbformat.v4.new_output("display_data", data=bundle)
        source = f"%%agent\n{run.prompt}"
        notebook.cells.append(nbformat.v4.new_code_cell(source, outputs=[output]))
    nbformat.write(notebook, path)
    return sizes


def nbformat_lines(mime: str, data: object) -> object:
    """Return the data as a notebook keeps it: text as a list of lines."""
    return data.splitlines(keepends=True) if isinstance(data, str) else data


def main() -> None:
    """Print the bytes of each format per byte that was said, and times."""
    runs = [make_run(number) for number in range(CELLS)]
    said = sum(len(text.encode()) for run in runs for text in said_in(run))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "large.ipynb"
        start = time.process_time()
        sizes = write_notebook(runs, path)
        made, whole = time.process_time() - start, path.stat().st_size
        start = time.process_time()
        assert len(Session.load(path).record.messages) >= CELLS
        loaded = time.process_time() - start
    print(f"{CELLS} cells, {said / CELLS:,.0f} bytes said in each")
    for mime, size in sizes.items():
        print(f"{mime:45} {size / CELLS:>8,.0f} {size / said:>6.2f} x")
    print(f"{'the file':45} {whole / CELLS:>8,.0f} {whole / said:>6.2f} x  (goal {GOAL} x)")
    print(f"made in {made:.2f} s, loaded as a session in {loaded:.2f} s CPU")


if __name__ == "__main__":
    main()
