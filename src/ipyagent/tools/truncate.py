"""Long outputs: beginning and end for the model, the whole of it in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ipyagent.errors import AgentError
from ipyagent.schema import Truncation
from ipyagent.tools.folder import MAX_BYTES
from ipyagent.tools.names import STATE
from ipyagent.tools.workspace import Workspace

_GAP = "\n…\n"
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # what str.splitlines splits at


class OutputStore:
    """Full texts of long outputs, in `.ipyagent/outputs/`, where read_file may read them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def save(self, text: str) -> str:
        """Write a text and return its path in the workspace; equal texts share one file.

        Raises AgentError where the workspace cannot be written.
        """
        data = text.encode("utf-8", "backslashreplace")[:MAX_BYTES]
        name = f"outputs/{hashlib.sha256(data).hexdigest()[:12]}.txt"
        state = self._workspace.state()
        if state.stat(name) is None:
            state.write_atomic(name, data)
        return f"{STATE}/{name}"


def truncate(
    text: str,
    *,
    save: Callable[[str], str] | None,
    max_chars: int = 30_000,
    max_lines: int = 1_000,
) -> tuple[str, Truncation | None]:
    """The text if it fits, else its beginning and end and a footer, together within the limits.

    `save` keeps the full text and returns where; if it cannot, the footer says so.
    """
    lines = text.splitlines(keepends=True)
    if len(text) <= max_chars and len(lines) <= max_lines:
        return text, None
    cut = Truncation(original_chars=len(text), original_lines=len(lines), path=_saved(text, save))
    # All of it missing makes the longest footer, so the real one fits where that does.
    room = max(0, max_chars - len(_footer(cut, len(text))) - len(_GAP) - 1)
    rows = max(0, max_lines - 2)
    head = "".join(lines[: rows - rows // 2])[: room - room // 2].rstrip(_BREAKS)
    tail = "".join(lines[max(0, len(lines) - rows // 2) :])
    tail = tail[max(0, len(tail) - room // 2) :].rstrip(_BREAKS)
    missing = len(text) - len(head) - len(tail)
    return f"{head}{_GAP}{tail}\n{_footer(cut, missing)}"[-max_chars:], cut


def _saved(text: str, save: Callable[[str], str] | None) -> str | None:
    try:
        return save(text) if save else None
    except (AgentError, OSError):
        return None


def _footer(cut: Truncation, missing: int) -> str:
    where = f"read_file {cut.path} has all" if cut.path else "the full text could not be saved"
    return (
        f"[{missing:,} of {cut.original_chars:,} characters ({cut.original_lines:,} lines) "
        f"are left out at the …; {where}]"
    )
