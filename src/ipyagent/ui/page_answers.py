"""Validate clicks: a page can only choose among its offers."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from ipyagent.agent.approvals import Answer
from ipyagent.schema import DecidedBy, Decision, PlanStep, Run, Scope, ToolExecution

_SCOPES = {"approve": Scope.ONCE, "always": Scope.SESSION, "folder": Scope.FOLDER}
_STEPS = TypeAdapter(tuple[PlanStep, ...])


def parse_click(given: object, about: ToolExecution | Run) -> Answer | None:
    """Return the answer in a click; None if it is no answer to the question."""
    match given:
        case {"decision": "deny", **rest}:
            reason = str(rest.get("reason") or "").strip() or None
            return Answer(Decision.DENIED, DecidedBy.BUTTON, reason)
        case {"decision": "answer", "text": str(text)} if _asks(about) and text.strip():
            return Answer(Decision.APPROVED, DecidedBy.BUTTON, text=text.strip())
        case {"decision": "edit", "plan": list(plan)} if isinstance(about, Run):
            steps = _steps(plan)
            return Answer(Decision.APPROVED, DecidedBy.BUTTON, plan=steps) if steps else None
        case {"decision": str(word)} if _SCOPES.get(word) in _offered_scopes(about):
            return Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=_SCOPES[word])
    return None


def _offered_scopes(about: ToolExecution | Run) -> tuple[Scope, ...]:
    """Return how far an approval may reach; a question is answered, not approved."""
    if isinstance(about, Run):
        return (Scope.ONCE,)
    return () if about.question else (Scope.ONCE, *about.scopes)


def _asks(about: ToolExecution | Run) -> bool:
    return isinstance(about, ToolExecution) and about.question is not None


def _steps(plan: list[Any]) -> tuple[PlanStep, ...]:
    try:
        return _STEPS.validate_python(plan)
    except ValidationError:
        return ()
