"""A fresh kernel that runs cells, and prints their results: a program of its own.

Its argument names a file with `{"folder": where the kernel starts, "cells": [code, …]}`; the last
line that is printed is MARK and the results. The extension is not loaded in that kernel.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.shell import running_shell
from ipyagent.schema import Display, ToolResult, VariableChange
from ipyagent.values.variables.content import describe_content

MARK = "\x1eipyagent:"
_KIND = "application/vnd.ipyagent.result+json"
_STARTING = 60  # seconds
_HEAD = 64  # characters of an image, which hold its size
_CALL = "await __import__('ipyagent.tools.fresh_kernel', fromlist=['_']).run_cell({!r}, {})"


async def run_cell(code: str, is_last: bool) -> None:
    """Run a cell, and publish its result, the last one with all variables; in the fresh kernel."""
    shell = running_shell()
    assert shell is not None  # noqa: S101
    namespace = ShellNamespace(shell)
    result = namespace.run(code)
    result = await result if inspect.isawaitable(result) else result
    result = pack_result(result, namespace.variables() if is_last else {})
    shell.display_pub.publish({_KIND: result.to_dict()})


def pack_result(result: ToolResult, variables: Mapping[str, object]) -> ToolResult:
    """Return what is compared of a result, and of these variables, as if it had made them."""
    made = (
        VariableChange(name=name, change="created", content=describe_content(value))
        for name, value in variables.items()
    )
    images = (each.model_copy(update={"data": each.data[:_HEAD]}) for each in result.images)
    displays = (Display(data=dict.fromkeys(each.data, "")) for each in result.displays)
    sent = {"variables": made, "images": images, "displays": displays}
    return result.model_copy(update={key: tuple(values) for key, values in sent.items()})


def main(path: str) -> None:
    """Run a job. A cell that ends its kernel, and those after it, have no results."""
    from jupyter_client.manager import KernelManager

    job, results = json.loads(Path(path).read_text(encoding="utf-8")), list[JsonDict]()
    manager = KernelManager(kernel_name="python3")
    # A notebook's figures are drawn inline.
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    manager.start_kernel(cwd=job["folder"], env=environment)
    client = manager.blocking_client()
    process = manager.provisioner.process  # type: ignore[union-attr]

    def receive(message: JsonDict) -> None:
        if _KIND in (bundle := message["content"].get("data", {})):
            results.append(bundle[_KIND])

    def print_results() -> NoReturn:
        process.wait()
        print(f"\n{MARK}{json.dumps(results)}", flush=True)  # noqa: T201
        os._exit(0)  # the main thread may wait for a kernel that is gone

    printing = threading.Thread(target=print_results)
    printing.start()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_STARTING)
        for number, code in enumerate(job["cells"], 1):
            call = _CALL.format(code, number == len(job["cells"]))
            client.execute_interactive(call, allow_stdin=False, output_hook=receive)
    finally:
        manager.shutdown_kernel(now=True)
        printing.join()


if __name__ == "__main__":
    main(sys.argv[1])
