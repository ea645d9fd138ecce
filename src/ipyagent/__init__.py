"""An agent that lives in your notebook's kernel: `%load_ext ipyagent`, then `%%agent`.

Importing this does nothing else: names are resolved at first use.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipyagent.agent.session.session import Session
    from ipyagent.api import Agent
    from ipyagent.llm.scripted import Scripted
    from ipyagent.many import amap as amap, map as map  # noqa: A004
    from ipyagent.schema import Run, ToolResult
    from ipyagent.tools.base import BaseTool, Tool, tool

    last: Run | None

__all__ = [
    "Agent",
    "BaseTool",
    "Run",
    "Scripted",
    "Session",
    "Tool",
    "ToolResult",
    "last",
    "load_ipython_extension",
    "tool",
]

__version__ = "0.2.0"

_HOMES = {
    "Agent": "ipyagent.api",
    "BaseTool": "ipyagent.tools.base",
    "Run": "ipyagent.schema",
    "Scripted": "ipyagent.llm.scripted",
    "Session": "ipyagent.agent.session.session",
    "Tool": "ipyagent.tools.base",
    "ToolResult": "ipyagent.schema",
    "amap": "ipyagent.many",
    "map": "ipyagent.many",
    "tool": "ipyagent.tools.base",
}


def __getattr__(name: str) -> Any:
    if name == "last":
        return import_module("ipyagent.wiring").runtime().last_run
    if name in _HOMES:
        _imports().guard()
        if "ipyagent.magic" in sys.modules:
            import_module("ipyagent.magic").finish_import()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ipyagent' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Load the extension, for `%load_ext ipyagent`."""
    _imports().guard()
    import_module("ipyagent.magic").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension, for `%unload_ext ipyagent`."""
    import_module("ipyagent.magic").unload(shell)
    _imports().unguard()


def _imports() -> Any:
    return import_module("ipyagent.imports")


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "ipyagent"}]
