"""A fresh kernel, in which the cells of a job run: `python -m ipyagent.kernel.fresh_kernel JOB`.

    {"folder", "cells": [code, …], "names": [name, …]} → MARK [[result, …], {name: content, …}]

The kernel does not load the extension: its own functions only read what plain cells have done.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path

from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.shell import Shell, running_shell
from ipyagent.values.variables.content import describe_content

MARK = "\x1eipyagent:"
"""The last line that is printed begins so."""
_KIND = "application/vnd.ipyagent.report+json"
_STARTING = 60  # seconds
_CALL = "await __import__('ipyagent.kernel.fresh_kernel', fromlist=['_']).{}({!r})"


async def report_cell(code: str) -> None:
    """Run a cell, and publish its result; in the fresh kernel."""
    result = ShellNamespace(_shell()).run(code)
    found = await result if isinstance(result, Awaitable) else result
    _shell().display_pub.publish({_KIND: found.to_dict()})


async def report_variables(names: Sequence[str]) -> None:
    """Publish the content of variables; in the fresh kernel."""
    known = ShellNamespace(_shell()).variables()
    contents = {name: describe_content(known[name]) for name in names if name in known}
    _shell().display_pub.publish({_KIND: contents})


def main(path: str) -> None:
    """Run a job; a cell that ends its kernel has no result."""
    from jupyter_client.manager import KernelManager

    job = json.loads(Path(path).read_text(encoding="utf-8"))
    calls = [_CALL.format("report_cell", code) for code in job["cells"]]
    calls.append(_CALL.format("report_variables", job["names"]))
    manager = KernelManager(kernel_name="python3")
    # A notebook's figures are drawn inline.
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    manager.start_kernel(cwd=job["folder"], env=environment)
    client, reports = manager.blocking_client(), list[JsonDict]()

    def receive(message: JsonDict) -> None:
        if _KIND in (bundle := message["content"].get("data", {})):
            reports.append(bundle[_KIND])

    try:
        client.start_channels()
        client.wait_for_ready(timeout=_STARTING)
        for call in calls:
            client.execute_interactive(call, allow_stdin=False, output_hook=receive)
        *results, contents = reports
        print(f"\n{MARK}{json.dumps([results, contents])}", flush=True)  # noqa: T201
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _shell() -> Shell:
    shell = running_shell()
    assert shell is not None  # noqa: S101
    return shell


if __name__ == "__main__":
    main(sys.argv[1])
