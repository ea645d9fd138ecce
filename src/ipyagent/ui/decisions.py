"""How it was decided on a call, and why a person was asked."""

from __future__ import annotations

from ipyagent.schema import DecidedBy, Decision, Run, StopReason, ToolExecution, ToolStatus
from ipyagent.ui.facts import call_facts
from ipyagent.ui.reveal import reveal

_YOU = {DecidedBy.BUTTON, DecidedBy.PROMPT, DecidedBy.MAGIC}
_STANDING = {DecidedBy.SESSION: "for this session", DecidedBy.FOLDER: "for this folder"}


DRY_RUN = "dry run"


def concern(execution: ToolExecution) -> str:
    """Why a person is asked beside the tool itself, or ""."""
    return f"⚠ {reveal(execution.concern)}" if execution.concern else ""


def touches(execution: ToolExecution) -> str:
    """Return what the code of a call touches, as far as reading can tell, or ""."""
    return reveal(execution.touches or "")


def decision_text(execution: ToolExecution, mode: str = "") -> str:
    """How it was decided whether the call may run: "approved by you", "auto (yolo)"."""
    by, reason = execution.decided_by, reveal(execution.reason or "")
    match execution.decision:
        case None:
            return ""
        case Decision.AUTO:
            return f"auto ({reason or reveal(mode)})" if reason or mode else "auto"
        case Decision.APPROVED if execution.question:
            text = "answered by you"
        case Decision.APPROVED:
            text = f"approved {_STANDING.get(by, 'by you') if by else 'by you'}"
        case Decision.DENIED:
            text = "declined" if execution.question else "denied"
            text += " by you" if by in _YOU else ""
        case Decision.EXPIRED:
            text = "expired"
    return f"{text}: {reason}" if reason else text


def verdict(execution: ToolExecution) -> str:
    """The decision where a line has room for it: "" for calls that are allowed as a rule."""
    match execution.status:
        case ToolStatus.AWAITING_APPROVAL:
            return "no answer recorded" if execution.question else "no decision recorded"
        case ToolStatus.UNKNOWN:
            return "unknown outcome"
    return "" if execution.decision is Decision.AUTO else decision_text(execution)


def mark(execution: ToolExecution, run: Run) -> str:
    """What a call is called that was not meant to run, or ""."""
    planned = run.stop_reason is StopReason.PLANNED
    return ("planned" if planned else DRY_RUN) if execution.dry_run else ""


def remarks(execution: ToolExecution, run: Run) -> list[str]:
    """What is to be said about a call beside its line and its result."""
    unrun, broken = mark(execution, run), reveal(execution.call.parse_error or "")
    decided = "" if verdict(execution) else decision_text(execution, run.confirm_mode)
    texts = [
        concern(execution),
        decided,
        f"{unrun}: nothing was executed" if unrun else "",
        broken,
        call_facts(execution, run.verbose),
    ]
    return [text for text in texts if text]
