"""How well a model answers questions about tables through `%%agent` and through a bare loop.

    make effect                                    a deterministic model, without a key
    make effect MODEL=qwen3 BASE_URL=http://…/v1   a real one at an OpenAI-compatible address, whose
                                                   key is read from EFFECT_API_KEY

Both harnesses get the same prompts, a new kernel for each in a folder with all tables, and the same
model behind a server that counts requests and bytes. The table and all answers are also written as
JSON to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from harnesses import HARNESSES, Harness
from policy import Policy
from tables import write_tables
from tasks import Task, is_right, load_tasks

from servers.model_server import ModelServer, Reply, Request

Model = Callable[[Request], Reply]

MAX_REQUESTS = 100


@dataclass(frozen=True)
class Record:
    """One task through one harness. Bytes are the sum of all request bodies."""

    harness: str
    table: str
    question: str
    answer: str
    is_right: bool
    requests: int
    bytes: int
    first_bytes: int
    calls: int
    approvals: int
    tokens: int


def run_task(harness: str, task: Task, folder: Path, model: Model, name: str) -> Record:
    """Ask one question through one harness."""
    ask: Harness = HARNESSES[harness]
    with ModelServer([model] * MAX_REQUESTS) as server:
        outcome = ask(task.prompt, folder, server, name)
        sizes = [len(each.raw) for each in server.requests if each.method == "POST"]
    return Record(
        harness=harness,
        table=task.table,
        question=task.question,
        answer=outcome.text,
        is_right=is_right(outcome.text, task.solve(folder)),
        requests=len(sizes),
        bytes=sum(sizes),
        first_bytes=sizes[0] if sizes else 0,
        calls=outcome.calls,
        approvals=outcome.approvals,
        tokens=sum(sizes) // 4,
    )


def compare(
    tasks: Sequence[Task], model: Callable[[Path], Model], name: str = "plain"
) -> Iterable[Record]:
    """Yield a record for each task and harness, in turn."""
    for task in tasks:
        for harness in HARNESSES:
            with tempfile.TemporaryDirectory() as folder:
                write_tables(Path(folder))
                yield run_task(harness, task, Path(folder), model(Path(folder)), name)


def forward_to(base_url: str) -> Model:
    """Return a model that passes requests on to a real service."""
    key = os.environ.get("EFFECT_API_KEY", "none")
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def forward(request: Request) -> Reply:
        address = base_url.rstrip("/") + request.path.removeprefix("/v1")
        response = httpx.post(address, content=request.raw, headers=headers, timeout=600)
        kind = {"Content-Type": response.headers.get("Content-Type", "application/json")}
        return Reply((response.content,), status=response.status_code, headers=kind)

    return forward


def summarize(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return the sums of each harness."""
    return {
        harness: {
            "tasks": len(own),
            "right": sum(each.is_right for each in own),
            "requests": sum(each.requests for each in own),
            "calls": sum(each.calls for each in own),
            "kB sent": sum(each.bytes for each in own) / 1e3,
            "kB first request": sum(each.first_bytes for each in own) / 1e3 / max(len(own), 1),
            "tokens, about": sum(each.tokens for each in own),
            "approvals": sum(each.approvals for each in own),
        }
        for harness in HARNESSES
        if (own := [each for each in records if each.harness == harness])
    }


def print_summary(summary: dict[str, dict[str, float]]) -> None:
    """Print the harnesses beside each other."""
    ours, bare = summary["%%agent"], summary["bare loop"]
    print(f"{'':22}{'%%agent':>12}{'bare loop':>12}{'ratio':>8}")
    for name, value in ours.items():
        ratio = f"{value / bare[name]:.2f}" if bare[name] else ""
        print(f"{name:22}{value:12,.5g}{bare[name]:12,.5g}{ratio:>8}")


def main() -> None:
    """Run the tasks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="plain", help="the model id that is sent")
    parser.add_argument("--base-url", default="", help="an OpenAI-compatible address")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of tasks, from 0")
    options = parser.parse_args()
    tasks = load_tasks()
    chosen = [tasks[number] for number in options.only] if options.only else tasks
    records = []

    def plain(folder: Path) -> Model:
        return Policy(tasks, folder)

    real = forward_to(options.base_url) if options.base_url else None
    for record in compare(chosen, (lambda _: real) if real else plain, options.model):
        records.append(record)
        mark = "right" if record.is_right else "WRONG"
        print(f"{mark}  {record.harness:10} {record.requests:2} requests {record.bytes:7,} bytes")
        print(f"       {record.question[:90]}", flush=True)
    print_summary(summarize(records))
    results = ROOT / "benchmarks/results"
    results.mkdir(exist_ok=True)
    path = results / f"effect-{options.model.replace('/', '-')}.json"
    path.write_text(json.dumps([asdict(record) for record in records], indent=1))


if __name__ == "__main__":
    main()
