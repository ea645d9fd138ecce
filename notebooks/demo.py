"""Run the quickstart as a person would, headless, and print what they would see."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent
NOTEBOOK = HERE / "01_quickstart.ipynb"


def main() -> int:
    """Execute every cell on the embedded default and print cells and outputs."""
    # The embedded default whatever keys are around, and nobody to ask.
    os.environ["IPYAGENT_LLM__MODEL"] = "offline/explorer"
    os.environ["IPYAGENT_AGENT__CONFIRM_MODE"] = "yolo"
    # Each demonstration is the first: no conversation of an earlier one goes on.
    os.environ["IPYAGENT_CHAT__PERSIST"] = "false"
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, resources={"metadata": {"path": str(HERE)}})
    client.extra_arguments = ["--log-level=ERROR"]
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    for cell in notebook.cells:
        print(transcript(cell))
    return 0


def transcript(cell: nbformat.NotebookNode) -> str:
    """A cell and its outputs as plain text."""
    if cell.cell_type != "code":
        return f"\n{cell.source}\n"
    prompt = f"In [{cell.execution_count}]: "
    source = cell.source.replace("\n", "\n" + " " * len(prompt))
    outputs = [
        output.text if output.output_type == "stream" else output.data.get("text/plain", "")
        for output in cell.outputs
        if output.output_type in ("stream", "display_data", "execute_result")
    ]
    return "\n".join([prompt + source, *outputs])


if __name__ == "__main__":
    sys.exit(main())
