"""How IPython shows our objects, so that the classes need no `_repr_html_` of their own."""

from __future__ import annotations

from typing import Any

from ipyagent.kernel.protocols import Shell
from ipyagent.schema import Run, ToolResult
from ipyagent.ui import mirror, wording
from ipyagent.ui.format import clipped, plural, shorten
from ipyagent.ui.graph import graph_svg, graph_text


def register(shell: Shell) -> None:
    """Teach an IPython shell to show runs and results."""
    bundles = shell.display_formatter.mimebundle_formatter
    bundles.for_type(ToolResult, tool_result_bundle)
    bundles.for_type(Run, run_bundle)
    # By name: a shell that shows no session need not import what makes one.
    bundles.for_type_by_name("ipyagent.agent.session", "Session", session_bundle)
    plain = shell.display_formatter.formatters["text/plain"]
    # In a tuple, such as `ipyagent.last.results`, only the text counts.
    plain.for_type(ToolResult, lambda result, printer, cycle: printer.text(result_text(result)))


def run_bundle(run: Run) -> dict[str, object]:
    """A run as it is shown in a notebook."""
    return mirror.bundle(run)


def session_bundle(session: Any) -> dict[str, str]:
    """A session as its conversation's graph; it has a `name`, a `graph` and a `head`.

    An SVG output is drawn as an image, so what is in it cannot reach the page.
    """
    graph, head = session.graph, session.head
    title = f"Session {shorten(session.name)}".strip() + f" · {plural(len(graph), 'node')}"
    text = "\n".join(line for line in (title, graph_text(graph, head)) if line)
    return {"image/svg+xml": graph_svg(graph, head), "text/plain": text}


def tool_result_bundle(result: ToolResult) -> dict[str, str]:
    """A tool's result as it is shown in a notebook."""
    return {"text/html": mirror.result_html(result), "text/plain": result_text(result)}


def result_text(result: ToolResult) -> str:
    """A result as text: how it went, what it said, and what it holds besides."""
    holds = [
        plural(len(result.images), "image") if result.images else "",
        plural(len(result.displays), "display") if result.displays else "",
        wording.truncation_text(result.truncated) if result.truncated else "",
    ]
    head = " · ".join(["✓" if result.success else "✗", *(each for each in holds if each)])
    text = clipped(wording.output_text(result), "in its .output")
    return f"{head}{chr(10) if chr(10) in text else ' '}{text}".rstrip()
