"""Runs, results and sessions for IPython's display: MIME bundles and text."""

from __future__ import annotations

from typing import Any

from ipyagent.phrases import plural
from ipyagent.plaintext import visible
from ipyagent.schema import Run, ToolResult
from ipyagent.ui import static_html
from ipyagent.ui.formatting import clip_output, shorten
from ipyagent.ui.graph_mermaid import graph_mermaid
from ipyagent.ui.graph_text import graph_text
from ipyagent.ui.transcribe.result import output_text, truncation_text


def run_bundle(run: Run) -> dict[str, object]:
    """Return a run's bundle for a notebook."""
    return static_html.saved_bundle(run)


def session_bundle(session: Any) -> dict[str, str]:
    """Return a session's graph, which JupyterLab draws; it has a `name`, `graph` and `head`."""
    graph, head = session.graph, session.head
    title = f"Session {shorten(session.name)}".strip() + f" · {plural(len(graph), 'node')}"
    text = "\n".join(line for line in (title, graph_text(graph, head)) if line)
    mermaid = graph_mermaid(graph, head)
    return {"text/plain": text} | ({"text/vnd.mermaid": mermaid} if mermaid else {})


def tool_result_bundle(result: ToolResult) -> dict[str, str]:
    """Return a tool result's bundle for a notebook."""
    return {"text/html": static_html.result_html(result), "text/plain": result_text(result)}


def result_text(result: ToolResult) -> str:
    """Return a result as text: outcome, output, and what else it holds."""
    holds = [
        plural(len(result.images), "image") if result.images else "",
        plural(len(result.displays), "display") if result.displays else "",
        truncation_text(result.truncated) if result.truncated else "",
    ]
    head = " · ".join(["✓" if result.success else "✗", *(each for each in holds if each)])
    text = clip_output(visible(output_text(result)), "in its .output")
    return f"{head}{chr(10) if chr(10) in text else ' '}{text}".rstrip()
