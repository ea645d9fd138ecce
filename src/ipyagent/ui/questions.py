"""Ask the user: by buttons if clicks arrive, by `input()` elsewhere, or not at all.

A page can only choose among its offers: `parse_click` validates its answer.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from ipyagent import schema
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.shell import Frontend
from ipyagent.kernel.threads import MainThread
from ipyagent.ui.reveal import reveal

_PLAIN = re.compile(r"[\w./ -]{1,200}")

Ask = Callable[[str], str]
"""`input`: shows a text, returns a line."""

_YES = {"y", "yes", "ok", "approve"}
_NO = {"n", "no", "deny"}
_MORE = {
    schema.Scope.SESSION: "[a]lways for this session",
    schema.Scope.FOLDER: "[f] always in this folder",
}
_WORDS = {
    "a": schema.Scope.SESSION,
    "always": schema.Scope.SESSION,
    "f": schema.Scope.FOLDER,
    "folder": schema.Scope.FOLDER,
}

_FRONT_END = "run it where somebody can approve it, such as JupyterLab or a terminal"
_UNASKED = (
    "let everything run unasked (`%%agent --confirm yolo`, or IPYAGENT_AGENT__CONFIRM_MODE=yolo "
    "in the environment)"
)
_RULE = "allow it by a rule (in the environment: IPYAGENT_POLICY__RULES='[{rule}]')"


CAPTURED = (
    "it needs approval, and what is asked cannot be shown, because this cell's output "
    "is captured. Run it without %%capture."
)


class NoAsker:
    """Declines every question at once, and says how to allow it: nobody can be asked."""

    async def ask(self, approval: Approval) -> None:
        """Decline."""
        raise NoFrontendError(_decline(approval))


def _decline(approval: Approval) -> str:
    about = approval.subject
    if isinstance(about, schema.Run):
        return "the plan needs approval and nobody can be asked here"
    if about.question:
        return "nobody can be asked here"
    # Calls that always ask also ask in yolo.
    always = about.concern is not None and not about.scopes
    ways = [_FRONT_END]
    if schema.Scope.FOLDER in about.scopes:  # elsewhere a rule would not do
        ways.append(_RULE.format(rule=_allowing(about)))
    if not always:
        ways.append(_UNASKED)
    *others, last = ways
    way = f"{', '.join(others)}, or {last}" if others else last
    return f"it needs an approval and nobody can be asked here. To have it run: {way}."


def _allowing(execution: schema.ToolExecution) -> str:
    """Return the rule that allows such a call: the tool, for the file of the call."""
    path = execution.call.arguments.get("path")
    where = (
        f", path: {json.dumps(path)}" if isinstance(path, str) and _PLAIN.fullmatch(path) else ""
    )
    return f"{{effect: allow, tool: {execution.call.name}{where}}}"


class InputAsker:
    """Asks by `input()`, on the main thread."""

    def __init__(
        self, main: MainThread, approvals: Approvals, show: Callable[[Approval], object]
    ) -> None:
        self.main, self.approvals, self.show = main, approvals, show
        self._turn = asyncio.Lock()

    async def ask(self, approval: Approval) -> None:
        """Show everything to decide on and wait for a clear answer."""
        if isinstance(sys.stdout, io.StringIO):
            raise NoFrontendError(CAPTURED)
        async with self._turn:
            self.show(approval)
            while not approval.answer.done():
                job = self.main.post(lambda: _ask_once(approval, input))
                if (answer := await asyncio.wrap_future(job)) is not None:
                    self.approvals.decide(approval.id, answer)


def choose_asker(frontend: Frontend, prompt: InputAsker) -> InputAsker | NoAsker:
    """Return what asks where no button can be clicked: `prompt`, if `input()` reaches a user."""
    return prompt if frontend.can_input else NoAsker()


def print_approval(approval: Approval) -> None:
    """Print all that an approval is about."""
    from ipyagent.ui.plain_text import request_text  # most runs of scripts ask nothing

    print(request_text(approval.subject, color=False), flush=True)  # noqa: T201


def _ask_once(approval: Approval, ask: Ask) -> Answer | None:
    """Ask once; return None for an unclear answer."""
    about = approval.subject
    try:
        if isinstance(about, schema.Run):
            return parse_answer(ask("Run this plan? [y]es, [n]o, or n and a reason: "), ())
        if about.question:
            return parse_reply(ask("Your answer, or Enter to decline: "), about.question)
        covers = f" ({reveal(about.covers)})" if about.covers and about.scopes else ""
        offers = "".join(
            f"{text}{covers}, " for scope, text in _MORE.items() if scope in about.scopes
        )
        words = f"[y]es, {offers}[n]o, or n and a reason: "
        return parse_answer(ask(f"Run {reveal(about.call.name)}? {words}"), about.scopes)
    except EOFError:
        if isinstance(about, schema.Run):  # it can wait
            raise NoFrontendError("nobody answered (end of input)") from None
        reason = "nobody answered (end of input)"
        return Answer(schema.Decision.DENIED, schema.DecidedBy.PROMPT, reason)


def parse_answer(text: str, scopes: Sequence[schema.Scope]) -> Answer | None:
    """Parse a typed answer; None if it is neither yes nor no, nor one of the `scopes`."""
    word, _, reason = text.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in _NO:
        return Answer(schema.Decision.DENIED, schema.DecidedBy.PROMPT, reason.strip() or None)
    scope = schema.Scope.ONCE if word in _YES else _WORDS.get(word)
    if scope is not None and scope in (schema.Scope.ONCE, *scopes):
        return Answer(schema.Decision.APPROVED, schema.DecidedBy.PROMPT, scope=scope)
    return None


def parse_reply(text: str, question: schema.Question) -> Answer:
    """Return the answer to a question: a choice by its number, or the user's own words."""
    text = text.strip()
    if not text:
        return Answer(schema.Decision.DENIED, schema.DecidedBy.PROMPT)
    number = int(text) if text.isdecimal() else 0
    chosen = question.choices[number - 1] if 1 <= number <= len(question.choices) else text
    return Answer(schema.Decision.APPROVED, schema.DecidedBy.PROMPT, text=chosen)


def choose(question: str, choices: Sequence[str]) -> str:
    """Return one of `choices`, by number; the first for an empty answer. On the main thread."""
    rows = "\n".join(f"  {number}  {choice}" for number, choice in enumerate(choices, 1))
    while True:
        text = input(f"{question}\n{rows}\nNumber [1]: ").strip() or "1"
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]


_SCOPES = {
    "approve": schema.Scope.ONCE,
    "always": schema.Scope.SESSION,
    "folder": schema.Scope.FOLDER,
}


def parse_click(given: object, about: schema.ToolExecution | schema.Run) -> Answer | None:
    """Return the answer in a click; None if it does not answer the question."""
    asks = None if isinstance(about, schema.Run) else about.question is not None
    match given:
        case {"decision": "deny", **rest}:
            reason = str(rest.get("reason") or "").strip() or None
            return Answer(schema.Decision.DENIED, schema.DecidedBy.BUTTON, reason)
        case {"decision": "answer", "text": str(text)} if asks and text.strip():
            return Answer(schema.Decision.APPROVED, schema.DecidedBy.BUTTON, text=text.strip())
        case {"decision": "edit", "calls": [{"arguments": dict(arguments)}]} if asks is False:
            return Answer(schema.Decision.APPROVED, schema.DecidedBy.BUTTON, arguments=arguments)
        case {"decision": "edit", "calls": list(calls)} if asks is None and (
            steps := _steps(calls)
        ):
            return Answer(schema.Decision.APPROVED, schema.DecidedBy.BUTTON, plan=steps)
        case {"decision": str(word)} if _SCOPES.get(word) in _offered_scopes(about):
            return Answer(schema.Decision.APPROVED, schema.DecidedBy.BUTTON, scope=_SCOPES[word])
    return None


def _offered_scopes(about: schema.ToolExecution | schema.Run) -> tuple[schema.Scope, ...]:
    """Return how far an approval may reach; a question is answered, not approved."""
    if isinstance(about, schema.Run):
        return (schema.Scope.ONCE,)
    return () if about.question else (schema.Scope.ONCE, *about.scopes)


def _steps(calls: list[object]) -> tuple[schema.PlanStep, ...]:
    """Return the steps of a plan that the user edited; none if they are not valid."""
    from ipyagent.ui.messages import Edit  # no page is there for most runs of scripts

    try:
        edited = Edit.model_validate({"calls": calls}).calls
        return tuple(
            [
                schema.PlanStep(
                    call=schema.ToolCall(id=each.id, name=each.name, arguments=each.arguments),
                    note=each.note,
                )
                for each in edited
            ]
        )
    except ValidationError:
        return ()
