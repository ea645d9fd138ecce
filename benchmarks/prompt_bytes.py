"""The fixed bytes of each request: the system prompt, and the tools by name.

python benchmarks/prompt_bytes.py            a table for each situation
python benchmarks/prompt_bytes.py --request  the whole first request about one table and a file
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ipyagent import schema
from ipyagent.agent.prompts import system_prompt
from ipyagent.agent.session.session import Session
from ipyagent.config import Config
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.namespace import Namespace, installed_packages
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import ToolDefinition
from ipyagent.store.journal import Journal
from ipyagent.ui.card import MirrorView
from ipyagent.wiring import Environment, RunFactory, RunRequest, runtime
from ipyagent.wiring.toolset import Occasion, offer_tools

OCCASIONS = {
    "a notebook without ipyagent's page": Occasion(),
    "a notebook in JupyterLab": Occasion(page_is_open=True),
    "with notes": Occasion(has_notes=True),
    "a small model": Occasion(model_is_small=True),
}


def main() -> None:
    """Print the bytes of each situation, or the whole first request."""
    with tempfile.TemporaryDirectory() as folder:
        if "--request" in sys.argv:
            print(first_request(Path(folder)))
            return
        for title, occasion in OCCASIONS.items():
            sizes = count_bytes(Path(folder), occasion)
            print(f"{title}: {sum(sizes.values()):,} bytes")
            print("\n".join(f"  {size:>6,}  {name}" for name, size in sizes.items()))


def count_bytes(root: Path, occasion: Occasion) -> Mapping[str, int]:
    """Return the bytes of the system prompt and of each tool as OpenAI's format has them."""
    environment = Environment(runtime().workspace(root), Namespace({}))
    toolbox = offer_tools(environment.toolset.build(Config()), Config(), occasion)
    prompt = len(system_prompt(installed_packages()).encode())
    tools = {each.name: len(write_tool(each)) for each in toolbox.definitions()}
    return {"system prompt": prompt, **tools}


def write_tool(definition: ToolDefinition) -> bytes:
    """Return a tool as it is sent."""
    return json.dumps(definition.to_openai(), ensure_ascii=False, separators=(",", ":")).encode()


def first_request(root: Path) -> str:
    """Return all that a model reads of the first prompt: one table, and one file beside it."""
    import pandas as pd

    table = pd.DataFrame({"name": ["Braund", "Cumings"], "Age": [22.0, None], "Fare": [7.25, 71.3]})
    table.to_csv(root / "titanic.csv", index=False)
    environment = Environment(runtime().workspace(root), Namespace({"df": table}))
    session = Session.begin(Journal.open(None), schema.Session())
    client, cell = Scripted(["22"]), Cell()
    runs = RunFactory(environment, session, client, cell, MirrorView)
    drive_sync(cell, runs.build(RunRequest("What is the mean age?", Config())))
    (request,) = client.requests
    texts = [f"[{each.role}]\n{each.text}" for each in request.messages]
    return "\n\n".join([*texts, *(write_tool(each).decode() for each in request.tools)])


if __name__ == "__main__":
    main()
