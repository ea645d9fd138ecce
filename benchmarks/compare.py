"""What ipyagent costs beside a raw client: CPU seconds and ratios, all measured in one run.

Each figure is the user and system time of a process of its own; the model's server runs in this
one, on loopback and without think time. Ratios hold to about ±15 % on a busy machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import memory
import steps

from servers.model_server import ModelServer, Reply, answer

FEW, MANY = 500, 5_500

LOAD = """
from IPython.core.interactiveshell import InteractiveShell
from ipyagent.magic import entry
entry.import_in_background = lambda home: None  # nobody waits for it
InteractiveShell.instance().run_line_magic("load_ext", "ipyagent")
"""
FIRST = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ipyagent")
shell.run_cell_magic("agent", "-m offline/explorer", "What can you do?")
"""
RAW = """
import openai, os
client = openai.OpenAI(base_url=os.environ["URL"], api_key="none")
stream = client.chat.completions.create(
    model="test-model", messages=[{"role": "user", "content": "Go."}], stream=True
)
text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
assert len(text) == int(os.environ["CHUNKS"]) * 5
"""
OURS = """
import os
from ipyagent import Agent
run = Agent("openai/test-model").ask("Go.")
assert len(run.output) >= int(os.environ["CHUNKS"]) * 5 - 1
"""


def cpu(code: str, **environment: str) -> float:
    """CPU seconds of a process that runs `code`."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def words(number: int) -> Reply:
    """A reply in that many chunks."""
    # Different ones: LiteLLM takes a hundred equal chunks in a row for a broken model.
    return answer("".join(f"{n:04d} " for n in range(number)), chunk_size=5)


def per_chunk(code: str, server: ModelServer) -> float:
    """CPU microseconds that one more streamed chunk costs."""
    spent = []
    for number in (FEW, MANY):
        server.replies = [words(number)]
        spent.append(
            cpu(
                code,
                URL=server.url,
                IPYAGENT_LLM__API_BASE=server.url,
                OPENAI_API_KEY="none",
                CHUNKS=str(number),
            )
        )
    return (spent[1] - spent[0]) / (MANY - FEW) * 1e6


def main() -> None:
    """Measure and print."""
    base, ipython = cpu("import openai"), cpu("import IPython")
    load = cpu(LOAD) - ipython
    print(f"import openai              {base:6.2f} s")
    print(f"%load_ext ipyagent         {load:6.2f} s    {load / base:5.2f} times (goal 0.50)")
    first = cpu(FIRST) - ipython
    print(f"first answer, no key       {first:6.2f} s    {first / base:5.2f} times (goal 1.0 s)")
    with ModelServer() as server:
        raw, ours = per_chunk(RAW, server), per_chunk(OURS, server)
    print(f"a chunk, raw openai        {raw:6.0f} µs")
    print(f"a chunk, through the loop  {ours:6.0f} µs   {ours / raw:5.2f} times (goal 4.00)")
    steps.measure()
    memory.measure()


if __name__ == "__main__":
    main()
