"""Plans: calls that the user sees as a whole, before any of them runs.

planning run ─▶ reply whose calls are all valid ─▶ draft in the journal ─▶ shown to the user

They are tried before the user decides on them: each step on top of those before it. A reply of
nothing but code that changes nothing is no plan: the model looks before it proposes.

After a step failed only some changed commands may be proposed to the user.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from ipyagent import schema
from ipyagent.agent.call_checks import check_unredacted, show_code
from ipyagent.agent.policy import Arguments, CallPolicy, Effect, Verdict
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import ToolContext
from ipyagent.errors import AgentError
from ipyagent.schema.runs import AS_DRAFT
from ipyagent.store.runs import plan_name
from ipyagent.syntax import try_parse
from ipyagent.tools.base import Tool, Toolbox, Where, get_command, replace_command
from ipyagent.tools.rehearsed import RehearsalContext, Rehearsed
from ipyagent.tools.static_analysis import Effects

PLANNED_OUTPUT = "Planned: runs once the plan is approved."

NEEDS_NOTEBOOK = (
    "cannot run in the background, because {step} works with the notebook's variables or cells"
)

NO_QUESTIONS = "nothing can be asked within a plan: ask in words, without calls, before you plan"

APPROVED = """\
<plan>
The user approved the plan {plan_id}{changed}. Its calls run now, one after the other.
</plan>\
"""

CHANGED = " after they changed it: what runs is what you see below"

OTHER_CODE = "its code is not what you approved"

CONCERN_MARK = "⚠ "
"""Starts a line of a step's note that says why its call would be asked about."""

_NUMBERED = re.compile(r"(?m)^[ \t]*\d+[.)]\s+(\S.*)$")


@dataclass(frozen=True)
class PlanningPolicy:
    """A policy for calls that are only planned."""

    policy: CallPolicy

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call; questions cannot be part of a plan."""
        if tool.question is not None:
            return Verdict(Effect.DENY, reason=NO_QUESTIONS)
        return self.policy.evaluate(tool, arguments, effects)

    def grant(self, tool: Tool, scope: schema.Scope, effects: Effects | None = None) -> None:
        """Do nothing: nothing is asked, so nothing is allowed."""


@dataclass(frozen=True)
class ApprovedStepPolicy:
    """A policy for the calls of a step that the user approved; all others are judged as usual.

    An approval is for the code that was shown, where the arguments only name it.
    """

    policy: CallPolicy
    step: schema.PlanStep
    by: schema.DecidedBy
    objection: str = ""
    """Why the approval is not for what would run now."""

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call. Rules that deny it, and new reasons to ask, still count."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        call = self.step.call
        if tool.name != call.name or arguments != tool.check_arguments(call.arguments):
            return verdict
        asks = tool.always_asks(**arguments) if tool.always_asks else None
        if verdict.effect is Effect.DENY or (asks and asks not in self.step.note):
            return verdict
        is_other = effects is not None and effects.code != self.step.code
        if objection := self.objection or (OTHER_CODE if is_other else ""):
            reasons = (objection if verdict.effect is Effect.ASK else "", verdict.reason or "")
            return replace(verdict, reason="; ".join(filter(None, reasons)) or None)
        return Verdict(Effect.ALLOW, self.by, decision=schema.Decision.APPROVED)

    def grant(self, tool: Tool, scope: schema.Scope, effects: Effects | None = None) -> None:
        """Remember a permission that the user gave beside the plan."""
        self.policy.grant(tool, scope, effects)


def planning_context(context: ToolContext) -> ToolContext:
    """Return a context in which calls are checked and none runs."""
    return replace(
        context, policy=PlanningPolicy(context.policy), dry_run=PLANNED_OUTPUT, planning=True
    )


def is_plan(run: schema.Run) -> bool:
    """Return whether the newest reply's calls could all be approved as they are."""
    calls = run.steps[-1].executions
    return bool(calls) and all(
        call.dry_run and call.status is schema.ToolStatus.SUCCESS for call in calls
    )


def proposed_steps(run: schema.Run) -> tuple[schema.PlanStep, ...]:
    """Return the steps that a planning run proposed; a step's note is its item of the list."""
    newest = run.steps[-1]
    notes = _NUMBERED.findall(newest.message.text) if newest.message else []
    if len(notes) != len(newest.executions):
        notes = [""] * len(newest.executions)
    calls = (execution.call for execution in newest.executions)
    return tuple(
        schema.PlanStep(call=call, note=note) for call, note in zip(calls, notes, strict=True)
    )


async def add_code(context: ToolContext, steps: Sequence[schema.PlanStep]) -> list[schema.PlanStep]:
    """Return the steps with the code of cells that they name, as the steps before leave it."""
    edited, shown = dict[object, str](), list[schema.PlanStep]()
    for step in steps:
        given = step.call.arguments
        if step.call.name == "edit_cell" and given.get("path") is None:
            edited[given.get("cell")] = str(given.get("source"))
        code = await show_code(context, step.call)
        code = edited.get(given.get("cell"), code) if step.call.name == "run_cell" else code
        shown.append(context.stream.redactor.record(step.model_copy(update={"code": code})))
    return shown


def notebook_step(toolbox: Toolbox, steps: Iterable[schema.PlanStep]) -> str | None:
    """Return the first step that needs the notebook's main thread; None if the cell may end."""
    for number, step in enumerate(steps, 1):
        name = step.call.name
        if name in toolbox and toolbox.get(name).where in (Where.MAIN, Where.RELAY):
            return f"step {number} ({name})"
    return None


async def create_draft(
    session: Session,
    context: ToolContext,
    origin: schema.Run,
    steps: Iterable[schema.PlanStep],
    *,
    changed: bool = False,
) -> schema.Run:
    """Create a plan and store it before anybody sees it.

    `origin` is its planning run, or the plan that it replaces. Raises AgentError for steps that
    cannot run.
    """
    run_id, given = uuid.uuid4().hex[:12], enumerate(await add_code(context, [*steps]), 1)
    plan = tuple(prepare_step(context, f"{run_id}_{n}", step) for n, step in given)
    if not plan:
        raise AgentError("a plan has at least one step; to have none of them, deny it")
    plan_id = plan_name(plan)
    draft = origin.model_copy(
        update={
            "id": run_id,
            "parent_id": origin.parent_id if origin.plan else origin.id,
            "context": APPROVED.format(plan_id=plan_id, changed=CHANGED if changed else ""),
            "plan": plan,
            "plan_id": plan_id,
            "max_steps": len(plan),
            "started_at": schema.now(),
            **AS_DRAFT,
        }
    )
    if changed:
        session.journal.cancel(session.id, origin.id)
    session.journal.draft(draft, session.id)
    return draft


def prepare_step(context: ToolContext, call_id: str, step: schema.PlanStep) -> schema.PlanStep:
    """Return the step as it would run. Its call gets a new id: providers refuse a used one."""
    given = step.call
    tool = context.toolbox.get(given.name)
    arguments = tool.check_arguments(given.arguments)
    verdict = PlanningPolicy(context.policy).evaluate(tool, arguments)
    check_unredacted(tool, given)
    if verdict.effect is Effect.DENY:
        raise AgentError(f"{tool.name} is not allowed: {verdict.reason}")
    if tool.validate is not None:
        tool.validate(**arguments)
    lines = [line for line in step.note.splitlines() if not line.startswith(CONCERN_MARK)]
    if verdict.effect is Effect.ASK and verdict.reason:
        lines.append(CONCERN_MARK + verdict.reason)
    call = schema.ToolCall(id=call_id, name=given.name, arguments=given.arguments)
    return schema.PlanStep(call=call, note="\n".join(lines), code=step.code)


_PATIENCE = 0.4
"""Seconds that a question waits for a rehearsal, which is shown in it once it ends."""
Rehearsals = tuple[schema.Rehearsal | None, ...]


@asynccontextmanager
async def rehearsing(
    context: ToolContext, plan: Sequence[schema.PlanStep], show: Callable[[Rehearsals], object]
) -> AsyncIterator[None]:
    """Try a plan while the user is asked about it; `show` gets what its steps would change.

    The context begins once that is known, or the question need wait no longer.
    """
    rehearsal = context.rehearsal
    steps = [place for place, step in enumerate(plan) if _may_try(context, step.call)]
    if rehearsal is None or not steps:
        yield
        return
    beside = rehearsal.beside_question()
    task = asyncio.create_task(_rehearse(context, beside or rehearsal, plan, steps))
    try:
        await asyncio.wait([task], timeout=_PATIENCE if beside else None)
        if task.done():
            show(task.result())
        else:
            task.add_done_callback(lambda done: done.cancelled() or show(done.result()))
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def only_look(context: ToolContext, calls: Sequence[schema.ToolCall]) -> bool:
    """Return whether all calls are code that changes nothing, tried in turn on a copy."""
    rehearsal = context.rehearsal
    if rehearsal is None or not all(_may_try(context, call) for call in calls):
        return False
    tried = await _try(context, rehearsal, calls)
    return all(each.rehearsal.outcome is schema.RehearsalOutcome.LOOKED for each in tried)


def _may_try(context: ToolContext, call: schema.ToolCall) -> bool:
    if call.parse_error is not None or call.name not in context.toolbox:
        return False
    tool = context.toolbox.get(call.name)
    try:
        arguments = tool.check_arguments(call.arguments)
    except AgentError:
        return False
    return tool.make_rehearser is not None and context.policy.evaluate(tool, arguments).may_look


async def _try(
    context: ToolContext, rehearsal: RehearsalContext, calls: Sequence[schema.ToolCall]
) -> Sequence[Rehearsed]:
    """Try calls that may be tried, in turn."""
    tools = [context.toolbox.get(call.name) for call in calls]
    assert tools[0].make_rehearser is not None  # noqa: S101 - it may be tried
    codes = [
        get_command(tool.check_arguments(call.arguments), tool.command or "") or ""
        for tool, call in zip(tools, calls, strict=True)
    ]
    return await tools[0].make_rehearser().rehearse(codes, rehearsal)


async def _rehearse(
    context: ToolContext,
    rehearsal: RehearsalContext,
    plan: Sequence[schema.PlanStep],
    steps: Sequence[int],
) -> Rehearsals:
    """Try those of the steps that nothing comes before but reading and other code."""
    found: list[schema.Rehearsal | None] = [None] * len(plan)
    tools = [context.toolbox.get(step.call.name) for step in plan]
    obstacle = next(
        (n for n, tool in enumerate(tools) if tool.sensitive and n not in steps), len(plan)
    )
    reason = f"step {obstacle + 1} comes first, and is no code that can be tried"
    for place in steps:
        found[place] = schema.Rehearsal(outcome=schema.RehearsalOutcome.SKIPPED, reason=reason)
    tried = [place for place in steps if place < obstacle]
    if tried:
        rehearsed = await _try(context, rehearsal, [plan[place].call for place in tried])
        for place, each in zip(tried, rehearsed, strict=True):
            asked = each.as_asked().rehearsal
            shown = asked.model_copy(update={"result": asked.result or each.result})
            found[place] = context.prepare_rehearsal(tools[place].name, shown)
    return tuple(found)


CHANGE_REQUEST = """\
This step of the plan failed, and its result says why. If another {argument} serves the same \
purpose, call {tool} once with it: only {argument} may differ, what was tried is not repeated, and \
nothing is deleted or overwritten on the way. The user is asked before it runs. If there is no \
such {argument}, say why and call nothing.\
"""

CONCERN = "changed after it failed"


@dataclass(frozen=True)
class ChangedCallPolicy:
    """A policy for a changed call: always ask the user, or refuse it."""

    policy: CallPolicy
    objection: str | None

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        if verdict.effect is Effect.DENY:
            return verdict
        if self.objection:
            return Verdict(Effect.DENY, reason=self.objection)
        reasons = (CONCERN, verdict.reason if verdict.effect is Effect.ASK else None)
        return Verdict(Effect.ASK, reason="; ".join(filter(None, reasons)))

    def grant(self, tool: Tool, scope: schema.Scope, effects: Effects | None = None) -> None:
        """Do nothing: an approval covers this call alone."""


def command_of(tool: Tool, call: schema.ToolCall) -> str | None:
    """Return the code or command of a call, if it has one."""
    return get_command(call.arguments, tool.command) if tool.command else None


def normalize_reply(
    message: schema.Message, tool: Tool, planned: schema.ToolCall, call_id: str
) -> schema.Message:
    """Return the reply with calls that are named after `planned` and give only the command."""
    content: list[schema.Block] = []
    for block in message.content:
        if isinstance(block, schema.ToolCall):
            changes: dict[str, object] = {"id": call_id}
            command = command_of(tool, block) if block.name == tool.name else None
            if tool.command and command is not None:
                changed = replace_command(planned.arguments, tool.command, command)
                changes["arguments"] = changed
            block, call_id = block.model_copy(update=changes), f"{call_id}.1"
        content.append(block)
    return message.model_copy(update={"content": tuple(content)})


def find_objection(
    tool: Tool, proposed: Iterable[schema.ToolCall], tried: Iterable[schema.ToolCall]
) -> str | None:
    """Return why the proposed calls are not shown to the user, or None."""
    call, *others = proposed
    command = command_of(tool, call)
    if others or call.name != tool.name or call.parse_error or command is None:
        return f"it is not one call of {tool.name} with another {tool.command}"
    earlier = (command_of(tool, each) or "" for each in tried)
    if _collapse_spaces(command) in map(_collapse_spaces, earlier):
        return "it was tried before, and failed"
    if form := find_destructive(command):
        return f"a step that failed is not replaced by one that may destroy something: {form}"
    return None


def find_destructive(command: str) -> str | None:
    """Return the part of a command, or of Python code, that clearly destroys something."""
    # Python code may hold a command as text, and a command may pass for Python. A shell runs
    # r""m -rf and ["rm", "-rf"] as rm.
    plain, joined = re.sub(r"['\"\\\[\],]+", " ", command), re.sub(r"['\"\\]+", "", command)
    for text in (command, plain, joined):
        if form := _DESTRUCTIVE.search(text):
            return _collapse_spaces(form[0])
    return next(_removal_calls(command), None)


def _collapse_spaces(command: str) -> str:
    return " ".join(command.split())


def _removal_calls(code: str) -> Iterator[str]:
    """Yield the calls in Python code that remove files or folders."""
    if (tree := try_parse(code)) is None:
        return
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in _REMOVERS:
                yield name
            case ast.Name(id=name) if names.get(name) in _REMOVERS:
                yield names[name]
            case ast.Constant(value=str(name)) if name in _REMOVERS - _WORDS:
                yield name  # as in getattr(shutil, "rmtree")


_REMOVERS = frozenset({"rmtree", "remove", "removedirs", "unlink", "rmdir", "truncate", "killpg"})
"""`list.remove` is taken for `os.remove` too: a refusal costs little."""

_WORDS = frozenset({"remove", "truncate"})
"""The removers that are also ordinary words in text."""

_DESTRUCTIVE = re.compile(
    r"""(?ix)
      \brm\s+[-\w./~*$]
    | \b(?:rmdir|shred|wipefs|truncate|unlink)\s+\S
    | \bmkfs(?:\.\w+)?\b | \bfdisk\b | \bparted\b
    | \bdd\b[^|;&\n]*\bof=
    | >\s*/(?:dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)|etc/|proc/|sys/|boot/)
    | \bfind\b[^|;&\n]*\s-(?:delete\b|exec(?:dir)?\s+(?:rm|shred|unlink)\b)
    | \bxargs\b[^|;&\n]*\b(?:rm|shred|unlink)\b
    | \brsync\b[^|;&\n]*\s--del
    | \bgit\s+(?:-\S+\s+(?:\S+=\S+\s+)?)*(?:
          reset\s[^|;&\n]*--hard | clean\s[^|;&\n]*-[a-z]*[fdx]
        | push\s[^|;&\n]*(?:-f\b|--force|\s\+\w) | checkout\s+(?:--\s+)?\.(?:\s|$)
        | restore\s+\. | branch\s+-D | stash\s+(?:drop|clear) )
    | \bch(?:mod|own|grp)\s+(?:-\S+\s+)*(?:-[a-z]*R|--recursive)
    | \bkill(?:all)?\s+(?:-\S+\s+)*-\s?(?:9|KILL|SIGKILL)\b | \bpkill\b
    | \b(?:curl|wget|fetch)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|z|da|k|c)?sh\b
    | \b(?:curl|wget)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:python|perl|ruby|node)\S*
    | \b(?:ba|z|da)?sh\s+(?:-c\s+)?[<"'(\s]*[<$]\(?\s*\(?\s*(?:curl|wget)\b
    | \bdrop\s+(?:table|database|schema|index|view)\b | \btruncate\s+table\b
    | \bdelete\s+from\s+\S+\s*(?:;|["']|$)
    | :\(\)\s*\{ | \b(?:shutdown|reboot|halt|poweroff)\b
    | \bdocker\s+(?:system|volume|image|container)\s+(?:prune|rm)\b
    """
)
