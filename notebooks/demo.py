"""Run the quickstart as a person would, without a page, and print what they would see.

Nothing is approved beforehand: what changes a variable is asked about, and answered here.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

HERE = Path(__file__).parent
NOTEBOOK = HERE / "01_quickstart.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"

DECISIONS = {
    "%%agent\nDrop the column year from penguins": "y",
    "%%agent\nDrop the column island from penguins": "n, it is needed later",
    "[*penguins.columns]": "",
}
"""Cells that follow the quickstart's, and the answers to their questions."""


class Demonstration:
    """Runs cells and prints them, their outputs, questions and answers."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client
        self._count = 0
        self._is_broken = False

    def run(self, source: str, answer: str = "y") -> bool:
        """Return whether the cell ran without an error."""
        self._count += 1
        prompt = f"In [{self._count}]: "
        print(prompt + source.replace("\n", "\n" + " " * len(prompt)))
        self._client.execute_interactive(
            source,
            allow_stdin=True,
            stdin_hook=lambda question: self._answer(question, answer),
            output_hook=self._show,
            timeout=300,
        )
        print()
        return not self._is_broken

    def _answer(self, question: dict[str, Any], answer: str) -> None:
        # What is printed before a question may come after it.
        with contextlib.suppress(queue.Empty):
            while True:
                self._show(self._client.get_iopub_msg(timeout=0.3))
        print(f"{question['content']['prompt']}{answer}")
        self._client.input(answer)

    def _show(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["header"]["msg_type"]:
            case "stream":
                print(content["text"], end="")
            case "execute_result" | "display_data" | "update_display_data":
                # The widget of a run stands there until the run ends.
                if WIDGET not in content["data"] and "text/plain" in content["data"]:
                    print(content["data"]["text/plain"])
            case "error":
                print(*content["traceback"], sep="\n", file=sys.stderr)
                self._is_broken = True


def main() -> int:
    """Run every cell of the quickstart on the embedded default, then two that are asked about."""
    # The embedded default, whatever keys are around.
    os.environ["IPYAGENT_LLM__MODEL"] = "offline/explorer"
    # Each demonstration is the first: no conversation of an earlier one goes on.
    os.environ["IPYAGENT_CHAT__PERSIST"] = "false"
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    manager, client = start_new_kernel(cwd=str(HERE), extra_arguments=["--log-level=ERROR"])
    try:
        demonstration = Demonstration(client)
        for cell in notebook.cells:
            if cell.cell_type != "code":
                print(f"{cell.source}\n")
            elif not demonstration.run(cell.source):
                return 1
        print("## You decide\n\nOne change is approved, the other is not.\n")
        return 0 if all(demonstration.run(*each) for each in DECISIONS.items()) else 1
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    sys.exit(main())
