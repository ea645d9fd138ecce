"""What one more step costs: CPU, growth of the requests, and what the record adds.

The same script is played to a raw client and to ours: each reply calls `mark`, which notes the CPU
time that its process has used so far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from statistics import median
from typing import Any

from servers.model_server import ModelServer, answer

STEPS = 310
AT = {10: 1.5, 100: 0.35, 300: None}
"""Steps of history at which one more is measured, and the goals of the ratio to raw."""

RAW = """
import json, openai, os, time
client = openai.OpenAI(base_url=os.environ["URL"], api_key="none")
schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
tools = [{"type": "function", "function": {"name": "mark", "parameters": schema}}]
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
marks = []
while True:
    calls = {}
    stream = client.chat.completions.create(
        model="test-model", messages=messages, tools=tools, stream=True
    )
    for chunk in stream:
        for part in (chunk.choices and chunk.choices[0].delta.tool_calls) or ():
            call = calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
            call["name"] += part.function.name or ""
            call["arguments"] += part.function.arguments or ""
    if not calls:
        break
    said = [
        {"id": c["id"], "type": "function", "function": {k: c[k] for k in ("name", "arguments")}}
        for c in calls.values()
    ]
    messages.append({"role": "assistant", "content": None, "tool_calls": said})
    for call in calls.values():
        marks.append(time.process_time())
        text = "marked " + str(json.loads(call["arguments"])["n"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
print(json.dumps(marks))
"""
OURS = """
import json, os, time
from ipyagent import Agent
marks = []
def mark(n: int) -> str:
    "Note the time."
    marks.append(time.process_time())
    return f"marked {n}"
agent = Agent(
    "openai/test-model", tools=[mark], max_steps=1_000, persist=os.environ["PERSIST"] == "yes"
)
run = agent.ask("Go.")
assert len(marks) == int(os.environ["STEPS"]), (run.stop_reason, run.error)
print(json.dumps(marks))
"""
SPEAK = """
import os
from ipyagent import Agent, Scripted
script = [{"calls": [{"name": "list_files"}]}] * int(os.environ["STEPS"]) + ["Done."]
Agent(Scripted(script), session="long", max_steps=10_000).ask("Go.")
"""
LOAD = """
import json, time
from pathlib import Path
from ipyagent.agent.sessions import Sessions
from ipyagent.store.journal import Journal
journal = Journal.open(Path(".ipyagent/state.db"))
begun = time.process_time()
session = Sessions(journal).resume("long").session
spent = time.process_time() - begun
events = [json.dumps(record.event.to_dict()) for record in journal.events(session.id)]
begun = time.process_time()
for text in events:
    json.loads(text)
print(json.dumps([len(session.graph.nodes), spent, time.process_time() - begun]))
"""


def printed(code: str, folder: str, **environment: str) -> Any:
    """What a process that runs `code` in `folder` prints, as JSON."""
    environ = os.environ | {"OPENAI_API_KEY": "none"} | environment
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout or b"null")


def play(code: str, server: ModelServer, *, persist: bool = False) -> list[float]:
    """CPU milliseconds of each step of a conversation."""
    server.requests.clear()
    server.replies = [
        *(answer(calls=[("mark", {"n": n}, f"call_{n}")]) for n in range(STEPS)),
        answer("Done."),
    ]
    with tempfile.TemporaryDirectory() as folder:
        marks = printed(
            code,
            folder,
            URL=server.url,
            IPYAGENT_LLM__API_BASE=server.url,
            STEPS=str(STEPS),
            PERSIST="yes" if persist else "no",
        )
    return [(after - before) * 1e3 for before, after in pairwise(marks)]


def at(costs: list[float], step: int) -> float:
    """The usual cost around a step."""
    return median(costs[step - 8 : step + 8])


def kept(bodies: list[dict[str, Any]]) -> int:
    """How many requests begin with all that the one before said."""
    return sum(
        after["messages"][: len(before["messages"])] == before["messages"]
        and after["tools"] == before["tools"]
        for before, after in pairwise(bodies)
    )


def weight(part: object) -> float:
    """Kilobytes of JSON."""
    return len(json.dumps(part, ensure_ascii=False).encode()) / 1e3


def measure() -> None:
    """Measure and print."""
    with ModelServer() as server:
        raw = play(RAW, server)
        raw_bodies = [request.body for request in server.requests]
        ours = play(OURS, server, persist=True)
        bodies = [request.body for request in server.requests]
        silent = play(OURS, server)
    for step, goal in AT.items():
        mine, theirs = at(ours, step), at(raw, step)
        aim = f" (goal {goal:.2f})" if goal else ""
        print(f"step {step:3d}, raw openai       {theirs:6.1f} ms")
        print(f"step {step:3d}, all in           {mine:6.1f} ms   {mine / theirs:5.2f} times{aim}")
    with_record, without = at(ours, 100), at(silent, 100)
    print(f"… without a record         {without:6.1f} ms   {with_record / without:5.2f} times")
    print(f"requests that extend the one before  {kept(bodies)} of {len(bodies) - 1}")
    fixed = weight(bodies[0]["messages"][0]) + weight(bodies[0]["tools"])
    print(f"system prompt and tools    {fixed:6.1f} kB (goal 6.0)")
    mine, theirs = (weight(b[-1]) - weight(b[0]) for b in (bodies, raw_bodies))
    print(f"growth of the requests     {mine:6.1f} kB   {mine / theirs:5.2f} times (goal 1.10)")
    with tempfile.TemporaryDirectory() as folder:
        printed(SPEAK, folder, STEPS="3400")
        nodes, spent, parsing = printed(LOAD, folder)
    print(f"a session of {nodes:,} nodes   {spent:6.2f} s    {spent / parsing:5.1f} times its JSON")
