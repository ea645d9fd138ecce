"""The end that a page gives a run whose kernel is gone, as `store.recovery` will."""

from __future__ import annotations

from typing import Final

from ipyagent.schema import ToolStatus
from ipyagent.ui.transcribe.call import GLYPHS
from ipyagent.ui.transcribe.step import UNSENT
from ipyagent.ui.transcript import CutOff, Ending, Status


def _status(status: ToolStatus) -> Status:
    glyph, text = GLYPHS[status]
    verdict = text if status is ToolStatus.UNKNOWN else ""
    return Status(status=status, glyph=glyph, status_text=text, verdict=verdict)


_UNKNOWN, _CANCELLED = _status(ToolStatus.UNKNOWN), _status(ToolStatus.CANCELLED)

CUT_OFF: Final = CutOff(
    state="failed",
    state_text="failed",
    unsent=UNSENT,
    ending=Ending(
        title="The kernel was restarted or stopped: this run is unfinished.",
        text="Load ipyagent again (%load_ext ipyagent) to see what was recorded of it.",
        tone="error",
    ),
    # Running calls may have happened, pending ones have not.
    statuses={
        ToolStatus.RUNNING: _UNKNOWN,
        ToolStatus.PENDING: _CANCELLED,
        ToolStatus.AWAITING_APPROVAL: _CANCELLED,
    },
)
