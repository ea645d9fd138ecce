"""Completion in `%%agent` cells and on `%agent` lines, for every front end.

A prompt is prose: only these completions are offered there, even if there are none. Python's names,
magics and files would only be in the way.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher

log = logging.getLogger("ipyagent")

# Below magics too that run the rest of their cell as a cell.
_CELL = re.compile(r"\s*(?:%%(?:time|capture|prun)(?!\w)[^\n]*\n\s*)*%%agent(?!\S)")
_OPTIONS = re.compile(r"\s*%%agent\s+(.*)\Z")
_LINE = re.compile(r"\s*%agent\s+(.*)\Z")

FIRST = 1_000
"""The priority: before all matchers of IPython's own, which then need not start."""


class Nothing(Sequence[Any]):
    """No completions, and none from other matchers.

    IPython lets a matcher suppress the others only if it has found something, judged by length.
    """

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: object) -> Any:
        raise IndexError(index)


@context_matcher(identifier="ipyagent", priority=FIRST)  # type: ignore[untyped-decorator]
def match(context: CompletionContext) -> SimpleMatcherResult:
    """Return completions at the cursor, in a cell or on a line of ours."""
    place = _place(context)
    if place is None:
        return SimpleMatcherResult(completions=[])
    where, text = place
    try:
        # Imported at the first use: it knows the whole notebook.
        fragment, found = import_module("ipyagent.magic.completions").complete(where, text)
    except Exception:
        # IPython would print a traceback between the user's keystrokes.
        log.debug("completion failed", exc_info=True)
        fragment, found = "", []
    return SimpleMatcherResult(
        completions=found or Nothing(), matched_fragment=fragment, suppress=True, ordered=True
    )


def _place(context: CompletionContext) -> tuple[str, str] | None:
    """Return `body`, `options` or `line`, and the text of that line up to the cursor."""
    text = context.text_until_cursor
    if cell := _CELL.match(context.full_text):
        first = context.full_text.count("\n", 0, cell.end())
        if context.cursor_line > first:
            return "body", text
        options = _OPTIONS.match(text)
        return ("options", options[1]) if options and context.cursor_line == first else None
    line = _LINE.match(text)
    return ("line", line[1]) if line else None
