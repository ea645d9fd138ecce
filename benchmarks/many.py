"""What `ipyagent.map` costs beside `AsyncOpenAI` with a semaphore, with the same answers.

    .venv/bin/python benchmarks/many.py             2,000 items, in turn, three times; the medians
    .venv/bin/python benchmarks/many.py --items 200
    .venv/bin/python benchmarks/many.py --tools   each item is an agent that calls a tool

The service is a process of its own that answers at once. Each way is a process that asks about all
items, 64 at once, and prints the items a second of processor time, and the memory that it took.
With tools, the raw client sends the same two requests; the first 200 items are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

SERVICE = Path(__file__).parents[1] / "tests/servers/item_service.py"

COMMON = """
import asyncio, json, os, resource, sys, time
base, items, with_tools = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "tools"
first = 200 if with_tools else 1
from pydantic import BaseModel
class Label(BaseModel):
    n: int

def report(begun, before, values):
    assert values == [*range(first, items + first)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    seconds = time.process_time() - begun
    print(json.dumps({"rate": items / seconds, "kilobytes": grown / items}))

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

RAW = """
from openai import AsyncOpenAI
LOOK = {"type": "function", "function": {"name": "look", "description": "Look.",
        "parameters": {"type": "object", "properties": {}}}}
form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True,
        "schema": Label.model_json_schema() | {"additionalProperties": False}}}

async def main():
    client, gate = AsyncOpenAI(base_url=base, api_key="none"), asyncio.Semaphore(64)
    async def ask(number):
        async with gate:
            messages = [{"role": "user", "content": f"item {number}"}]
            if with_tools:
                reply = await client.chat.completions.create(
                    model="m", messages=messages, tools=[LOOK])
                [call] = reply.choices[0].message.tool_calls
                result = {"role": "tool", "tool_call_id": call.id, "content": "Seven."}
                messages += [reply.choices[0].message.to_dict(), result]
            reply = await client.chat.completions.create(
                model="m", messages=messages, response_format=form)
            return Label.model_validate_json(reply.choices[0].message.content).n
    await asyncio.gather(*map(ask, range(first)))
    before, begun = resident(), time.process_time()
    report(begun, before, await asyncio.gather(*map(ask, range(first, items + first))))

asyncio.run(main())
"""

OURS = """
import ipyagent
from ipyagent.config import Layer
settings = {"llm": {"model": "openai/m", "api_base": base, "api_key": "none"}}
def look() -> str:
    "Look."
    return "Seven."
tools = [look] if with_tools else []
ask = lambda numbers: ipyagent.map(
    "item {n}", numbers, result=Label, tools=tools, layers=[Layer("the benchmark", settings)])
ask(range(first))
before, begun = resident(), time.process_time()
report(begun, before, ask(range(first, items + first)).n.tolist())
"""


def run(code: str, *arguments: str) -> dict[str, float]:
    """Run a program in a folder of its own; return what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMON + code, *arguments]
        environ = os.environ | {"NO_PROXY": "*"}
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(items: int, repetitions: int, tools: str) -> dict[str, float]:
    """Return the rates and the growth in memory of both ways, and the ratio of the rates."""
    service = subprocess.Popen([sys.executable, str(SERVICE)], stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout
        base = f"http://127.0.0.1:{service.stdout.readline().strip()}/v1"
        given = base, str(items), tools
        pairs = [(run(RAW, *given), run(OURS, *given)) for _ in range(repetitions)]
    finally:
        service.kill()
        service.wait()
    return {
        "raw, items/s": median(raw["rate"] for raw, _ in pairs),
        "map, items/s": median(ours["rate"] for _, ours in pairs),
        "ratio (goal: 0.8)": median(ours["rate"] / raw["rate"] for raw, ours in pairs),
        "raw, kB/item": median(raw["kilobytes"] for raw, _ in pairs),
        "map, kB/item (goal: 100)": median(ours["kilobytes"] for _, ours in pairs),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int)
    parser.add_argument("--tools", action="store_const", const="tools", default="")
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    items = given.items or (1_000 if given.tools else 2_000)
    for name, value in measure(items, given.repetitions, given.tools).items():
        print(f"{name:26} {value:8.2f}")
