"""The programs that are measured: each is run by a Python process of its own.

Each prints its figures as JSON. `raw` is the synchronous `openai` client, `http` a bare loop over
httpx, `ours` is what a user of ipyagent writes.
"""

from __future__ import annotations

_RAW_STREAM = """
import json, os, time
import openai
client = openai.OpenAI(base_url=os.environ["URL"], api_key="none")
def ask(messages, tools=openai.NOT_GIVEN):
    calls, text = {}, ""
    stream = client.chat.completions.create(
        model="test-model", messages=messages, tools=tools, stream=True
    )
    for chunk in stream:
        if not chunk.choices:
            continue
        text += chunk.choices[0].delta.content or ""
        for part in chunk.choices[0].delta.tool_calls or ():
            call = calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
            call["name"] += part.function.name or ""
            call["arguments"] += part.function.arguments or ""
    return text, list(calls.values())
"""
_HTTP_STREAM = """
import json, os, time
import httpx
client = httpx.Client()
def ask(messages, tools=None):
    calls, text = {}, ""
    body = {"model": "test-model", "messages": messages, "stream": True}
    if tools:
        body["tools"] = tools
    with client.stream("POST", os.environ["URL"] + "/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                delta = choice["delta"]
                text += delta.get("content") or ""
                for part in delta.get("tool_calls", ()):
                    function = part["function"]
                    call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
                    call["id"] = part.get("id") or call["id"]
                    call["name"] += function.get("name") or ""
                    call["arguments"] += function.get("arguments") or ""
    return text, list(calls.values())
"""
_BARE_CHUNKS = """
text, _ = ask([{"role": "user", "content": "Go."}])
assert len(text) == int(os.environ["CHUNKS"]) * 5
"""
_BARE_TURNS = """
spent = []
for _ in range(int(os.environ["TURNS"])):
    begun = time.process_time()
    ask([{"role": "user", "content": "Go."}])
    spent.append(time.process_time() - begun)
print(json.dumps(spent))
"""
_BARE_STEPS = """
schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
tools = [{"type": "function", "function": {"name": "mark", "parameters": schema}}]
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
def add(calls):
    made = [
        {"id": c["id"], "type": "function", "function": {k: c[k] for k in ("name", "arguments")}}
        for c in calls
    ]
    messages.append({"role": "assistant", "content": None, "tool_calls": made})
    for call in calls:
        text = "marked " + str(json.loads(call["arguments"])["n"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
for n in range(int(os.environ["BEFORE"])):
    add([{"id": f"before_{n}", "name": "mark", "arguments": json.dumps({"n": n})}])
marks = []
while (calls := ask(messages, tools)[1]):
    marks.append(time.process_time())
    add(calls)
print(json.dumps(marks))
"""

IMPORT_OPENAI = "import openai"
IMPORT_IPYTHON = "import IPython"
LOAD = """
from IPython.core.interactiveshell import InteractiveShell
from ipyagent import magic
magic.import_in_background = lambda home: None  # nobody waits for it
InteractiveShell.instance().run_line_magic("load_ext", "ipyagent")
"""
EXPLORER = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.io import capture_output
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ipyagent")
with capture_output():
    shell.run_cell_magic("agent", "-m offline/explorer", "What can you do?")
"""

CHUNKS = {
    "raw": _RAW_STREAM + _BARE_CHUNKS,
    "http": _HTTP_STREAM + _BARE_CHUNKS,
    "ours": """
import os
from ipyagent import Agent
run = Agent("openai/test-model").ask("Go.")
assert len(run.output) >= int(os.environ["CHUNKS"]) * 5 - 1
""",
}
TURNS = {
    "raw": _RAW_STREAM + _BARE_TURNS,
    "http": _HTTP_STREAM + _BARE_TURNS,
    "ours": """
import json, os, time
from ipyagent import Agent
agent = Agent("openai/test-model")
spent = []
for _ in range(int(os.environ["TURNS"])):
    begun = time.process_time()
    agent.ask("Go.")
    spent.append(time.process_time() - begun)
print(json.dumps(spent))
""",
}
STEPS = {
    "raw": _RAW_STREAM + _BARE_STEPS,
    "http": _HTTP_STREAM + _BARE_STEPS,
    "ours": """
import json, os, time
from ipyagent import Agent
marks = []
def mark(n: int) -> str:
    "Note the time."
    marks.append(time.process_time())
    return f"marked {n}"
agent = Agent(
    "openai/test-model", tools=[mark], max_steps=5_000, persist=os.environ["PERSIST"] == "yes"
)
run = agent.ask("Go.")
print(json.dumps(marks))
""",
}
KEY_TO_WIRE = """
import json, os, time
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.io import capture_output
from ipyagent.schema import StreamChunk
from ipyagent.wiring import environment
class Noting:
    model, context_window = "noting", None
    async def stream(self, request):
        spent.append(time.process_time() - begun)
        yield StreamChunk(data="Done.")
        yield StreamChunk(type="finish", data="stop")
spent = []
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ipyagent")
from ipyagent.wiring import environment
environment.client_for = lambda *args, **kwargs: Noting()
for _ in range(int(os.environ["PROMPTS"])):
    begun = time.process_time()
    with capture_output():
        shell.run_cell_magic("agent", "-m openai/noting", "Go.")
print(json.dumps(spent))
"""
PARALLEL = """
import asyncio, json, os, time
from ipyagent import Agent, Scripted
async def wait(n: int) -> str:
    "Wait."
    await asyncio.sleep(0.2)
    return str(n)
calls = [{"name": "wait", "arguments": {"n": n}} for n in range(8)]
spent = []
for _ in range(int(os.environ["TIMES"])):
    agent = Agent(Scripted([{"calls": calls}, "Done."]), tools=[wait])
    begun = time.perf_counter()
    run = agent.ask("Go.")
    spent.append(time.perf_counter() - begun)
    assert len(run.results) == 8
print(json.dumps(spent))
"""
MEMORY = """
import json, os
from ipyagent import Agent
agent = Agent("openai/test-model")
for _ in range(4):
    agent.ask("Go.")
with open("/proc/self/statm") as file:
    print(json.dumps(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6))
"""
LONG_SESSION = """
import os
from ipyagent import Agent, Scripted
script = [{"calls": [{"name": "list_files"}]}] * int(os.environ["STEPS"]) + ["Done."]
Agent(Scripted(script), session="long", max_steps=10_000).ask("Go.")
"""
REVIVE = """
import json, time
from pathlib import Path
from ipyagent.agent.session.sessions import Sessions
from ipyagent.store.journal import Journal
journal = Journal.open(Path(".ipyagent/state.db"))
begun = time.process_time()
session = Sessions(journal).resume("long").session
print(json.dumps([len(session.graph.nodes), time.process_time() - begun]))
"""
