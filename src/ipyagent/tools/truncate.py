"""Truncation of long outputs: beginning and end for the model, the full text in a file."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.digests import digest_bytes
from ipyagent.errors import AgentError
from ipyagent.schema import STANDARD, TruncatedOutput, TruncationConfig
from ipyagent.tools.folder import MAX_BYTES
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.workspace import Workspace

_BETWEEN = "\n…\n\n"  # the line breaks around the cut, and before the footer
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # what str.splitlines splits at


class OutputStore:
    """Full texts of long outputs, in `.ipyagent/outputs/`, where read_file can read them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def save(self, text: str) -> str:
        """Write a text and return its path in the workspace; equal texts share one file.

        Raises AgentError if the workspace cannot be written.
        """
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > MAX_BYTES:
            # A character that is cut in two would make the file unreadable.
            data = data[:MAX_BYTES].decode("utf-8", "ignore").encode()
        name = f"outputs/{digest_bytes(data)[:12]}.txt"
        state = self._workspace.state_folder()
        if state.stat(name) is None:
            state.write_atomic(name, data)
        return f"{STATE}/{name}"


def truncate(
    text: str,
    *,
    tool: str,
    save: Callable[[str], str] | None,
    limits: TruncationConfig = STANDARD,
) -> tuple[str, TruncatedOutput | None]:
    """Return the text if it fits, else beginning, end and a footer within the limits.

    `save` saves the full text and returns its path; if it cannot, the footer says so.
    """
    lines = text.splitlines(keepends=True)
    max_chars, max_lines = limits.max_chars, limits.max_lines
    if not limits.enabled or (len(text) <= max_chars and len(lines) <= max_lines):
        return text, None
    cut = TruncatedOutput(
        tool_name=tool,
        original_chars=len(text),
        original_lines=len(lines),
        path=_save_full_text(text, save),
    )
    # All of it missing makes the longest footer, so the real one fits where that does.
    brief = len(_format_footer(cut, len(text))) > max_chars // 2
    footer = _format_footer(cut, len(text), brief=brief)
    room = max(0, max_chars - len(footer) - len(_BETWEEN))
    rows = max(0, max_lines - 2)
    head = "".join(lines[: rows - rows // 2])[: room - room // 2].rstrip(_BREAKS)
    tail = "".join(lines[max(0, len(lines) - rows // 2) :])
    tail = tail[max(0, len(tail) - room // 2) :].rstrip(_BREAKS)
    footer = _format_footer(cut, len(text) - len(head) - len(tail), brief=brief)
    parts = (head, "…", tail, footer) if max_lines > 1 else (footer,)
    return "\n".join(part for part in parts if part)[-max_chars:], cut


def _save_full_text(text: str, save: Callable[[str], str] | None) -> str | None:
    try:
        return save(text) if save else None
    except (AgentError, OSError):
        return None


def _format_footer(cut: TruncatedOutput, missing: int, *, brief: bool = False) -> str:
    where = f"read_file {cut.path} has all" if cut.path else "the full text could not be saved"
    if brief:
        return f"[cut; {where}]"
    return (
        f"[{missing:,} of {cut.original_chars:,} characters ({cut.original_lines:,} lines) "
        f"are left out at the …; {where}]"
    )
