"""What scripted models reply, in the notebooks of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOAD = "%load_ext ipyagent"


def script(folder: Path, name: str, *replies: Any) -> str:
    """Write a model that gives these replies; return the option that chooses it."""
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(list(replies)))
    return f"-m scripted/{name}.yaml"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def python(code: str, **more: Any) -> dict[str, Any]:
    """A reply that runs code."""
    return {"calls": [call("run_python", code=code)], **more}


def plan(name: str) -> dict[str, Any]:
    """A reply that proposes a file and code that reads it."""
    return {
        "thinking": "Two steps will do.",
        "text": "1. Write the summary.\n2. Count its words.",
        "calls": [
            call("write_file", path=f"{name}.md", content="# Summary\n\nAll is well.\n"),
            call("run_python", code=f"words = len(open('{name}.md').read().split())\nwords"),
        ],
    }
