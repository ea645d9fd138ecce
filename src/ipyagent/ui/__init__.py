"""The views of users: the live card, static HTML and plain text, all listeners on one stream."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipyagent.kernel.shell import Shell

_BUNDLES = {
    ("ipyagent.schema.results", "ToolResult"): "tool_result_bundle",
    ("ipyagent.schema.runs", "Run"): "saved_bundle",
    ("ipyagent.agent.session.session", "Session"): "session_bundle",
}


def register_formatters(shell: Shell) -> None:
    """Make an IPython shell show runs, results and sessions; the classes need no `_repr_html_`.

    Everything is registered by name: a shell that shows none of them need not import them.
    """
    bundles = shell.display_formatter.mimebundle_formatter
    for (module, name), function in _BUNDLES.items():
        bundles.for_type_by_name(module, name, partial(_call, function))
    plain = shell.display_formatter.formatters["text/plain"]
    plain.for_type_by_name("ipyagent.schema.results", "ToolResult", _print_result)


def _print_result(result: object, printer: Any, _cycle: bool) -> None:
    """Print a result inside something else, such as a tuple, which has text only."""
    printer.text(_call("result_text", result))


def _call(function: str, value: object) -> object:
    return getattr(import_module("ipyagent.ui.static_html"), function)(value)
